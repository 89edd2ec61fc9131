-- KEYS[4] and on: the resources of one lease. ARGV etag of the acquire, owner, token (16 digits). {1, now} confirmed, all
-- of them; {0, now} refused, and nothing is changed; {-1, now} the etag is another one.
local owner, token = ARGV[2], tonumber(ARGV[3])
local head = redis.call('HGET', COUNTERS, HEAD)
local etag, high_water, next_floor = read_head(head)
if etag ~= ARGV[1] then
  return {-1, now}
end
local notes = {}
for index = 4, #KEYS do
  local resource = KEYS[index]
  local entry = redis.call('HGET', COUNTERS, resource) or redis.call('HGET', OLDER, resource)
  local counter = entry and tonumber(string.sub(entry, 1, 16))
  -- Without the guard `counter > token` two holders can get one token.
  if value_of(resource) ~= owner or not counter or counter > token then
    return {0, now}
  end
  -- With the note that it has left, if the entry is its own; no longer one of a restore.
  notes[index] = string.sub(entry, 17, 48) == owner and string.match(entry, '^r?(.*)$', 49) or ''
end
for index = 4, #KEYS do
  redis.call('HSET', COUNTERS, KEYS[index], ARGV[3] .. owner .. notes[index])
end
if token > high_water then
  raise_high_water(etag, token, next_floor)
end
return {1, now}
