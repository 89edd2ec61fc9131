-- KEYS[4] and on: the resources of one lease. ARGV identity, owner, ttl in ms, latest node time in us, and the note of a
-- holder with a label (never in classic mode, where `now` and the latest time are zero). Sets the keys of a held lease on a
-- node that lost them. {1, now} set, and all stand; {0, now} not, none was missing, or one is somebody else's; {-3, now} too
-- late.
-- It is no vote, and so needs no look at the counter, which any waiter may have raised since. Votes are acquires and
-- confirms. A restore is sent after its owner's round was won, so that whenever a vote of that round was counted, the
-- key was there by the owner's own acquire. A confirm that is still under way may find the restored key; it is not
-- counted any more, and a counter that it raises is raised.
if now > tonumber(ARGV[4]) then
  return {-3, now}
end
local missing = {}
for index = 4, #KEYS do
  if redis.call('PTTL', KEYS[index]) == -2 then
    missing[#missing + 1] = KEYS[index]
  elseif value_of(KEYS[index]) ~= ARGV[2] then
    -- The node does not count for this lease while somebody else has one of its keys, and the others are in their way.
    return {0, now}
  end
end
for _, resource in ipairs(missing) do
  redis.call('SET', resource, ARGV[2], 'PX', ARGV[3])
  if ARGV[5] then
    -- The note is left again, and the counter stays where it is: where there is none, that is at the floor. An `r` before
    -- the note says that the counter is not of this owner's grant.
    local entry = redis.call('HGET', COUNTERS, resource) or redis.call('HGET', OLDER, resource)
      or redis.call('HGET', NODE, 'floor')
    local counter = string.match(entry or '', SIXTEEN_DIGITS)
    local is_own = counter and string.sub(entry, 17, 48) == ARGV[2]
    -- The record that its leader has said since stays.
    local record = '^r?p(' .. string.rep('%d', 32) .. ')'
    local said = is_own and string.match(entry, record, 49)
    if counter and not (said and said > (string.match(ARGV[5], record) or '')) then
      local is_granted = is_own and string.sub(entry, 49, 49) ~= 'r'
      redis.call('HSET', COUNTERS, resource, counter .. ARGV[2] .. (is_granted and '' or 'r') .. ARGV[5])
    end
  end
end
return {#missing > 0 and 1 or 0, now}
