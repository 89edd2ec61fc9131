-- Stands behind acquire_free.lua and what it has not needed: it does the rest, where somebody holds the resource or waits
-- for it, or the client knows the node's counters as they were.
if not is_cached then
  -- It must be of the same state, and not older. A high-water mark that has fallen is that of older data, such as a backup.
  local etag, high_water = read_head(head)
  local cached, cached_high_water = read_head(ARGV[1])
  if not (etag and etag == cached and high_water >= cached_high_water) then return {-1, now} end
end
if is_late then return {-3, now} end

-- Nobody overtakes those who wait in the line.
local ticket, missing = ARGV[9], ARGV[10]
local seen = line and not has_nobody and redis.pcall('ZRANGE', line, '0', FEW)
local has_line = seen and not seen.err and (client or #seen > 0)
local waits = has_line and client and ticket ~= ''
local holding, first, stands, others, told, is_new, rank, remaining, left
local live, of_telling, _, look, first_not_stuck
local size = has_line and #seen or 0
if size > 0 then
  live, of_telling, _, look, first_not_stuck = of_line(true)
  first, others, stands, holding, size = look(line, client, seen)
end
if first then
  if waits then
    -- Its ticket may be an earlier one.
    is_new, rank = redis.pcall('ZADD', line, ticket, client), redis.pcall('ZRANK', line, client)
    if rank == (holding and 1 or 0) then
      first = nil
    end
  end
  remaining = first and redis.call('PTTL', resource)
  -- Whoever has released it has woken the first, who is on its way. One who comes anew leaves it at that, unless all who
  -- stand there have missed a poll.
  local is_due = is_new == 0 or missing and missing ~= ''
  left = remaining == -2 and not is_due and redis.pcall('PTTL', line) or nil
  if remaining == -2 and (is_due or left < UNHEARD) then
    local wake = of_telling()
    first, told, left = wake(line, resource, client, missing), true, nil
    holding, rank = nil, first and waits and redis.pcall('ZRANK', line, client)
  end
  if first and not waits and remaining == -2 then
    first = first_not_stuck(line, client)
  end
end

if slots_line and not has_nobody and not first and redis.call('EXISTS', resource) == 0
  and redis.pcall('EXISTS', slots_line) == 1 then
  if not look then
    live, of_telling, _, look, first_not_stuck = of_line(true)
  end
  first = first_not_stuck(slots_line, nil, waits and ticket, missing)
  remaining = first and -2
end

if is_held or first or not redis.call('SET', resource, owner, 'NX', 'PX', ttl) then
  remaining = remaining or redis.call('PTTL', resource)
  local holder = remaining ~= -2 and value_of(resource)
  local is_endless = remaining == -1 and holder == SHARED
  if holder and (remaining > tonumber(ttl) or is_endless) then
    -- Where our clock was set back, a lease that we granted is cut to the fleet's longest ttl. The entry says whom we
    -- granted it to: keys of other libraries look the same, and may live longer. Readers have none without an end: others
    -- have taken that, and nobody may be left who would end it.
    local longest = tonumber(redis.call('HGET', NODE, 'max_ttl')) + (holder == SHARED and 2 or 0)
    entry = entry or redis.call('HGET', OLDER, resource)
    if is_endless or remaining > longest and (holder == SHARED or entry and string.sub(entry, 17, 48) == holder) then
      redis.call('PEXPIRE', resource, longest)
      remaining = longest
    end
  end
  if waits and size == 0 then
    is_new = redis.pcall('ZADD', line, ticket, client)
    rank = is_new == 1 and 0
    redis.pcall('PEXPIRE', line, LIFE)
  elseif waits then
    if not rank then
      is_new = redis.pcall('ZADD', line, ticket, client)
      rank = redis.pcall('ZRANK', line, client)
    end
    has_line = live(line, LIFE, left)
    if not has_line and is_new == 1 then
      redis.pcall('ZREM', line, client)
    end
  end
  if not line or client and not has_line then
    return {0, now, remaining, told_of(holder, entry, resource) or nil}
  end
  local before, is_foreign = -1, 0
  if waits then
    before = type(rank) == 'number' and math.max(rank - (holding and 1 or 0), 0) or -1
    -- Told again by the first, should it not have been heard.
    local name = holding and string.sub(holding, 2)
    if name and name ~= client and (is_new == 1 or before == 0) then
      local _, tell = of_telling()
      tell(line, holding, name, 'w' .. resource)
    end
    if before == 0 and holder then
      entry = entry or redis.call('HGET', OLDER, resource)
      is_foreign = (holder == SHARED or entry and string.sub(entry, 17, 48) == holder) and 0 or 1
    end
  end
  local told_holder = told_of(holder, entry, resource) or false
  return {0, now, remaining, told_holder, remaining == -2 and first and string.sub(first, -16) or false, before, is_foreign}
end

-- What others have written, above our high-water mark or as no number, does not spread: we count on from the mark.
local etag, high_water, next_floor
if not takes_hint then
  etag, high_water, next_floor = read_head(head)
  entry = entry or redis.call('HGET', OLDER, resource)
  counter = entry and math.min(tonumber(string.match(entry, SIXTEEN_DIGITS)) or high_water, high_water)
    or tonumber(redis.call('HGET', NODE, 'floor'))
  counter = math.max(counter + math.abs(count), math.min(hint, now + AHEAD))
  if counter >= NUMBERS_END then
    redis.call('DEL', resource)
    return {-4, now}
  end
end

-- Whoever has it waits no more. With several tokens it is to hear of those who come.
local waiting
if has_line then
  if holding then
    redis.pcall('ZREM', line, holding)
  end
  if client and (stands or is_new or size > 2) and type(redis.pcall('ZREM', line, client)) ~= 'number' then
    redis.pcall('DEL', line) -- it would seem to wait still
  end
  -- What fails here must not: the key is set.
  local count_left = told and redis.pcall('ZCARD', line) or others and 1 or 0
  waiting = type(count_left) == 'number' and count_left > 0 and 1 or 0
  if client and math.abs(count) > 1 then
    redis.pcall('ZADD', line, '-1', '!' .. client)
    local life = math.max(LIFE, tonumber(ttl))
    if size == 0 then
      redis.pcall('PEXPIRE', line, life)
    elseif not live(line, life) then
      redis.pcall('ZREM', line, '!' .. client)
    end
  end
end

if takes_hint then
  redis.call('HSET', COUNTERS, resource, ARGV[4] .. owner .. (ARGV[7] or ''))
  return waiting and {1, now, hint, head, waiting} or now
end

redis.call('HSET', COUNTERS, resource, digits(counter) .. owner .. (ARGV[7] or ''))
if counter > high_water then -- it runs half a minute ahead, so that it is seldom written
  head = raise_high_water(etag, math.max(counter, math.min(hint + AHEAD / 2, now + AHEAD)), next_floor)
end
return {1, now, counter, head, waiting}
