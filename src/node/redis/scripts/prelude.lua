-- Stands before every script but release.lua. KEYS[1] to KEYS[3] are the node's own keys: its marker, the counters of
-- this generation, and those of the one before.
--
-- The counters are hashes: resource -> 16 digits of the counter, and the owner to whom it was granted. They have no
-- expiry, since a clock that jumps would then forget tokens; join.lua drops a whole generation at a time, and raises
-- the floor above it in the same step. Three fields are no resources: the etag, in which the marker's identity, era
-- and seal are put together, and copies of two numbers of the marker. So an acquire reads all that it needs at once, and
-- what loses the counters loses the right to vote with them.
local NODE, COUNTERS, OLDER = KEYS[1], KEYS[2], KEYS[3]
local ETAG, HIGH, PASSED = '', 'quorlock:high', 'quorlock:passed'
local AHEAD = 60 * 1000000 -- microseconds that a hint, and whatever runs ahead of hints, may be ahead of our clock
local NUMBERS_END = 9007199254740992 -- 2^53: doubles are exact below it

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- In full, with 16 digits: the default notation of Lua drops the last ones.
local function digits(number)
  return string.format('%016.0f', number)
end

-- The value of a key, or as much of it as tells it from an owner: others may have put anything there.
local function value_of(key)
  local value = redis.pcall('GETRANGE', key, 0, 63)
  return type(value) == 'string' and value
end

-- No counter that this node issued is above it.
local function set_high(high)
  redis.call('HSET', NODE, 'high', digits(high))
  redis.call('HSET', COUNTERS, HIGH, digits(high))
end
