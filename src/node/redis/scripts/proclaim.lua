-- Keeps the record of a leader beside the counter of KEYS[4], if the key is the leader's. ARGV: identity, owner, and the note,
-- which begins with `p`, the term and a number. {1, now} kept; {0, now} not. It is no vote, and is sent for a round that is won.
-- It moves the entry to this generation of counters, so that a leader who says it again from time to time keeps it.
local keeps = value_of(KEYS[4]) == ARGV[2] and keep_note(KEYS[4], ARGV[2], ARGV[3])
return {keeps and 1 or 0, now}
