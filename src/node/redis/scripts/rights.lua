-- Which commands this user may not run, by the server's own rules: running them to see would fill its log of denials, or change
-- somebody's key. ARGV[1] a key that is not touched, of KIND 'line' that of a line for which there is no resource. ARGV[2] and on:
-- of 'line' the client's channel, and otherwise the commands to ask for. Redis 6 cannot tell: those of a line are run there, with
-- what changes nothing. Where all commands with a key are refused it is the key that is not allowed, which the first use will say.
local key, missing = ARGV[1], {}
if KIND == 'line' then
  for _, words in ipairs({{'exists', key}, {'zcard', key}, {'zrank', key, ''}, {'zrange', key, '1', '0'},
    {'zrangebyscore', key, '1', '0'}, {'pttl', key}, {'zadd', key, 'XX', '0', ''}, {'zrem', key, ''}, {'pexpire', key, '1'},
    {'publish', ARGV[2], ''}, {'subscribe', ARGV[2]}, {'client', 'caching', 'yes'}}) do
    local may = true
    if redis.acl_check_cmd then
      may = redis.acl_check_cmd(unpack(words))
    elseif words[1] ~= 'subscribe' and words[1] ~= 'client' then
      local said = redis.pcall(unpack(words))
      may = type(said) ~= 'table' or not string.find(said.err or '', 'The user executing the script', 1, true)
    end
    if not may then missing[#missing + 1] = words[1] end
  end
  return missing
end
local words = {
  set = {key, ''}, getrange = {key, '0', '1'}, del = {key}, unlink = {key}, pttl = {key}, pexpire = {key, '1'},
  hget = {key, ''}, hmget = {key, ''}, hset = {key, '', ''}, rename = {key, key}, time = {}, evalsha = {'', '0'},
}
local keyed, allowed = 0, 0
for index = 2, redis.acl_check_cmd and #ARGV or 1 do
  local name = ARGV[index]
  local may = redis.acl_check_cmd(name, unpack(words[name]))
  if words[name][1] == key then
    keyed, allowed = keyed + 1, allowed + (may and 1 or 0)
  end
  if not may then missing[#missing + 1] = name end
end
return (keyed == 0 or allowed > 0) and missing or {}
