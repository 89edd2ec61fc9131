-- ARGV identity, era, the highest known counter, a floor by a wall clock in us (0: none). Lets a node that is joining
-- since this era vote, with counters above both; a wall clock from a broken machine must not push them to their end.
-- {1, now} it is ready now, {0, now} somebody else has changed its state.
local identity, state, era, floor, high_water =
  unpack(redis.call('HMGET', NODE, 'identity', 'state', 'era', 'floor', 'high_water'))
if identity ~= ARGV[1] or state ~= 'joining' or era ~= ARGV[2] then
  return {0, now}
end
local wall = math.min(tonumber(ARGV[4]), now + 2 * AHEAD)
floor = digits(math.max(tonumber(ARGV[3]), wall, tonumber(floor or 0), tonumber(high_water or 0)))
era = string.format('%.0f', math.max(now, tonumber(era) + 1))
redis.call('HSET', NODE, 'state', 'ready', 'era', era, 'seal', '0', 'floor', floor, 'next_floor', floor,
  'high_water', floor, 'rotated_at', time[1], 'older', '0', 'flags', '', 'waited', '', 'begun', floor)
local run_id, rest = string.match(identity, '^(%w+)(/.*)$')
local etag = era .. '.0/' .. string.sub(run_id, 1, 8) .. rest
begin_counters(etag .. ' ' .. floor .. ' ' .. floor)
return {1, now}
