-- Which commands this user may not run, by the server's own rules: running them to see would fill its log of denials, or change
-- somebody's key. ARGV[1] a key that is not touched, of KIND 'line' that of a line for which there is no resource. ARGV[2] and on:
-- of 'line' the client's channel, and otherwise the commands to ask for. Redis 6 cannot tell: those of a line are run there, with
-- what changes nothing. Where all commands with a key are refused it is the key that is not allowed, which the first use will say.
local key, missing, keyed, allowed = ARGV[1], {}, 0, 0
local may_ask = redis.acl_check_cmd
local function check(words)
  local may = true
  if may_ask then
    may = may_ask(unpack(words))
  elseif words[1] ~= 'subscribe' and words[1] ~= 'client' then
    local said = redis.pcall(unpack(words))
    may = type(said) ~= 'table' or not string.find(said.err or '', 'The user executing the script', 1, true)
  end
  if words[2] == key then keyed, allowed = keyed + 1, allowed + (may and 1 or 0) end
  if not may then missing[#missing + 1] = words[1] end
end
if KIND == 'line' then
  for _, words in ipairs({{'exists', key}, {'zcard', key}, {'zrank', key, ''}, {'zrange', key, '1', '0'},
    {'zrangebyscore', key, '1', '0'}, {'pttl', key}, {'zadd', key, 'XX', '0', ''}, {'zrem', key, ''}, {'pexpire', key, '1'},
    {'publish', ARGV[2], ''}, {'subscribe', ARGV[2]}, {'client', 'caching', 'yes'}}) do
    check(words)
  end
  return missing
end
local words = {
  set = {key, ''}, getrange = {key, '0', '1'}, del = {key}, unlink = {key}, pttl = {key}, pexpire = {key, '1'},
  hget = {key, ''}, hmget = {key, ''}, hset = {key, '', ''}, rename = {key, key}, time = {}, evalsha = {'', '0'},
}
for index = 2, may_ask and #ARGV or 1 do check({ARGV[index], unpack(words[ARGV[index]])}) end
return (keyed == 0 or allowed > 0) and missing or {}
