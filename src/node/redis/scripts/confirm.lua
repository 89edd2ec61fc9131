-- The second step of a round. KEYS[4] and on: the resources of one lease; of 'read' one, and its readers. ARGV: etag of the
-- acquire, owner, token (16 digits).
-- {1, now} confirmed, all of them; {0, now} refused, and no counter is changed; {-1, now} the etag is another one.
local owner, token = ARGV[2], tonumber(ARGV[3])
local etag, high_water, next_floor = read_head(redis.call('HGET', COUNTERS, HEAD))
if etag ~= ARGV[1] then return {-1, now} end
local last = KIND == 'read' and 4 or #KEYS
local notes = {}
for index = 4, last do
  local entry = entry_of(KEYS[index])
  local holds = value_of(KEYS[index]) == (KIND == 'read' and SHARED or owner)
  if not holds or not entry then return {0, now} end
  if KIND == 'read' then
    -- No guard as for a writer: while the entry stands, only other readers can have raised the counter. It never falls.
    drop_ended(KEYS[5])
    if not redis.call('ZRANK', KEYS[5], owner) then return {0, now} end
    if counter_of(entry, high_water) >= token then return {1, now} end
  else
    local counter = tonumber(string.sub(entry, 1, 16))
    -- Without the guard `counter > token` two holders can get one token.
    if not counter or counter > token then return {0, now} end
    -- With the note that it has left, if the entry is its own; no longer one of a restore.
    notes[index] = string.sub(entry, 17, 48) == owner and string.match(entry, '^r?(.*)$', 49)
  end
end
if token > high_water then raise_high_water(etag, token, next_floor) end
for index = 4, last do redis.call('HSET', COUNTERS, KEYS[index], ARGV[3] .. owner .. (notes[index] or '')) end
return {1, now}
