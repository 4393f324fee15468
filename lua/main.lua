-- The way in: the functions of a library for calls with KEYS, a script for calls without. What a library may
-- do while it is loaded is to register functions, nothing else; so the modules are built by the first call.
local with_keys

local function serve(keys, args, class)
  if #keys == 0 then
    return redis.error_reply('BADARG a call without KEYS is made by EVALSHA, not by FCALL')
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
  if #KEYS > 0 then
    return redis.error_reply('BADARG a call with KEYS is made by FCALL, not by EVALSHA')
  end
  return build(true)(ARGV)
end
