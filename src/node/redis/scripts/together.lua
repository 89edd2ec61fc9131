-- Stands behind together_free.lua and what that has not needed: it does the rest, as acquire.lua does for one.
local etag, high_water, next_floor = read_head(head)
if not is_cached then
  local cached, cached_high_water = read_head(ARGV[1])
  if not (etag and etag == cached and high_water >= cached_high_water) then return {-1, now} end
end
if is_late then return {-3, now} end
local ticket, missing = ARGV[10], ARGV[11]

-- For each of them what acquire.lua does for one: it stands in every line, and is let in where it is the first in all. Of the
-- keys in the way the one that lives for longest is told; one without an end never ends.
local live, of_telling, _, look, first_not_stuck, set_stuck
local all, longest, way, behind = {}, -1, nil, nil
local second, other_way = -1, nil -- the same without that one
for index = 1, size do
  local resource, line = KEYS[3 + index], KEYS[3 + size + index]
  local seen = line and redis.pcall('ZRANGE', line, '0', FEW)
  local has_line = seen and not seen.err and (client or #seen > 0)
  local waits = has_line and client and ticket ~= ''
  local first, others, stands, holding, told, is_new, rank
  local depth = has_line and #seen or 0
  if depth > 0 then
    if not look then
      live, of_telling, _, look, first_not_stuck, set_stuck = of_line(true)
    end
    first, others, stands, holding, depth = look(line, client, seen)
    if first and waits then
      is_new, rank = redis.pcall('ZADD', line, ticket, client), redis.pcall('ZRANK', line, client)
      if rank == (holding and 1 or 0) then
        first = nil
      end
    end
  end
  local remaining, holder, is_foreign = redis.call('PTTL', resource), nil, nil
  if remaining == -2 then
    if first
      and (is_new == 0 or missing and missing ~= '' or redis.pcall('PTTL', line) < UNHEARD) then
      local wake = of_telling()
      first, told = wake(line, resource, client, missing), true
      holding, rank = nil, waits and redis.pcall('ZRANK', line, client)
    end
    if first and not waits then
      first = first_not_stuck(line, client)
    end
    behind = behind or first and index
  else
    holder = value_of(resource)
    local is_endless = remaining == -1 and holder == SHARED
    local lasts = remaining < 0 and math.huge or remaining
    local entry = entries[index + 1] or redis.call('HGET', OLDER, resource)
    is_foreign = holder ~= SHARED and not (entry and string.sub(entry, 17, 48) == holder)
    if holder and (remaining > tonumber(ttl) or is_endless) and not is_foreign then
      -- As for one resource.
      local most = tonumber(redis.call('HGET', NODE, 'max_ttl')) + (holder == SHARED and 2 or 0)
      if remaining > most or is_endless then
        redis.call('PEXPIRE', resource, most)
        remaining, lasts = most, most
      end
    end
    if lasts > longest then
      second, other_way, longest, way = longest, way, lasts, index
    elseif lasts > second then
      second, other_way = lasts, index
    end
  end
  all[index] = {has_line = has_line, waits = waits, depth = depth, first = first, others = others, stands = stands,
    holding = holding, told = told, is_new = is_new, rank = rank, remaining = remaining, holder = holder,
    is_foreign = is_foreign}
end

if way or behind then
  local before, is_foreign, lined = -1, 0, 1
  for index = 1, size do
    local here, line = all[index], KEYS[3 + size + index]
    if here.waits and here.depth == 0 then
      here.is_new = redis.pcall('ZADD', line, ticket, client)
      here.rank = here.is_new == 1 and 0
      redis.pcall('PEXPIRE', line, LIFE)
    elseif here.waits then
      if not here.rank then
        here.is_new = redis.pcall('ZADD', line, ticket, client)
        here.rank = redis.pcall('ZRANK', line, client)
      end
      here.has_line = live(line, LIFE)
      if not here.has_line and here.is_new == 1 then
        redis.pcall('ZREM', line, client)
      end
    end
    if not line or client and not here.has_line then
      lined = 0
    elseif here.waits then
      local other = index ~= way and way or other_way
      if other then
        if not set_stuck then
          _, _, _, _, _, set_stuck = of_line(true)
        end
        set_stuck(line, client, ticket, 0, KEYS[3 + other])
      end
      local rank, holding = here.rank, here.holding
      local ahead = type(rank) == 'number' and math.max(rank - (holding and 1 or 0), 0) or -1
      local name = holding and string.sub(holding, 2)
      if name and name ~= client and (here.is_new == 1 or ahead == 0) then
        local _, tell = of_telling()
        tell(line, holding, name, 'w' .. KEYS[3 + index])
      end
      if index == way and ahead == 0 and here.holder and here.is_foreign then
        is_foreign = 1
      end
      before = math.max(before, ahead)
    end
  end
  local at = way or behind
  local here = all[at]
  local told_holder = told_of(here.holder, entries[at + 1], KEYS[3 + at]) or false
  return {0, now, here.remaining, told_holder, not way and here.first and string.sub(here.first, -16) or false, before, is_foreign, at, lined}
end

local counter = 0
if takes_hint then
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
  local resource, here = KEYS[3 + index], all[index]
  redis.call('SET', resource, owner, 'PX', ttl)
  raised[2 * index - 1], raised[2 * index] = resource, digits(counter) .. owner .. note
  if here.has_line then
    local line = KEYS[3 + size + index]
    if here.holding then
      redis.pcall('ZREM', line, here.holding)
    end
    if client and (here.stands or here.is_new or here.depth > 2) and type(redis.pcall('ZREM', line, client)) ~= 'number' then
      redis.pcall('DEL', line) -- it would seem to wait still
    end
    -- What fails here must not, as the first of the keys is set.
    local others = here.told and redis.pcall('ZCARD', line) or here.others and 1 or 0
    waiting = math.max(waiting or 0, type(others) == 'number' and others > 0 and 1 or 0)
    if client and math.abs(count) > 1 then
      redis.pcall('ZADD', line, '-1', '!' .. client)
      local life = math.max(LIFE, tonumber(ttl))
      if here.depth == 0 then
        redis.pcall('PEXPIRE', line, life)
      elseif not live(line, life) then
        redis.pcall('ZREM', line, '!' .. client)
      end
    end
  end
end
redis.call('HSET', COUNTERS, unpack(raised))
if takes_hint then
  return waiting and {1, now, hint, head, waiting} or now
end
if counter > high_water then
  head = raise_high_water(etag, math.max(counter, math.min(hint + AHEAD / 2, now + AHEAD)), next_floor)
end
return {1, now, counter, head, waiting}
