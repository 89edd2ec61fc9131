-- KEYS marker; ARGV run_id, era, the highest known counter, a wall clock in us (0: none). Lets a node that is
-- joining since this era vote; its counters start above both, but a wall clock from a broken machine must not
-- push them to their end. {1, now} it is ready now, {0, now} somebody else has changed its state.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local m = redis.call('HMGET', KEYS[1], 'run_id', 'state', 'era', 'floor', 'high')
if m[1] ~= ARGV[1] or m[2] ~= 'joining' or m[3] ~= ARGV[2] then
  return {0, now}
end
local wall = math.min(tonumber(ARGV[4]), now + 60000000)
local floor = math.max(tonumber(ARGV[3]), wall, tonumber(m[4] or 0), tonumber(m[5] or 0))
floor = string.format('%.0f', floor)
local era = string.format('%.0f', math.max(now, tonumber(m[3]) + 1))
redis.call('HSET', KEYS[1], 'state', 'ready', 'era', era, 'floor', floor, 'passed', floor, 'high', floor,
  'turned', time[1])
return {1, now}
