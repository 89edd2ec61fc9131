-- Takes several locks if all of them are free, and none otherwise. The counters of all become one number: that of the
-- largest, raised by the count of tokens that the client wants, or its hint where that is more. So a node answers one
-- number for the set, and no counter of it is below.
-- KEYS[4] and on: the resources, and behind them their lines, where the client has them. ARGV as for one resource up to
-- the count; then how many resources, the note or nothing, and the client's name, its ticket and a first one who did not
-- come, if it has lines. Answers as for one resource: `now`, {1, now, counter, head, how many wait}, {-1, now}, {-3, now},
-- {-4, now}; and {0, now, remaining ms, holder or nil, who is first for a free key or nil, how many wait before the client
-- or -1, 1 if the client is the first and the holder none of ours, which of the resources that is, 1 if all have a line}:
-- of those in the way, the one that is held for longest.
local owner, ttl, hint = ARGV[2], ARGV[3], tonumber(ARGV[4])
local latest, count, size = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local note, client, ticket = ARGV[8], ARGV[9], ARGV[10]
local fields = {HEAD}
for index = 1, size do
  fields[index + 1] = KEYS[3 + index]
end
local entries = redis.call('HMGET', COUNTERS, unpack(fields))
local head = entries[1]
local is_cached = head == ARGV[1]
if not is_cached and not is_later(head, ARGV[1]) then return {-1, now} end
if latest > 0 and now > latest then return {-3, now} end

-- It stands in the line of each of them, and is first when it is that in all. The key that lives for longest says when the
-- set may be had; one without an end never does.
local lines, is_new, all_lined = {}, {}, true
local longest, way, first, first_at = -1, nil, false, 1
for index = 1, size do
  local resource, line = KEYS[3 + index], KEYS[3 + size + index]
  if not line or not (client or redis.pcall('EXISTS', line) ~= 0) or not is_line(line) then
    line, all_lined = nil, all_lined and not line
  end
  if line and client and ticket ~= '' then
    is_new[index] = redis.pcall('ZADD', line, ticket, client)
    if type(is_new[index]) == 'number' then
      live(line, LIFE)
    else
      line, all_lined = nil, false
    end
  end
  lines[index] = line or false
  local remaining = redis.call('PTTL', resource)
  if remaining == -2 then
    local before = line and wake(line, resource, client, ARGV[11])
    if before and not first then
      first, first_at = before, index
    end
  else
    local holder = value_of(resource)
    local entry = entries[index + 1] or redis.call('HGET', OLDER, resource)
    local is_ours = entry and string.sub(entry, 17, 48) == holder
    if is_ours and remaining > tonumber(ttl) then
      -- As for one resource: after our clock was set back.
      local most = tonumber(redis.call('HGET', NODE, 'max_ttl'))
      if remaining > most then
        redis.call('PEXPIRE', resource, most)
        remaining = most
      end
    end
    local lasts = remaining < 0 and math.huge or remaining
    if lasts > longest then
      longest, way = lasts, {remaining, holder, is_ours, index}
    end
  end
end

if way or first then
  local before, at = -1, way and way[4] or first_at
  local is_foreign = 0
  for index = 1, size do
    local line = lines[index]
    if line and client and ticket ~= '' then
      local holders = redis.pcall('ZRANGEBYSCORE', line, HOLDERS, '(0', 'LIMIT', '0', FEW)
      local rank = redis.pcall('ZRANK', line, client)
      local ahead = type(rank) == 'number' and math.max(rank - #holders, 0) or -1
      for _, name in ipairs((is_new[index] == 1 or ahead == 0) and holders or {}) do
        tell(line, name, 'w' .. KEYS[3 + index])
      end
      if way and index == at and ahead == 0 and not way[3] then
        is_foreign = 1
      end
      before = math.max(before, ahead)
    end
  end
  local is_lined = KEYS[4 + size] and client and all_lined and 1 or 0
  if way then
    return {0, now, way[1], way[2], false, before, is_foreign, at, is_lined}
  end
  return {0, now, -2, false, first, before, 0, at, is_lined}
end

-- Fast path: all counters become the hint.
local etag, high_water, next_floor = read_head(head)
local counter, is_fast = 0, is_cached and count > 0
for index = 1, size do
  local entry = entries[index + 1]
  local own = entry and tonumber(string.sub(entry, 1, 16))
  is_fast = is_fast and (not entry or own and own + count <= hint)
end
if is_fast then
  counter = hint
else
  local floor = tonumber(redis.call('HGET', NODE, 'floor'))
  for index = 1, size do
    local entry = entries[index + 1] or redis.call('HGET', OLDER, KEYS[3 + index])
    local own = entry and math.min(tonumber(string.match(entry, SIXTEEN_DIGITS)) or high_water, high_water) or floor
    counter = math.max(counter, own)
  end
  counter = math.max(counter + math.abs(count), math.min(hint, now + AHEAD))
  if counter >= NUMBERS_END then
    return {-4, now}
  end
end
local raised, waiting = {}, nil
for index = 1, size do
  local resource, line = KEYS[3 + index], lines[index]
  redis.call('SET', resource, owner, 'PX', ttl)
  raised[2 * index - 1], raised[2 * index] = resource, digits(counter) .. owner .. note
  if line then
    redis.pcall('ZREMRANGEBYSCORE', line, HOLDERS, '(0')
    if client then
      redis.pcall('ZREM', line, client)
    end
    waiting = (waiting or 0) + redis.pcall('ZCARD', line)
    if client and math.abs(count) > 1 then
      redis.pcall('ZADD', line, '-1', client)
      live(line, math.max(LIFE, tonumber(ttl)))
    end
  end
end
redis.call('HSET', COUNTERS, unpack(raised))
if is_fast then
  return waiting and {1, now, hint, head, waiting} or now
end
if counter > high_water then
  head = raise_high_water(etag, math.max(counter, math.min(hint + AHEAD / 2, now + AHEAD)), next_floor)
end
return {1, now, counter, head, waiting}
