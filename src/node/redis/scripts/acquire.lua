-- Takes the lock if it is free, and raises the resource's counter by the count of tokens that the client wants, or to its
-- hint where that is more. The tokens are the last ones up to the new counter.
-- KEYS[4] the resource. ARGV: the head that the client has cached, owner, ttl in ms, hint (16 digits), latest node time
-- in us (0: none), count, with a minus unless that head says next_floor + count <= hint <= high_water, and the note of a
-- holder with a label. Answers: `now` granted, the counter is the hint; {1, now, counter, head} granted; {0, now, remaining ms, holder or nil} denied; {-1, now} the node is in another
-- state; {-3, now} too late; {-4, now} the counters are at their end.
local resource, owner, ttl = KEYS[4], ARGV[2], ARGV[3]
local hint, latest, count = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local head, entry = unpack(redis.call('HMGET', COUNTERS, HEAD, resource))
-- Fast path: if the client's cached head matches, the check would pass, and what it says of the hint holds here.
local is_cached = head == ARGV[1]
if not is_cached and not is_later(head, ARGV[1]) then return {-1, now} end
if latest > 0 and now > latest then return {-3, now} end

if not redis.call('SET', resource, owner, 'NX', 'PX', ttl) then
  local holder, remaining = value_of(resource), redis.call('PTTL', resource)
  if holder and remaining > tonumber(ttl) then
    -- Where our clock was set back, a lease that we granted is cut to the fleet's longest ttl. The entry says whom we
    -- granted it to: keys of other libraries look the same, and may live longer.
    local longest = tonumber(redis.call('HGET', NODE, 'max_ttl'))
    entry = entry or redis.call('HGET', OLDER, resource)
    if remaining > longest and entry and string.sub(entry, 17, 48) == holder then
      redis.call('PEXPIRE', resource, longest)
      remaining = longest
    end
  end
  return {0, now, remaining, holder or nil}
end

-- Fast path: the counter becomes the hint. The older generation need not be read, since it has none above next_floor.
local counter = entry and tonumber(string.sub(entry, 1, 16))
if is_cached and count > 0 and (not entry or counter and counter + count <= hint) then
  redis.call('HSET', COUNTERS, resource, ARGV[4] .. owner .. (ARGV[7] or ''))
  return now
end

-- What others have written, above our high-water mark or as no number, does not spread: we count on from the mark.
local etag, high_water, next_floor = read_head(head)
entry = entry or redis.call('HGET', OLDER, resource)
counter = entry and math.min(tonumber(string.match(entry, SIXTEEN_DIGITS)) or high_water, high_water)
  or tonumber(redis.call('HGET', NODE, 'floor'))
counter = math.max(counter + math.abs(count), math.min(hint, now + AHEAD))
if counter >= NUMBERS_END then
  redis.call('DEL', resource)
  return {-4, now}
end
redis.call('HSET', COUNTERS, resource, digits(counter) .. owner .. (ARGV[7] or ''))
if counter > high_water then -- it runs half a minute ahead, so that it is seldom written
  head = raise_high_water(etag, math.max(counter, math.min(hint + AHEAD / 2, now + AHEAD)), next_floor)
end
return {1, now, counter, head}
