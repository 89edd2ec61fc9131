-- Sets the keys of a held lease on a node that lost them. KEYS[4] and on: the resources of one lease; of 'read' one, and its
-- readers. ARGV: identity, owner, ttl in ms, latest node time in us, and the note of a holder with a label; in classic mode no
-- note, and `now` and the latest time are zero.
-- {1, now} set, and all stand; {0, now} not: none was missing, or one is somebody else's; {-3, now} too late.
-- It is no vote, and so needs no look at the counter, which any waiter may have raised since. Votes are acquires and
-- confirms. A restore is sent after its owner's round was won, so that whenever a vote of that round was counted, the
-- key was there by the owner's own acquire. A confirm that is still under way may find the restored key; it is not
-- counted any more, and a counter that it raises is raised.
if now > tonumber(ARGV[4]) then return {-3, now} end
local owner, missing = ARGV[2], {}
for index = 4, KIND == 'read' and 4 or #KEYS do
  local key, holder = KEYS[index], value_of(KEYS[index])
  if redis.call('PTTL', key) == -2 then
    missing[#missing + 1] = key
  elseif KIND == 'read' and holder == SHARED then
    drop_ended(KEYS[5])
    if redis.call('ZRANK', KEYS[5], owner) then return {0, now} end
    put(key, KEYS[5], owner, tonumber(ARGV[3]), true)
    return {1, now}
  elseif KIND == 'read' or holder ~= owner then
    -- The node does not count for this lease while somebody else has one of its keys, and the others are in their way.
    return {0, now}
  end
end
for _, key in ipairs(missing) do
  if KIND == 'read' then
    redis.call('UNLINK', KEYS[5])
    put(key, KEYS[5], owner, tonumber(ARGV[3]), false)
  else
    redis.call('SET', key, owner, 'PX', ARGV[3])
    if ARGV[5] then keep_note(key, owner, ARGV[5]) end
  end
end
return {#missing > 0 and 1 or 0, now}
