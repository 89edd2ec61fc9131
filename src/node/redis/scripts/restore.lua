-- KEYS marker, resource, fence; ARGV run_id, owner, ttl in ms, token (0: none). Sets the key of a held lease
-- on a node that lost it; it is no vote. {1, now} set; {0, now} not.
local counter = redis.pcall('GET', KEYS[3])
if type(counter) == 'string' and ARGV[4] ~= '0' and (tonumber(counter) or math.huge) > tonumber(ARGV[4]) then
  return {0, now}
end
if redis.call('SET', KEYS[2], ARGV[2], 'NX', 'PX', ARGV[3]) then
  return {1, now}
end
return {0, now}
