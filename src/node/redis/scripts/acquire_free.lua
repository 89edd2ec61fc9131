-- Takes the lock if it is free, and raises the resource's counter by the count of tokens that the client wants, or to its
-- hint where that is more. The tokens are the last ones up to the new counter.
-- KEYS[4] the resource. ARGV: the head that the client has cached, owner, ttl in ms, hint (16 digits), latest node time
-- in us (0: none), count, with a minus unless that head says next_floor + count <= hint <= high_water, and the note of a
-- holder with a label. Answers: `now` granted, the counter is the hint; {1, now, counter, head} granted; {0, now,
-- remaining ms, holder or nil} denied, where a holder with a label is {value, note}; {-1, now} the node is in another state; {-3, now} too late; {-4, now} the counters
-- are at their end.
-- KEYS[5] the line, where the client has one; ARGV[8] to ARGV[10] the client's name, its ticket or nothing, and a first one
-- who did not come or nothing. Where there is a line, more is answered: {1, now, counter, head, 1 if others wait}, and {0,
-- now, remaining ms, holder or nil, who is first for a free key or nil, how many wait before the client or -1, 1 if the
-- client is the first and the holder none of ours}.
local resource, owner, ttl, line, client = KEYS[4], ARGV[2], ARGV[3], KEYS[5], ARGV[8]
local hint, count = ARGV[4] + 0, ARGV[6] + 0
local head, entry = unpack(redis.call('HMGET', COUNTERS, HEAD, resource))
local is_cached, is_late = head == ARGV[1], ARGV[5] ~= '0' and now > ARGV[5] + 0
-- If the client's cached head matches, the state is the right one, what it says of the hint holds here, and the older
-- generation need not be read, since it has none above next_floor: the counter becomes the hint. One that runs too far ahead
-- of our clock is cut in acquire.lua.
local counter = entry and tonumber(string.sub(entry, 1, 16))
local takes_hint = is_cached and count > 0 and hint <= now + 60 * 1000000
  and (not entry or counter and counter + count <= hint)

-- A slot of a semaphore has two lines: its own, and that of those who wait for any slot.
local slot_at = line and string.find(resource, '/%d%d?%d?$', -4)
local slots_line = slot_at and 'quorlock:line:quorlock:slots:' .. string.sub(resource, 1, slot_at - 1)

-- The fast path, which is all for a free resource that nobody waits for. What stands behind it is not made here.
local has_nobody, is_held
if takes_hint and not is_late and not client then
  has_nobody = not line or redis.pcall('EXISTS', line, slots_line or line) == 0
  if has_nobody then
    if redis.call('SET', resource, owner, 'NX', 'PX', ttl) then
      redis.call('HSET', COUNTERS, resource, ARGV[4] .. owner .. (ARGV[7] or ''))
      return now
    end
    is_held = true
  end
end
