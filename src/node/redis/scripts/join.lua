-- KEYS marker; ARGV run_id, longest ttl in ms, force. A node that is not admitted under this run_id, or is
-- forced, is marked as joining. {1 or 0, now, longest ttl, high, floor}: 1 ready, 0 joining.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local m = redis.call('HMGET', KEYS[1], 'run_id', 'state', 'max_ttl', 'floor', 'high')
if m[1] ~= ARGV[1] or ARGV[3] == '1' and m[2] == 'ready' then
  m[2] = 'joining'
  redis.call('HSET', KEYS[1], 'run_id', ARGV[1], 'state', 'joining')
end
if tonumber(ARGV[2]) > tonumber(m[3] or 0) then
  m[3] = ARGV[2]
  redis.call('HSET', KEYS[1], 'max_ttl', ARGV[2])
end
return {m[2] == 'ready' and 1 or 0, now, tonumber(m[3]), tonumber(m[5] or 0), tonumber(m[4] or 0)}
