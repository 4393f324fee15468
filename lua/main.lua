-- The way in: functions of a library for calls with KEYS, a script for calls without. While a library is loaded it may
-- do nothing but register functions, so the modules are made by the first call.
local modules

local function serve(class)
  return function(keys, args)
    if #keys == 0 then
      return redis.error_reply('BADARG a call without KEYS is made by EVALSHA, not by FCALL')
    end
    modules = modules or build()
    return modules.Call.serve(keys, args, class)
  end
end

local function register(name, class, flags)
  redis.register_function({ function_name = name .. '_' .. class, callback = serve(class), flags = flags })
end

-- The loader of a library calls this with the library's name.
local Qless = {
  register = function(library)
    register(library, 'read', { 'no-writes' })
    register(library, 'write', {})
    register(library, 'drain', { 'allow-oom' })
  end,
}

if not redis.register_function then
  if #KEYS > 0 then
    return redis.error_reply('BADARG a call with KEYS is made by FCALL, not by EVALSHA')
  end
  return build().Call.serve_old(ARGV)
end
