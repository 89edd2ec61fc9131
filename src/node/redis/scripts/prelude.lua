-- Stands before every script but release.lua, leave.lua and rights.lua. A constant in front, KIND, says what of a script runs.
-- KEYS[1] to KEYS[3] are the node's own: its marker, the counters of this generation, and those of the one before. In classic
-- mode they are not touched, and no clock is read.
--
-- The counters are hashes: resource -> 16 digits of the counter, the 32 of the owner to whom it was granted, and the note of a
-- holder with a label: 16 digits of its wall clock in us, and the label. An `r` stands before the note where the key was
-- restored or given back, and the counter is somebody else's; the note of a leader begins with a `p`. They have no expiry, since a clock
-- that jumps would then forget tokens; join.lua drops a whole generation at a time, and raises the floor above it.
--
-- One field is no resource: the head, a copy of what an acquire has to know of the marker. One command reads it with a
-- counter, and what loses the counters loses the right to vote with them. It is `etag high_water next_floor`:
--   etag        epoch, seal and identity in one text: the state that votes are asked under
--   high_water  no counter that this node granted is above it
--   next_floor  no counter of the older generation is above it; it becomes the floor when that one is dropped
-- It has more than 64 bytes, so that Redis keeps the hash as a table from the start, and not as a list to be searched.
local NODE, COUNTERS, OLDER = KEYS[1], KEYS[2], KEYS[3]
local HEAD = ''
local time = KIND == 'classic' and {0, 0} or redis.call('TIME')
local now = time[1] * 1000000 + time[2]
