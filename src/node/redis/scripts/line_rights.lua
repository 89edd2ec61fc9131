-- ARGV[1] the key of a line for which there is no resource, ARGV[2] the client's channel. The first command for the line
-- that this user may not run, or nothing. The server's own rules are asked, as in rights.lua; Redis 6 has no way to ask,
-- and there they are run with what changes nothing.
local key, channel = ARGV[1], ARGV[2]
local commands = {
  {'exists', key}, {'zcard', key}, {'zrank', key, ''}, {'zrange', key, '1', '0'}, {'zrangebyscore', key, '1', '0'},
  {'pttl', key}, {'zadd', key, 'XX', '0', ''}, {'zrem', key, ''}, {'pexpire', key, '1'}, {'publish', channel, ''},
}
local asked = {{'subscribe', channel}, {'client', 'caching', 'yes'}}
for _, command in ipairs(commands) do
  local may = true
  if redis.acl_check_cmd then
    may = redis.acl_check_cmd(unpack(command))
  else
    local answer = redis.pcall(unpack(command))
    may = type(answer) ~= 'table' or not string.find(answer.err or '', 'The user executing the script', 1, true)
  end
  if not may then
    return command[1]
  end
end
for _, command in ipairs(redis.acl_check_cmd and asked or {}) do
  if not redis.acl_check_cmd(unpack(command)) then
    return command[1]
  end
end
return false
