-- What the namespace says about itself.

-- meta -> now, clock, token, format, uses, and skews if there were any
function Meta.show(call)
  local shown = Pieces.hash(call.keys.meta)
  shown.now = string.format('%.6f', call.now)
  return cjson.encode(shown)
end
