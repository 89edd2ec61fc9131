-- Stands before extend.lua and restore.lua in classic mode, where nodes have no marker and their clock is not read.
local now = 0
local function value_of(key)
  local value = redis.pcall('GETRANGE', key, '0', '63')
  return type(value) == 'string' and value
end

-- As in admitted.lua: a later end stays as it is.
local function prolong(key, ttl)
  if redis.call('PTTL', key) < ttl then
    redis.call('PEXPIRE', key, ttl)
  end
end
