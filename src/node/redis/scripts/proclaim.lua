-- KEYS[4] the resource. ARGV identity, owner, and the note of a leader, which begins with `p`, the term and a number, 16 digits
-- each. Keeps that note beside the counter, which stays where it is, if the key is the owner's and nothing later of that
-- owner stands there. {1, now} kept; {0, now} not. It is no vote, and is sent for a round that is won.
-- It moves the entry to this generation of counters, so that a leader who says it again from time to time keeps it.
local owner, note = ARGV[2], ARGV[3]
local entry = redis.call('HGET', COUNTERS, KEYS[4]) or redis.call('HGET', OLDER, KEYS[4])
  or redis.call('HGET', NODE, 'floor')
local counter = string.match(entry or '', SIXTEEN_DIGITS)
if value_of(KEYS[4]) ~= owner or not counter then
  return {0, now}
end
local is_own = string.sub(entry, 17, 48) == owner
local last = is_own and string.match(entry, '^r?p(' .. string.rep('%d', 32) .. ')', 49)
if last and last > string.sub(note, 2, 33) then
  return {0, now}
end
-- As restore.lua has it: an `r` says that the counter is not of this owner's grant.
local is_granted = is_own and string.sub(entry, 49, 49) ~= 'r'
redis.call('HSET', COUNTERS, KEYS[4], counter .. owner .. (is_granted and '' or 'r') .. note)
return {1, now}
