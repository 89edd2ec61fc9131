-- KEYS[4] the resource. ARGV identity, owner, ttl in ms, latest node time in us. Sets the key of a held lease on a
-- node that lost it. {1, now} set; {0, now} not, there is a key; {-3, now} too late. (In classic mode `now` and the
-- latest time are zero.)
-- It is no vote, and so needs no look at the counter, which any waiter may have raised since. Votes are acquires and
-- confirms. A restore is sent after its owner's round was won, so that whenever a vote of that round was counted, the
-- key was there by the owner's own acquire. A confirm that is still under way may find the restored key; it is not
-- counted any more, and a counter that it raises is raised.
if now > tonumber(ARGV[4]) then
  return {-3, now}
end
if redis.call('SET', KEYS[4], ARGV[2], 'NX', 'PX', ARGV[3]) then
  return {1, now}
end
return {0, now}
