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
redis.call('SET', KEYS[3], exact(token), 'EX', 86400)
raise_high(token)
return {1, now}
