-- KEYS marker, resource, fence; ARGV era (or empty), owner, ttl in ms, hint, latest node time in us (0: none),
-- run_id. An integer, the node's time in us: granted, and the counter is the hint. Otherwise an array:
-- {1, now, counter, era, floor, high, longest ttl, turned} granted; {0, now, remaining ms, holder or nil} denied;
-- {-1, now} not admitted; {-2, now} the ttl is above the fleet's longest; {-3, now} too late;
-- {-4, now} the counter is at its end.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local fence, text = tonumber(ARGV[4]), ARGV[4]
-- Who knows the node's era has seen it ready in it, with a floor below the hint, a `high` that is not below
-- it, and a longest ttl and a turn that allow for this acquire. Nothing more has to be read then.
local known = now <= tonumber(ARGV[5]) and redis.call('HGET', KEYS[1], 'era') == ARGV[1]
local m
if not known then
  m = redis.call('HMGET', KEYS[1], 'run_id', 'state', 'max_ttl', 'floor', 'passed', 'high', 'turned', 'era')
  if m[1] ~= ARGV[6] or m[2] ~= 'ready' then
    return {-1, now}
  end
  if tonumber(ARGV[3]) > tonumber(m[3]) then
    return {-2, now}
  end
  if ARGV[5] ~= '0' and now > tonumber(ARGV[5]) then
    return {-3, now}
  end
  -- A counter lives for a day after its last grant. Before one can have expired, the floor has been raised
  -- above it: what was the highest at a turn becomes the floor at the next one, eleven hours later. As this
  -- floor may serve for eleven hours more, it must not be older than thirteen now. (A little less than that:
  -- seconds are whole here.)
  local since = tonumber(time[1]) - tonumber(m[7])
  if since < 0 or since > 39500 then
    m[4] = (since < 0 or since > 46700) and m[6] or m[5]
    m[5], m[7] = m[6], time[1]
    m[8] = string.match(m[8] or string.format('%.0f', now), '^%d+') .. '.' .. time[1]
    redis.call('HSET', KEYS[1], 'floor', m[4], 'passed', m[5], 'turned', m[7], 'era', m[8])
  end
  -- A hint from a broken clock must not push the counter to its end.
  local floor = tonumber(m[4])
  if fence > now + 60000000 or fence <= floor then
    fence = math.max(math.min(fence, now + 60000000), floor + 1)
    text = string.format('%.0f', fence)
  end
end
if not redis.call('SET', KEYS[2], ARGV[2], 'NX', 'PX', ARGV[3]) then
  local holder = redis.pcall('GET', KEYS[2])
  local remaining = redis.call('PTTL', KEYS[2])
  if type(holder) ~= 'string' then
    return {0, now, remaining}
  end
  -- No lease of ours has more left than the longest ttl, unless the node's clock was set back. Then its counter,
  -- which was set for a day together with it, has more than a day left. Other programs' locks may be longer.
  local longest = redis.call('HGET', KEYS[1], 'max_ttl')
  if remaining > tonumber(longest) and redis.call('PTTL', KEYS[3]) > 86400000 and #holder == 32 then
    redis.call('PEXPIRE', KEYS[2], longest)
    remaining = tonumber(longest)
  end
  return {0, now, remaining, holder}
end
local old = redis.pcall('SET', KEYS[3], text, 'EX', '86400', 'GET')
-- What stood there is false where there was nothing, and a table where it was no string.
local behind = type(old) == 'string' and (tonumber(old) or math.huge) >= fence
if known and not behind and type(old) ~= 'table' then
  return now
end
if behind then
  -- Numbers are doubles: exact below 2^53, and printed in full only with %.0f.
  fence = (tonumber(old) or math.huge) + 1
  redis.call('SET', KEYS[3], fence < 9007199254740992 and string.format('%.0f', fence) or old, 'EX', 86400)
end
if type(old) == 'table' or fence >= 9007199254740992 then
  redis.call('DEL', KEYS[2])
  return {-4, now}
end
-- No counter ever issued here is above `high`. It runs half a minute ahead of the hints, so that it is seldom
-- written, and an acquire seldom has to look at it; but no more than a minute ahead of the clock, since whoever
-- knows the era may send any hint up to it.
local high = tonumber(known and redis.call('HGET', KEYS[1], 'high') or m[6])
if not known or fence > high then
  local ahead = math.min(tonumber(ARGV[4]) + 30000000, now + 60000000)
  high = math.max(high, ahead, fence)
  redis.call('HSET', KEYS[1], 'high', string.format('%.0f', high))
end
if known then
  return {1, now, fence}
end
return {1, now, fence, m[8], m[4], high, m[3], m[7]}
