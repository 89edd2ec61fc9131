-- Stands behind prelude.lua. Each call of a script makes its functions anew: an acquire of a free resource needs none.
local AHEAD = 60 * 1000000 -- microseconds that a hint, and whatever runs ahead of hints, may be ahead of our clock
local NUMBERS_END = 9007199254740992 -- 2^53: doubles are exact below it
local SHARED = 'shared by readers, see quorlock.' -- the value of a key that readers have; no owner looks like it
local SIXTEEN_DIGITS = '^%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d'

-- In full, with 16 digits: the default notation of Lua drops the last ones.
local function digits(number) return string.format('%016.0f', number) end

-- The value of a key, or as much of it as tells it from an owner: others may have put anything there.
local function value_of(key)
  local value = redis.pcall('GETRANGE', key, '0', '63')
  return type(value) == 'string' and value
end

local function entry_of(resource) return redis.call('HGET', COUNTERS, resource) or redis.call('HGET', OLDER, resource) end

-- What the older generation says of a counter. Where the list of nodes has changed since, that is nothing if it is below the floor.
local function older_of(resource)
  local entry = redis.call('HGET', OLDER, resource)
  if not entry then return nil end
  local floor, older = unpack(redis.call('HMGET', NODE, 'floor', 'older'))
  return (older ~= '2' or string.sub(entry, 1, 16) >= (floor or '')) and entry or nil
end

-- A counter as it counts: what others have written is not above our high-water mark.
local function counter_of(entry, high_water)
  return math.min(tonumber(string.match(entry, SIXTEEN_DIGITS)) or high_water, high_water)
end

-- The etag, and the two numbers; nothing if it is no head.
local function read_head(head)
  local etag, high_water, next_floor = string.match(head or '', '^(%S+) (%d+) (%d+)$')
  return etag, tonumber(high_water), tonumber(next_floor)
end

local function raise_high_water(etag, high_water, next_floor)
  local head = etag .. ' ' .. digits(high_water) .. ' ' .. digits(next_floor)
  redis.call('HSET', NODE, 'high_water', digits(high_water))
  redis.call('HSET', COUNTERS, HEAD, head)
  return head
end
