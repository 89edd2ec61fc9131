-- Stands behind read_free.lua and what that has not needed: it does the rest.
local etag, high_water, next_floor = read_head(head)
if not is_cached then
  local cached, cached_high_water = read_head(ARGV[1])
  if not (etag and etag == cached and high_water >= cached_high_water) then return {-1, now} end
end
if is_late then return {-3, now} end

local hint, ticket, missing = ARGV[4] + 0, ARGV[9], ARGV[10]
entry = entry or not takes_hint and redis.call('HGET', OLDER, resource)
local remaining, holder = redis.call('PTTL', resource), value_of(resource)
local is_free, is_shared = remaining == -2, holder == SHARED
if is_shared and (remaining < 0 or remaining > ttl) then
  -- Where our clock was set back: no entry was put there for longer.
  local longest = tonumber(redis.call('HGET', NODE, 'max_ttl')) + 2
  if remaining < 0 or remaining > longest then
    redis.call('PEXPIRE', resource, longest)
    remaining = longest
  end
elseif remaining > ttl then
  -- The key of a writer, as in acquire.lua.
  local longest = tonumber(redis.call('HGET', NODE, 'max_ttl'))
  local granted = remaining > longest and (entry or redis.call('HGET', OLDER, resource))
  if granted and string.sub(granted, 17, 48) == holder then
    redis.call('PEXPIRE', resource, longest)
    remaining = longest
  end
end

-- Readers let each other pass. A writer that came before is let in before.
local reader = client and '~' .. client
local asks_once = not client or ticket == ''
local live, of_telling, is_name, _, is_stuck
local has_line, waits, writer, at, holding, before, is_new
local function look()
  local seen = line and redis.pcall('ZRANGE', line, '0', MANY)
  has_line = seen and not seen.err and (client or #seen > 0)
  writer, holding, before = nil, nil, 0
  for place = 1, has_line and #seen or 0 do
    local name = seen[place]
    if name == reader then return end
    if string.byte(name) == HOLDER then
      holding = name
    elseif is_name(name) then
      before = before + 1
      if not writer and string.byte(name) ~= READER
        and not (asks_once and is_stuck(line, name, redis.pcall('ZRANGE', line, place - 1, place - 1, 'WITHSCORES')[2])) then
        writer, at = name, place - 1
      end
    end
  end
end
if line then
  live, of_telling, is_name, _, _, _, is_stuck = of_line(true)
  look()
  waits = has_line and client and ticket ~= ''
  if writer and waits then
    -- Its ticket may be an earlier one.
    is_new = redis.pcall('ZADD', line, ticket, reader)
    look()
  end
end
local first = writer
if writer and is_free
  and (is_new == 0 or missing and missing ~= '' or redis.pcall('PTTL', line) < UNHEARD) then
  local wake = of_telling()
  first = wake(line, resource, reader, missing)
  look()
  first = writer and (first or writer)
elseif writer and is_shared then
  -- It is told with its ticket, so that one which waits no more can leave: what it said of that may have been lost.
  local _, tell = of_telling()
  local ticket = string.sub('0000000000000000' .. tostring(redis.pcall('ZRANGE', line, at, at, 'WITHSCORES')[2]), -16)
  if not tell(line, writer, writer, 'k' .. ticket .. resource) then
    -- Its connection is gone.
    look()
  end
end

if writer or not (is_free or is_shared) then
  if waits then
    if not is_new then
      is_new = redis.pcall('ZADD', line, ticket, reader)
      look()
    end
    has_line = live(line, LIFE)
    if not has_line and is_new == 1 then
      redis.pcall('ZREM', line, reader)
    end
  end
  if not line or client and not has_line then
    return {0, now, remaining, told_of(holder, entry, resource) or nil}
  end
  if not waits then
    before = -1
  end
  local name = holding and string.sub(holding, 2)
  if waits and name and name ~= client and (is_new == 1 or before == 0) then
    local _, tell = of_telling()
    tell(line, holding, name, 'w' .. resource)
  end
  entry = entry or takes_hint and redis.call('HGET', OLDER, resource)
  local is_ours = is_free or is_shared or entry and string.sub(entry, 17, 48) == holder
  local told_holder = not is_free and told_of(holder, entry, resource) or false
  return {0, now, remaining, told_holder, is_free and string.sub(first, -16) or false, before,
    before == 0 and not is_ours and 1 or 0}
end

local counter = entry and math.min(tonumber(string.match(entry, SIXTEEN_DIGITS)) or high_water, high_water)
if takes_hint then
  counter = hint
elseif not entry then
  -- From nothing as a writer would, so that nodes agree at once.
  counter = math.max(tonumber(redis.call('HGET', NODE, 'floor')), math.min(hint, now + AHEAD))
  if counter >= NUMBERS_END then return {-4, now} end
end
if is_shared then
  drop_ended(readers)
  -- One that stands is extended already: this comes late. It is not made to end sooner.
  local ends = end_of(readers, owner)
  if ends then
    ttl = math.max(ttl, math.floor(math.min(ends - ms - 1, tonumber(redis.call('HGET', NODE, 'max_ttl')) or ttl)))
  end
else
  redis.call('UNLINK', readers)
end
put(resource, readers, owner, ttl, is_shared)
if has_line then
  if client then
    redis.pcall('ZREM', line, reader)
  end
  if holding then
    redis.pcall('ZREM', line, holding)
  end
end
if not entry then
  redis.call('HSET', COUNTERS, resource, digits(counter) .. owner)
  if counter > high_water then
    head = raise_high_water(etag, math.max(counter, math.min(hint + AHEAD / 2, now + AHEAD)), next_floor)
  end
end
return {1, now, counter, head}
