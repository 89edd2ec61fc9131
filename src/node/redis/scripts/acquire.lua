-- KEYS[4] the resource. ARGV etag, owner, ttl in ms, hint (16 digits), latest node time in us (0: none), and the
-- highest high-water mark that was seen in this era.
-- A number, our time: granted, and the counter is the hint. {1, now, counter, high-water mark} granted;
-- {0, now, remaining ms, holder or nil} denied; {-1, now} not in that state any more; {-3, now} too late;
-- {-4, now} the counters are at their end.
local resource, owner, ttl = KEYS[4], ARGV[2], ARGV[3]
local hint, latest, known_high = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local etag, high, passed, entry = unpack(redis.call('HMGET', COUNTERS, ETAG, HIGH, PASSED, resource))
high = tonumber(high or 0)
-- A high-water mark below what was seen is that of older data, such as a backup.
if etag ~= ARGV[1] or high < known_high then
  return {-1, now}
end
if latest > 0 and now > latest then
  return {-3, now}
end

if not redis.call('SET', resource, owner, 'NX', 'PX', ttl) then
  local holder, remaining = value_of(resource), redis.call('PTTL', resource)
  if holder and remaining > tonumber(ttl) then
    -- A lease that we granted never has more left than the fleet's longest ttl, unless our clock was set back since.
    -- Only one that we granted is cut: other libraries' values look the same, and may live longer.
    local longest = tonumber(redis.call('HGET', NODE, 'max_ttl'))
    entry = entry or redis.call('HGET', OLDER, resource)
    if remaining > longest and entry and string.sub(entry, 17) == holder then
      redis.call('PEXPIRE', resource, longest)
      remaining = longest
    end
  end
  return {0, now, remaining, holder or nil}
end

-- Fast path: the counter is below the hint, and the hint not above the high-water mark. Where there is no counter in
-- this generation, none of the one before is above `passed`.
local counter = tonumber(entry and string.sub(entry, 1, 16) or passed)
if counter and counter < hint and hint <= high then
  redis.call('HSET', COUNTERS, resource, ARGV[4] .. owner)
  return now
end

entry = entry or redis.call('HGET', OLDER, resource)
local floor = tonumber(redis.call('HGET', NODE, 'floor'))
-- We never granted a counter above our high-water mark, so that what stands above it, or is no number, is not ours:
-- counting on from the mark is enough, and keeps it from spreading.
counter = entry and math.min(tonumber(string.match(entry, '^%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d')) or high, high) or floor
counter = math.max(math.min(hint, now + AHEAD), counter + 1)
if counter >= NUMBERS_END then
  redis.call('DEL', resource)
  return {-4, now}
end
redis.call('HSET', COUNTERS, resource, digits(counter) .. owner)
if counter > high then
  -- It runs half a minute ahead, so that it is seldom written.
  high = math.max(high, counter, math.min(hint + AHEAD / 2, now + AHEAD))
  set_high(high)
end
return {1, now, counter, high}
