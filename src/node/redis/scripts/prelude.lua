-- Stands before every script but release.lua and rights.lua. KEYS[1] to KEYS[3] are the node's own keys: its marker, the
-- counters of this generation, and those of the one before.
--
-- The counters are hashes: resource -> 16 digits of the counter, and the owner to whom it was granted. They have no
-- expiry, since a clock that jumps would then forget tokens; join.lua drops a whole generation at a time, and raises
-- the floor above it in the same step. One field is no resource: the head, with all that an acquire has to know of the
-- marker. So it reads that together with the counter, and what loses the counters loses the right to vote with them.
-- The head is `etag high passed`; the etag puts era, seal and identity together. It has more than 64 bytes, so that
-- Redis keeps the hash as a table from the start, and not as a list that is searched.
local NODE, COUNTERS, OLDER = KEYS[1], KEYS[2], KEYS[3]
local HEAD = ''
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

-- The etag, the high-water mark and `passed`.
local function read_head(head)
  return string.match(head or '', '^(%S+) (%d+) (%d+)$')
end

local function write_head(etag, high, passed)
  local head = etag .. ' ' .. high .. ' ' .. passed
  redis.call('HSET', COUNTERS, HEAD, head)
  return head
end

-- No counter that this node issued is above the high-water mark.
local function set_high(etag, high, passed)
  redis.call('HSET', NODE, 'high', digits(high))
  return write_head(etag, digits(high), passed)
end
