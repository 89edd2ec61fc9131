-- Stands before every script but release.lua, rights.lua and those of classic mode. KEYS[1] to KEYS[3] are the node's
-- own keys: its marker, the counters of this generation, and those of the one before.
--
-- The counters are hashes: resource -> 16 digits of the counter, and the 32 of the owner to whom it was granted. A
-- holder with a label has a note behind that: 16 digits of its wall clock in us, and the label; an `r` stands before it
-- where the key was restored, and the counter is somebody else's. The note of a leader begins with a `p`. They have no expiry, since a clock that jumps would
-- then forget tokens; join.lua drops a whole generation at a time, and raises the floor above it in the same step.
--
-- One field is no resource: the head, a copy of what an acquire has to know of the marker. One command reads it with a
-- counter, and what loses the counters loses the right to vote with them. It is `etag high_water next_floor`:
--   etag        era, seal and identity in one text: the state that votes are asked under
--   high_water  no counter that this node granted is above it
--   next_floor  no counter of the older generation is above it; it becomes the floor when that one is dropped
-- It has more than 64 bytes, so that Redis keeps the hash as a table from the start, and not as a list to be searched.
local NODE, COUNTERS, OLDER = KEYS[1], KEYS[2], KEYS[3]
local HEAD = ''
local AHEAD = 60 * 1000000 -- microseconds that a hint, and whatever runs ahead of hints, may be ahead of our clock
local NUMBERS_END = 9007199254740992 -- 2^53: doubles are exact below it
local SHARED = 'shared by readers, see quorlock.' -- the value of a key that readers have; no owner looks like it
local SIXTEEN_DIGITS = '^%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d'

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

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

local function raise_high_water(etag, high_water, next_floor)
  local head = etag .. ' ' .. digits(high_water) .. ' ' .. digits(next_floor)
  redis.call('HSET', NODE, 'high_water', digits(high_water))
  redis.call('HSET', COUNTERS, HEAD, head)
  return head
end
