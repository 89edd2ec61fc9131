-- Lets a reader in where the key is free, or other readers have it, and no writer waits before it. The counter is told and
-- stays where it is; where this generation has none yet, it becomes the hint.
-- KEYS[4] the resource, KEYS[5] its readers, KEYS[6] its line, where the client has one; ARGV and answers as of acquire.lua.
local resource, readers, line = KEYS[4], KEYS[5], KEYS[6]
local owner, ttl, client = ARGV[2], ARGV[3] + 0, ARGV[8]
local head, entry = unpack(redis.call('HMGET', COUNTERS, HEAD, resource))
local is_cached, is_late = head == ARGV[1], ARGV[5] ~= '0' and now > ARGV[5] + 0
-- As in acquire_free.lua: the older generation need not be read. A hint that runs too far ahead of our clock is cut below.
local takes_hint = is_cached and not entry and ARGV[6] + 0 > 0 and ARGV[4] + 0 <= now + 60 * 1000000

-- The fast path: the key is free, nobody waits for it, and no set of readers is left from before.
if is_cached and not is_late and not client then
  local counter = entry and string.sub(entry, 1, 16)
  local is_known = entry and #counter == 16 and not string.find(counter, '%D')
    and counter <= string.sub(head, -33, -18) -- its high-water mark, of sixteen digits too
  if (takes_hint or is_known) and redis.pcall('EXISTS', unpack(KEYS, 4)) == 0 then
    redis.call('ZADD', readers, math.floor(now / 1000) + 1 + ttl, owner)
    -- The key lives as long as a writer's would, and the entry, whose end is rounded up, ends with it.
    redis.call('SET', resource, 'shared by readers, see quorlock.', 'PX', ARGV[3])
    redis.call('PEXPIRE', readers, ARGV[3])
    if takes_hint then
      redis.call('HSET', COUNTERS, resource, ARGV[4] .. owner)
      return now
    end
    return {1, now, counter + 0, head}
  end
end
