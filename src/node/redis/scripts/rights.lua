-- ARGV[1] a key that is not touched. The commands that the scripts and the client run and that this user may not, by
-- asking the server's own rules: running them to see would fill its log of denials, or change somebody's key. Where all
-- of them are refused it is the key that is not allowed, which the first use of one will say; and Redis 6 cannot tell.
-- ARGV[2] and on: the commands to ask for.
if not redis.acl_check_cmd then
  return {}
end
local key = ARGV[1]
local words = {
  set = {key, ''}, getrange = {key, '0', '1'}, del = {key}, unlink = {key}, pttl = {key}, pexpire = {key, '1'},
  hget = {key, ''}, hmget = {key, ''}, hset = {key, '', ''}, rename = {key, key}, time = {}, evalsha = {'', '0'},
}
local missing, keyed, allowed = {}, 0, 0
for index = 2, #ARGV do
  local name = ARGV[index]
  local may = redis.acl_check_cmd(name, unpack(words[name]))
  if words[name][1] == key then
    keyed = keyed + 1
    allowed = allowed + (may and 1 or 0)
  end
  if not may then
    missing[#missing + 1] = name
  end
end
return (keyed == 0 or allowed > 0) and missing or {}
