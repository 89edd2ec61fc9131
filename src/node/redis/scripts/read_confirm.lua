-- KEYS[4] the resource, KEYS[5] its readers. ARGV etag of the read, owner, token (16 digits). {1, now} confirmed: the entry
-- stands, and the counter is not below the token; {0, now} refused, and nothing is changed; {-1, now} the etag is another.
local resource, readers, owner, token = KEYS[4], KEYS[5], ARGV[2], tonumber(ARGV[3])
local head, entry = unpack(redis.call('HMGET', COUNTERS, HEAD, resource))
local etag, high_water, next_floor = read_head(head)
if etag ~= ARGV[1] then
  return {-1, now}
end
entry = entry or redis.call('HGET', OLDER, resource)
if value_of(resource) ~= SHARED or not entry then
  return {0, now}
end
drop_ended(readers)
if not redis.call('ZRANK', readers, owner) then
  return {0, now}
end
-- As whoever counts on from it will read it: what others have written is not above our high-water mark.
local counter = math.min(tonumber(string.match(entry, SIXTEEN_DIGITS)) or high_water, high_water)
-- No guard as for a writer: while the entry stands, only other readers can have raised the counter. It never falls.
if counter < token then
  redis.call('HSET', COUNTERS, resource, ARGV[3] .. owner)
  if token > high_water then
    raise_high_water(etag, token, next_floor)
  end
end
return {1, now}
