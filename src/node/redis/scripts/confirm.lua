-- KEYS marker, resource, fence; ARGV run_id, owner, token. {1, now} confirmed; {0, now} refused.
-- Without the guard `counter <= token` two holders can get one token.
if redis.pcall('GET', KEYS[2]) ~= ARGV[2] then
  return {0, now}
end
local counter = redis.pcall('GET', KEYS[3])
local fence, token = type(counter) == 'string' and tonumber(counter), tonumber(ARGV[3])
if not fence or fence > token then
  return {0, now}
end
redis.call('SET', KEYS[3], ARGV[3], 'EX', 86400)
if token > tonumber(redis.call('HGET', KEYS[1], 'high')) then
  redis.call('HSET', KEYS[1], 'high', ARGV[3])
end
return {1, now}
