-- The fence for Redis and Valkey: a holder that comes too late gets the error STALE, and changes nothing.
--
-- KEYS the value and its fence, in one slot; ARGV the token, and for a write the new value. A write answers OK. Without a
-- new value it reads, and keeps earlier holders out from then on: for where the new value is made of the old one.
--
--     redis-cli -e --eval redis.lua '{invoice:42}' '{invoice:42}:fence' , 1795170000123457 paid
--
-- Other commands may take the place of SET and GET below; all of them after the fence. From Redis 7.0 on it can be a function:
--
--     (printf '#!lua name=fence\nredis.register_function("fence", function(KEYS, ARGV)\n'; cat redis.lua; echo 'end)') |
--         redis-cli -x FUNCTION LOAD
--     redis-cli FCALL fence 2 '{invoice:42}' '{invoice:42}:fence' 1795170000123457 paid
--
-- The fence must not expire or be evicted before the value. A failover that loses writes loses the fence with them.
local token = ARGV[1] or ''
if #KEYS ~= 2 or not string.match(token, '^[1-9]%d*$') or tonumber(token) >= 2 ^ 53 then
  return redis.error_reply('NOTOKEN two keys and a fencing token are needed, and perhaps a new value')
end
local fence = tonumber(redis.call('GET', KEYS[2]) or 0)
if fence > tonumber(token) then
  return redis.error_reply('STALE a later holder has been here; stop the work, and acquire anew')
end
-- As it came: a number that Lua turns into text loses digits.
redis.call('SET', KEYS[2], token)
if ARGV[2] then
  return redis.call('SET', KEYS[1], ARGV[2])
end
return redis.call('GET', KEYS[1])
