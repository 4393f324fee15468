-- The fields of a hash, by their names.

-- -> what stands in each of these fields, in this order; false where there is nothing
function Hash.values(name, ...)
  return unpack(call('HMGET', name, ...))
end

-- -> the same in a table, by the names of the fields
function Hash.read(name, fields)
  local values, record = call('HMGET', name, unpack(fields)), {}
  for n = 1, #fields do
    record[fields[n]] = values[n]
  end
  return record
end
