-- Stands behind together_free.lua and what that has not needed: it does the rest, as acquire.lua does for one.
local etag, high_water, next_floor = read_head(head)
if not is_cached then
  local cached, cached_high_water = read_head(ARGV[1])
  if not (etag and etag == cached and high_water >= cached_high_water) then return {-1, now} end
end
if is_late then return {-3, now} end

-- For each of them what acquire.lua does for one: it stands in every line, and is let in where it is the first in all. Of the
-- keys in the way the one that lives for longest is told; one without an end never ends.
local is_name, tell, wake, live
local all, longest, way, behind = {}, -1, nil, nil
for index = 1, size do
  local resource, line = KEYS[3 + index], KEYS[3 + size + index]
  local here = {line = line}
  all[index] = here
  local seen = line and redis.pcall('ZRANGE', line, '0', FEW)
  here.has_line = seen and not seen.err and (client or #seen > 0)
  if here.has_line then
    if not wake then
      is_name, tell, wake, live = of_line()
    end
    here.waits = client and ticket ~= ''
    for look = 1, 2 do
      if look == 2 then
        if here.others or #seen < 3 then break end
        seen = redis.pcall('ZRANGE', line, '0', MANY)
      end
      for place = 1, #seen do
        local name = seen[place]
        if name == client then
          here.stands = true
        elseif string.byte(name) == HOLDER then
          here.holding = name
        elseif not here.others and is_name(name) then
          here.first, here.others = not here.stands and name or nil, true
        end
      end
    end
    here.is_deep = #seen > 2
    if here.first and here.waits then
      here.is_new, here.rank = redis.pcall('ZADD', line, ticket, client), redis.pcall('ZRANK', line, client)
      if here.rank == (here.holding and 1 or 0) then
        here.first = nil
      end
    end
  end
  local remaining = redis.call('PTTL', resource)
  if remaining == -2 and here.first
    and (here.is_new == 0 or missing and missing ~= '' or redis.pcall('PTTL', line) < UNHEARD) then
    here.first, here.told = wake(line, resource, client, missing), true
    here.holding, here.rank = nil, here.waits and redis.pcall('ZRANK', line, client)
  end
  if remaining == -2 then
    behind = behind or here.first and index
  else
    local holder, lasts = value_of(resource), remaining < 0 and math.huge or remaining
    local entry = entries[index + 1] or redis.call('HGET', OLDER, resource)
    here.is_foreign = holder ~= SHARED and not (entry and string.sub(entry, 17, 48) == holder)
    if holder and remaining > tonumber(ttl) and not here.is_foreign then
      -- After our clock was set back, as for one resource.
      local most = tonumber(redis.call('HGET', NODE, 'max_ttl'))
      if remaining > most then
        redis.call('PEXPIRE', resource, most)
        remaining, lasts = most, most
      end
    end
    here.remaining, here.holder = remaining, holder
    if lasts > longest then
      longest, way = lasts, index
    end
  end
end

if way or behind then
  local before, is_foreign, lined = -1, 0, 1
  for index = 1, size do
    local here, line = all[index], KEYS[3 + size + index]
    if here.waits then
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
      local rank, holding = here.rank, here.holding
      local ahead = type(rank) == 'number' and math.max(rank - (holding and 1 or 0), 0) or -1
      local name = holding and string.sub(holding, 2)
      if name and name ~= client and (here.is_new == 1 or ahead == 0) then
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
  return {0, now, here.remaining or -2, here.holder or false, not way and here.first and string.sub(here.first, -16) or false, before, is_foreign, at, lined}
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
    local line = here.line
    if here.holding then
      redis.pcall('ZREM', line, here.holding)
    end
    if client and (here.stands or here.rank or here.is_deep) and type(redis.pcall('ZREM', line, client)) ~= 'number' then
      redis.pcall('DEL', line) -- it would seem to wait still
    end
    -- What fails here must not, as the first of the keys is set.
    local others = here.told and redis.pcall('ZCARD', line) or here.others and 1 or 0
    waiting = math.max(waiting or 0, type(others) == 'number' and others > 0 and 1 or 0)
    if client and math.abs(count) > 1 then
      redis.pcall('ZADD', line, '-1', '!' .. client)
      if not live(line, math.max(LIFE, tonumber(ttl))) then
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
