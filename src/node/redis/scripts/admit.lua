-- KEYS marker; ARGV run_id, floor. Lets a joining node vote; its counters start above the floor.
-- {1, now} it is ready now, {0, now} somebody else has changed its state.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local m = redis.call('HMGET', KEYS[1], 'run_id', 'state', 'floor', 'high')
if m[1] ~= ARGV[1] or m[2] ~= 'joining' then
  return {0, now}
end
local floor = math.max(tonumber(ARGV[2]), tonumber(m[3] or 0), tonumber(m[4] or 0))
local exact = string.format('%.0f', floor)
redis.call('HSET', KEYS[1], 'state', 'ready', 'floor', exact, 'passed', exact, 'high', exact, 'turned', time[1])
return {1, now}
