-- Takes the first of several slots that is free, in the order of the keys, as acquire.lua takes one resource: with its own
-- counter, which alone is raised.
-- KEYS[4] and on: the slots, and behind them the line in which one waits for any of them, where the client has one. ARGV: the
-- head that the client has cached, owner, ttl in ms, hint (16 digits), latest node time in us (0: none), 1 or, unless that
-- head says next_floor + 1 <= hint <= high_water, -1; then how many slots, the note or nothing, and the client's name, its
-- ticket and a first one who did not come, if it has lines. Answers: `now` granted, the first of them, whose counter is the
-- hint; {1, now, counter, which of the keys, 1 if others wait, 0 if not, or -1 without a line, head or nil} granted; all else
-- as acquire.lua, where the key that is told of is the one that ends soonest, and none is told to be another program's.
local owner, ttl, size = ARGV[2], ARGV[3], ARGV[7] + 0
local hint, line, client = ARGV[4] + 0, KEYS[4 + size], ARGV[9]
local head, entry = unpack(redis.call('HMGET', COUNTERS, HEAD, KEYS[4]))
local is_cached, is_late = head == ARGV[1], ARGV[5] ~= '0' and now > ARGV[5] + 0

-- One that runs too far ahead of our clock is cut in slot.lua.
local is_allowed = is_cached and ARGV[6] == '1' and hint <= now + 60 * 1000000

-- The fast path: nobody waits, and the counter of the first that is free becomes the hint, as in acquire_free.lua.
local has_nobody, at
if is_allowed and not is_late and not client then
  has_nobody = not line or redis.pcall('EXISTS', line) == 0
  for index = 4, has_nobody and 3 + size or 0 do
    -- Somebody may wait for this slot by its name.
    if line and redis.pcall('EXISTS', 'quorlock:line:' .. KEYS[index]) == 1 then
      has_nobody = false
      break
    elseif redis.call('SET', KEYS[index], owner, 'NX', 'PX', ttl) then
      at = index
      break
    end
  end
  if at and at > 4 then
    entry = redis.call('HGET', COUNTERS, KEYS[at])
  end
  local counter = at and entry and tonumber(string.sub(entry, 1, 16))
  if at and (not entry or counter and counter + 1 <= hint) then
    redis.call('HSET', COUNTERS, KEYS[at], ARGV[4] .. owner .. ARGV[8])
    return at == 4 and now or {1, now, hint, at - 3, -1}
  end
end
