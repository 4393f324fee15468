-- JSON texts that are shown as they came: decoding and encoding would change [] and long numbers.

-- An object's text with members added whose values are JSON texts already: name, text, …
function Json.with(object, ...)
  local parts, more = { string.sub(object, 1, -2) }, { ... }
  local separator = object == '{}' and '' or ','
  for n = 1, #more, 2 do
    parts[#parts + 1] = separator .. '"' .. more[n] .. '":' .. more[n + 1]
    separator = ','
  end
  return table.concat(parts) .. '}'
end

-- A list of texts.
function Json.list(texts)
  if #texts == 0 then
    return '{}' -- as cjson writes it, and as old clients expect it
  end
  return '[' .. table.concat(texts, ',') .. ']'
end

-- The value of a stored text that must be a table; an empty one if there is none. Raises an error if it cannot be read.
function Json.stored(text)
  if not text or text == '' or text == '{}' then
    return {}
  end
  local value = cjson.decode(text)
  if type(value) ~= 'table' then
    error('a list or an object was expected, not ' .. Errors.value(text))
  end
  return value
end

-- The same for who only shows it: an empty one, too, if it cannot be read.
function Json.shown(text)
  local fine, value = pcall(Json.stored, text)
  return fine and value or {}
end

-- A stored text as it may stand inside another one: null if there is none, or if it cannot be read.
function Json.text(text)
  return text and text ~= '' and pcall(Json.stored, text) and text or 'null'
end
