-- KEYS[4] the resource. ARGV identity, owner, ttl in ms, latest node time in us, and the note of a holder with a label
-- (never in classic mode, where `now` and the latest time are zero). Sets the key of a held lease on a node that lost
-- it. {1, now} set; {0, now} not, there is a key; {-3, now} too late.
-- It is no vote, and so needs no look at the counter, which any waiter may have raised since. Votes are acquires and
-- confirms. A restore is sent after its owner's round was won, so that whenever a vote of that round was counted, the
-- key was there by the owner's own acquire. A confirm that is still under way may find the restored key; it is not
-- counted any more, and a counter that it raises is raised.
if now > tonumber(ARGV[4]) then
  return {-3, now}
end
if redis.call('SET', KEYS[4], ARGV[2], 'NX', 'PX', ARGV[3]) then
  if ARGV[5] then
    -- The note is left again, and the counter stays where it is: where there is none, that is at the floor. An `r` before
    -- the note says that the counter is not of this owner's grant.
    local entry = redis.call('HGET', COUNTERS, KEYS[4]) or redis.call('HGET', OLDER, KEYS[4])
      or redis.call('HGET', NODE, 'floor')
    local counter = string.match(entry or '', SIXTEEN_DIGITS)
    if counter then
      local is_own = string.sub(entry, 17, 48) == ARGV[2] and string.sub(entry, 49, 49) ~= 'r'
      redis.call('HSET', COUNTERS, KEYS[4], counter .. ARGV[2] .. (is_own and '' or 'r') .. ARGV[5])
    end
  end
  return {1, now}
end
return {0, now}
