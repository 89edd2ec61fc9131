-- KEYS marker; ARGV run_id, longest ttl in ms, era (0: none). A node that is not admitted under this run_id,
-- or is ready in this era, is marked as joining. {1 or 0, now, era, floor, high, longest ttl, turned}: 1
-- ready, 0 joining. The era is the node's time at its last change, or a little more where the clock did not go
-- on: whoever waits for a node, or knows something of it, does so for one era. A turn of the floor appends to it.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local m = redis.call('HMGET', KEYS[1], 'run_id', 'state', 'era', 'floor', 'high', 'max_ttl', 'turned')
local joins = m[1] ~= ARGV[1] or not m[2] or m[2] == 'ready' and m[3] and string.match(m[3], '^%d+') == ARGV[3]
if joins or not m[3] then
  m[2] = joins and 'joining' or m[2]
  m[3] = string.format('%.0f', math.max(now, tonumber(string.match(m[3] or '0', '^%d+')) + 1))
  redis.call('HSET', KEYS[1], 'run_id', ARGV[1], 'state', m[2], 'era', m[3])
end
if tonumber(ARGV[2]) > tonumber(m[6] or 0) then
  m[6] = ARGV[2]
  redis.call('HSET', KEYS[1], 'max_ttl', ARGV[2])
end
return {m[2] == 'ready' and 1 or 0, now, m[3], m[4] or '0', m[5] or '0', m[6], m[7] or '0'}
