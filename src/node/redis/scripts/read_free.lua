-- Lets a reader in where the key is free, or other readers have it, and no writer waits before it. The counter is told and
-- stays where it is; where there is none yet, it becomes the hint.
-- KEYS[4] the resource, KEYS[5] its readers, KEYS[6] its line, where the client has one; ARGV and answers as of acquire.lua.
local resource, readers, line = KEYS[4], KEYS[5], KEYS[6]
local owner, ttl, hint, latest = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local client, ticket, missing = ARGV[8], ARGV[9], ARGV[10]
local head, entry = unpack(redis.call('HMGET', COUNTERS, HEAD, resource))
local is_cached, is_late = head == ARGV[1], latest > 0 and now > latest
entry = entry or is_cached and redis.call('HGET', OLDER, resource)

-- The fast path: the key is free, nobody waits for it, and no set of readers is left from before. Where there is no counter
-- it becomes the hint, if the head allows that, as in acquire_free.lua.
if is_cached and not is_late and not client then
  local counter = entry and string.sub(entry, 1, 16)
  local _, high_water = string.match(head, '^(%S+) (%d+) ')
  local is_known
  if entry then
    is_known = high_water and #counter == 16 and not string.find(counter, '%D') and counter + 0 <= high_water + 0
  else
    is_known = tonumber(ARGV[6]) > 0 and hint <= now + 60 * 1000000
  end
  if is_known and redis.pcall('EXISTS', unpack(KEYS, 4)) == 0 then
    local life = string.format('%.0f', ttl + 2)
    redis.call('ZADD', readers, string.format('%.0f', math.floor(now / 1000) + 1 + ttl), owner)
    redis.call('SET', resource, 'shared by readers, see quorlock.', 'PX', life)
    redis.call('PEXPIRE', readers, life)
    if not entry then
      redis.call('HSET', COUNTERS, resource, ARGV[4] .. owner)
      return now
    end
    return {1, now, counter + 0, head}
  end
end
