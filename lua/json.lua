-- JSON texts that are shown as they came: decoding and encoding would change [] and long numbers.

-- An object's text with members added whose values are JSON texts already: name, text, …
function Json.with(object, ...)
  local parts, more = { string.sub(object, 1, -2) }, { ... }
  for n = 1, #more, 2 do
    parts[#parts + 1] = ',"' .. more[n] .. '":' .. more[n + 1]
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
