-- KEYS marker, resource, fence; ARGV run_id, owner, ttl in ms, hint, latest node time in us (0: none).
-- {1, now, counter} granted; {0, now, remaining ms, holder or nil} denied; {-1, now} not admitted;
-- {-2, now} the ttl is above the fleet's longest; {-3, now} too late; {-4, now} the counter is at its end.
local max_ttl = tonumber(m[3])
if tonumber(ARGV[3]) > max_ttl then
  return {-2, now}
end
if ARGV[5] ~= '0' and now > tonumber(ARGV[5]) then
  return {-3, now}
end
if not redis.call('SET', KEYS[2], ARGV[2], 'NX', 'PX', ARGV[3]) then
  local holder = redis.pcall('GET', KEYS[2])
  local remaining = redis.call('PTTL', KEYS[2])
  if type(holder) ~= 'string' then
    return {0, now, remaining}
  end
  -- No lease of ours has more left than the longest ttl, unless the node's clock was set back.
  if remaining > max_ttl and string.match(holder, '^%x+$') and #holder == 32 then
    redis.call('PEXPIRE', KEYS[2], m[3])
    remaining = max_ttl
  end
  return {0, now, remaining, holder}
end
-- A counter lives for a day after its last grant. Before one can have expired, the floor has been raised
-- above it: what was the highest at a turn becomes the floor at the next one, eleven hours later. As this
-- floor may serve for eleven hours more, it must not be older than thirteen now.
local floor = tonumber(m[4])
local seconds = tonumber(time[1])
local since = seconds - tonumber(m[7])
if since < 0 or since > 39600 then
  floor = tonumber((since < 0 or since > 46800) and m[6] or m[5])
  redis.call('HSET', KEYS[1], 'floor', exact(floor), 'passed', m[6], 'turned', time[1])
end
-- In the common case the counter becomes the hint as it was sent, which spares printing a number. A hint from
-- a broken clock must not push the counter to its end.
local fence, text = tonumber(ARGV[4]), ARGV[4]
if fence > now + 60000000 or fence <= floor then
  fence = math.max(math.min(fence, now + 60000000), floor + 1)
  text = exact(fence)
end
local old = redis.pcall('SET', KEYS[3], text, 'EX', '86400', 'GET')
if type(old) == 'string' and (tonumber(old) or math.huge) >= fence then
  fence = (tonumber(old) or math.huge) + 1
  redis.call('SET', KEYS[3], fence < 9007199254740992 and exact(fence) or old, 'EX', 86400)
end
if type(old) == 'table' or fence >= 9007199254740992 then
  redis.call('DEL', KEYS[2])
  return {-4, now}
end
raise_high(fence)
return {1, now, fence}
