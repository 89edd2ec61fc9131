-- KEYS[4] the resource. ARGV etag of the acquire, owner, token (16 digits). {1, now} confirmed; {0, now} refused;
-- {-1, now} the etag is another one.
local resource, owner, token = KEYS[4], ARGV[2], tonumber(ARGV[3])
local head, entry = unpack(redis.call('HMGET', COUNTERS, HEAD, resource))
local etag, high_water, next_floor = read_head(head)
if etag ~= ARGV[1] then
  return {-1, now}
end
entry = entry or redis.call('HGET', OLDER, resource)
local counter = entry and tonumber(string.sub(entry, 1, 16))
-- Without the guard `counter > token` two holders can get one token.
if value_of(resource) ~= owner or not counter or counter > token then
  return {0, now}
end
-- With the note that it has left, if the entry is its own; no longer one of a restore.
local note = string.sub(entry, 17, 48) == owner and string.match(entry, '^r?(.*)$', 49) or ''
redis.call('HSET', COUNTERS, resource, ARGV[3] .. owner .. note)
if token > high_water then
  raise_high_water(etag, token, next_floor)
end
return {1, now}
