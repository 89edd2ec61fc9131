-- Stands behind slot_free.lua and what that has not needed: it does the rest, as acquire.lua does for one.
if not is_cached then
  local etag, high_water = read_head(head)
  local cached, cached_high_water = read_head(ARGV[1])
  if not (etag and etag == cached and high_water >= cached_high_water) then return {-1, now} end
end
if is_late then return {-3, now} end

local function is_one_free()
  local there = redis.pcall('EXISTS', unpack(KEYS, 4, 3 + size))
  return type(there) ~= 'number' or there < size
end

-- Nobody overtakes those who wait: the first of them is let in, and lets the next one in where there is another slot.
local ticket, missing = ARGV[10], ARGV[11]
local name = line and string.sub(line, 15) -- behind `quorlock:line:`
local seen = line and not has_nobody and redis.pcall('ZRANGE', line, '0', FEW)
local has_line = seen and not seen.err and (client or #seen > 0)
local waits = has_line and client and ticket ~= ''
local first, stands, others, told, is_new, rank, is_free, left
local live, of_telling, _, look, holding, first_not_stuck, set_stuck
local depth = has_line and #seen or 0
if depth > 0 then
  live, of_telling, _, look, first_not_stuck, set_stuck = of_line(true)
  first, others, stands, holding, depth = look(line, client, seen)
end
if first then
  if waits then
    is_new, rank = redis.pcall('ZADD', line, ticket, client), redis.pcall('ZRANK', line, client)
    if rank == 0 then
      first = nil
    end
  end
  is_free = first and is_one_free()
  local is_due = is_new == 0 or missing and missing ~= ''
  left = is_free and not is_due and redis.pcall('PTTL', line) or nil
  if is_free and (is_due or left < UNHEARD) then
    local wake = of_telling()
    first, told, left = wake(line, name, client, missing), true, nil
    rank = first and waits and redis.pcall('ZRANK', line, client)
  end
  if first and not waits and is_free then
    first = first_not_stuck(line, client)
  end
end

-- Who waits for one of the slots by its name is let in there before those who came later.
local kept
local function is_kept(slot)
  local own_line = 'quorlock:line:' .. slot
  if not line or redis.pcall('EXISTS', own_line) == 0 or redis.call('EXISTS', slot) == 1 then
    return false
  elseif not first_not_stuck then
    live, of_telling, _, look, first_not_stuck, set_stuck = of_line(true)
  end
  local before = first_not_stuck(own_line, nil, waits and ticket, missing)
  kept = kept or before
  return before
end

if not first and not has_nobody then
  for index = 4, 3 + size do
    if not is_kept(KEYS[index]) and redis.call('SET', KEYS[index], owner, 'NX', 'PX', ttl) then
      at = index
      break
    end
  end
  if at and at > 4 then
    entry = redis.call('HGET', COUNTERS, KEYS[at])
  end
end

if not at then
  if kept and not first then
    first, is_free = string.sub(kept, -16), true
  end
  local least, holder = nil, false
  for index = 4, is_free and 0 or 3 + size do
    local remaining = redis.call('PTTL', KEYS[index])
    if remaining > tonumber(ttl) then
      -- After our clock was set back, as for one resource.
      local most = tonumber(redis.call('HGET', NODE, 'max_ttl'))
      if remaining > most then
        local entry = redis.call('HGET', COUNTERS, KEYS[index]) or redis.call('HGET', OLDER, KEYS[index])
        if entry and string.sub(entry, 17, 48) == value_of(KEYS[index]) then
          redis.call('PEXPIRE', KEYS[index], most)
          remaining = most
        end
      end
    end
    -- One without an end never ends.
    local lasts = remaining < 0 and math.huge or remaining
    if not least or lasts < least then
      least, holder = lasts, value_of(KEYS[index])
    end
  end
  local remaining = is_free and -2 or least == math.huge and -1 or least or -2
  if waits and depth == 0 then
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
    return {0, now, remaining, holder or nil}
  end
  if waits and not is_free then
    if not set_stuck then
      _, _, _, _, _, set_stuck = of_line(true)
    end
    set_stuck(line, client, ticket, size, string.match(KEYS[4], '^(.*/)'))
  end
  local before = waits and type(rank) == 'number' and rank or -1
  return {0, now, remaining, holder, is_free and first or false, before, 0}
end

local slot = KEYS[at]
local counter = entry and tonumber(string.sub(entry, 1, 16))
local takes_hint = is_allowed and (not entry or counter and counter + 1 <= hint)
local etag, high_water, next_floor
if not takes_hint then
  etag, high_water, next_floor = read_head(head)
  entry = entry or redis.call('HGET', OLDER, slot)
  counter = entry and math.min(tonumber(string.match(entry, SIXTEEN_DIGITS)) or high_water, high_water)
    or tonumber(redis.call('HGET', NODE, 'floor'))
  counter = math.max(counter + 1, math.min(hint, now + AHEAD))
  if counter >= NUMBERS_END then
    redis.call('DEL', slot)
    return {-4, now}
  end
end

local waiting = -1
if has_line then
  if client and (stands or is_new or depth > 2) then
    redis.pcall('ZREM', line, client)
  end
  waiting = told and redis.pcall('ZCARD', line) or others and 1 or 0
  waiting = waiting == 0 and 0 or 1
  -- Whoever is next is let in at once where there is another slot.
  if waiting == 1 and is_one_free() then
    local wake = of_telling()
    wake(line, name)
  end
end

if takes_hint then
  redis.call('HSET', COUNTERS, slot, ARGV[4] .. owner .. ARGV[8])
  return {1, now, hint, at - 3, waiting}
end
redis.call('HSET', COUNTERS, slot, digits(counter) .. owner .. ARGV[8])
if counter > high_water then
  head = raise_high_water(etag, math.max(counter, math.min(hint + AHEAD / 2, now + AHEAD)), next_floor)
end
return {1, now, counter, at - 3, waiting, head}
