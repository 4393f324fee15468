-- The Lua of Redis and Valkey: 5.1, with a few libraries of the server's own. What is checked is the built
-- file, in which the modules see each other.
std = 'lua51'
max_line_length = 140

read_globals = { 'redis', 'cjson', 'cmsgpack', 'bit', 'struct', 'KEYS', 'ARGV' }

-- What the loader of a library appends uses main.lua's Qless.
ignore = { '211/Qless', '241/Qless' }
