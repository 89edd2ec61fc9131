-- Stands behind prelude.lua. Each call of a script makes its functions anew: an acquire of a free resource needs none.
local AHEAD = 60 * 1000000 -- microseconds that a hint, and whatever runs ahead of hints, may be ahead of our clock
local NUMBERS_END = 9007199254740992 -- 2^53: doubles are exact below it
local SHARED = 'shared by readers, see quorlock.' -- the value of a key that readers have; no owner looks like it
local SIXTEEN_DIGITS = '^%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d'

-- In full, with 16 digits: the default notation of Lua drops the last ones.
local function digits(number)
  return string.format('%016.0f', number)
end

-- The value of a key, or as much of it as tells it from an owner: others may have put anything there.
local function value_of(key)
  local value = redis.pcall('GETRANGE', key, '0', '63')
  return type(value) == 'string' and value
end

-- The etag, and the two numbers; nothing if it is no head.
local function read_head(head)
  local etag, high_water, next_floor = string.match(head or '', '^(%S+) (%d+) (%d+)$')
  return etag, tonumber(high_water), tonumber(next_floor)
end

-- Makes what the counters say that of a node in another state. Whom it granted keys to is kept, for those that a clock which
-- goes back prolongs: acquire.lua cuts them. Without the right head nobody votes with these counters, and none of them counts
-- (counter_of). Others may have put something else there.
local function begin_counters(head)
  for _, counters in ipairs({COUNTERS, OLDER}) do
    if type(redis.pcall('HGET', counters, HEAD)) == 'table' then
      redis.call('UNLINK', counters)
    end
  end
  redis.call('HSET', COUNTERS, HEAD, head)
end

-- The counter of an entry, and the node's floor. What others have written does not spread above our high-water mark; an entry
-- from before the node was admitted counts as none.
local function counter_of(entry, high_water)
  local floor, begun = unpack(redis.call('HMGET', NODE, 'floor', 'begun'))
  local counter = entry and math.min(tonumber(string.match(entry, SIXTEEN_DIGITS)) or high_water, high_water)
  return counter and counter >= (tonumber(begun) or 0) and counter, tonumber(floor)
end

local function raise_high_water(etag, high_water, next_floor)
  local head = etag .. ' ' .. digits(high_water) .. ' ' .. digits(next_floor)
  redis.call('HSET', NODE, 'high_water', digits(high_water))
  redis.call('HSET', COUNTERS, HEAD, head)
  return head
end
