-- Takes the lock if it is free, and raises the resource's counter by the count of tokens that the client wants, or to its
-- hint where that is more. The tokens are the last ones up to the new counter.
-- KEYS[4] the resource. ARGV: the head that the client has cached, owner, ttl in ms, hint (16 digits), latest node time
-- in us (0: none), count, with a minus unless that head says next_floor + count <= hint <= high_water, and the note of a
-- holder with a label. Answers: `now` granted, the counter is the hint; {1, now, counter, head} granted; {0, now,
-- remaining ms, holder or nil} denied; {-1, now} the node is in another state; {-3, now} too late; {-4, now} the counters
-- are at their end.
-- KEYS[5] the line, where the client has one; ARGV[8] to ARGV[10] the client's name, its ticket or nothing, and a first one
-- who did not come or nothing. Where there is a line, more is answered: {1, now, counter, head, how many wait}, and {0,
-- now, remaining ms, holder or nil, who is first for a free key or nil, how many wait before the client or -1, 1 if the
-- client is the first and the holder none of ours}.
local resource, owner, ttl = KEYS[4], ARGV[2], ARGV[3]
local hint, latest, count = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local head, entry = unpack(redis.call('HMGET', COUNTERS, HEAD, resource))
-- Fast path: if the client's cached head matches, the check would pass, and what it says of the hint holds here.
local is_cached = head == ARGV[1]
if not is_cached and not is_later(head, ARGV[1]) then return {-1, now} end
if latest > 0 and now > latest then return {-3, now} end

-- Nobody overtakes those who wait in the line. Where there is none, this look is all that it costs.
local line, client, ticket, first, is_new = KEYS[5], ARGV[8], ARGV[9]
local has_line = line and (client or redis.pcall('EXISTS', line) ~= 0) and is_line(line)
local waits = has_line and client and ticket ~= ''
if waits then
  is_new = redis.pcall('ZADD', line, ticket, client)
  has_line = type(is_new) == 'number'
  live(line, LIFE)
end
if has_line and redis.call('EXISTS', resource) == 0 then
  first = wake(line, resource, client, ARGV[10])
end

if first or not redis.call('SET', resource, owner, 'NX', 'PX', ttl) then
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
  if not line or client and not has_line then
    return {0, now, remaining, holder or nil}
  end
  local before, is_foreign = -1, 0
  if has_line and waits then
    local holders = redis.pcall('ZRANGEBYSCORE', line, HOLDERS, '(0', 'LIMIT', '0', FEW)
    local rank = redis.pcall('ZRANK', line, client)
    before = type(rank) == 'number' and math.max(rank - #holders, 0) or -1
    -- Told again by the first, should it not have been heard.
    for _, name in ipairs((is_new == 1 or before == 0) and holders or {}) do
      tell(line, name, 'w' .. resource)
    end
    if before == 0 and not first then
      entry = entry or redis.call('HGET', OLDER, resource)
      is_foreign = entry and string.sub(entry, 17, 48) == holder and 0 or 1
    end
  end
  return {0, now, remaining, not first and holder, first or false, before, is_foreign}
end

-- Whoever has it waits no more. With several tokens it is to hear of those who come.
local waiting
if has_line then
  redis.pcall('ZREMRANGEBYSCORE', line, HOLDERS, '(0')
  if client then
    redis.pcall('ZREM', line, client)
  end
  waiting = redis.pcall('ZCARD', line)
  if client and math.abs(count) > 1 then
    redis.pcall('ZADD', line, '-1', client)
    live(line, math.max(LIFE, tonumber(ttl)))
  end
end

-- Fast path: the counter becomes the hint. The older generation need not be read, since it has none above next_floor.
local counter = entry and tonumber(string.sub(entry, 1, 16))
if is_cached and count > 0 and (not entry or counter and counter + count <= hint) then
  redis.call('HSET', COUNTERS, resource, ARGV[4] .. owner .. (ARGV[7] or ''))
  return waiting and {1, now, hint, head, waiting} or now
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
return {1, now, counter, head, waiting}
