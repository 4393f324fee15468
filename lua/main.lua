-- The way in: three functions of a library, or one script. What a library may do while it is
-- loaded is to register functions, nothing else; so the modules are built by the first call.
local with_keys, without_keys

local function serve(keys, args, class)
  if #keys == 0 then
    without_keys = without_keys or build(true)
    return without_keys(args)
  end
  with_keys = with_keys or build(false)
  return with_keys(keys, args, class)
end

-- The loader of a library calls this with the library's name.
local Qless = {
  register = function(library)
    redis.register_function({
      function_name = library .. '_read',
      callback = function(keys, args)
        return serve(keys, args, 'read')
      end,
      flags = { 'no-writes' },
    })
    redis.register_function({
      function_name = library .. '_write',
      callback = function(keys, args)
        return serve(keys, args, 'write')
      end,
    })
    redis.register_function({
      function_name = library .. '_drain',
      callback = function(keys, args)
        return serve(keys, args, 'drain')
      end,
      flags = { 'allow-oom' },
    })
  end,
}

if not redis.register_function then
  return serve(KEYS, ARGV)
end
