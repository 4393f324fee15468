-- The Lua of Redis and Valkey: 5.1, with a few libraries of the server's own.
std = 'lua51'
max_line_length = 140

read_globals = { 'redis', 'cjson', 'cmsgpack', 'bit', 'struct', 'KEYS', 'ARGV' }

-- head.lua declares it for all the others: they are one chunk in the end (lua/build.py).
files['lua'] = { globals = { 'Qless' } }
files['lua/head.lua'] = { ignore = { '211/Qless', '241/Qless' } }

-- main.lua stands outside the function that lua/build.py makes of the other modules, and what
-- the loader of a library appends uses its Qless.
files['lua/main.lua'] = { read_globals = { 'build' }, ignore = { '211/Qless' } }
