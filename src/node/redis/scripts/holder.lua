-- Who holds the resource KEYS[4]. ARGV[1] identity, empty in classic mode. It changes nothing.
-- {1, now, remaining ms, value, entry} the key, where the value is at most 64 bytes of a string, or nil, and the entry that
-- of the resource's counter, or nil; remaining is -2 where there is no key, -1 where it has no end.
local entry = KIND ~= 'classic' and entry_of(KEYS[4])
-- The longest entry of ours has 1253 bytes, that of a leader: others may have put anything there.
return {1, now, redis.call('PTTL', KEYS[4]), value_of(KEYS[4]), entry and string.sub(entry, 1, 1254)}
