-- Stands before every script but release.lua, rights.lua and those of classic mode, with tools.lua behind it. KEYS[1] to
-- KEYS[3] are the node's own keys: its marker, the counters of this generation, and those of the one before.
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
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
