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

-- -> all that there is in a table, by the names of the fields; empty if there is nothing
function Hash.all(name)
  local fields, record = call('HGETALL', name), {}
  for n = 1, #fields, 2 do
    record[fields[n]] = fields[n + 1]
  end
  return record
end

-- Sets the fields of this table, by name. (Where each call comes, the list is written out: a table costs more.)
function Hash.write(name, fields)
  local list = {}
  for field, value in pairs(fields) do
    list[#list + 1] = field
    list[#list + 1] = value
  end
  call('HSET', name, unpack(list))
end
