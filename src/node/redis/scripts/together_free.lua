-- Takes several locks if all of them are free, and none otherwise. The counters of all become one number: that of the
-- largest, raised by the count of tokens that the client wants, or its hint where that is more. So a node answers one
-- number for the set, and no counter of it is below.
-- KEYS[4] and on: the resources, and behind them their lines, where the client has them. ARGV as for one resource up to
-- the count; then how many resources, the note or nothing, and the client's name, its ticket and a first one who did not
-- come, if it has lines. Answers as for one resource: `now`, {1, now, counter, head, 1 if others wait}, {-1, now}, {-3, now},
-- {-4, now}; and {0, now, remaining ms, holder or nil, who is first for a free key or nil, how many wait before the client
-- or -1, 1 if the client is the first and the holder none of ours, which of the resources that is, 1 if all have a line}:
-- of those in the way, the one that is held for longest.
local owner, ttl, hint, count, size = ARGV[2], ARGV[3], ARGV[4] + 0, ARGV[6] + 0, ARGV[7] + 0
local note, client = ARGV[8], ARGV[9]
local entries = redis.call('HMGET', COUNTERS, HEAD, unpack(KEYS, 4, 3 + size))
local head = entries[1]
local is_cached, is_late = head == ARGV[1], ARGV[5] ~= '0' and now > ARGV[5] + 0
-- As in acquire_free.lua, and all counters become the hint.
local takes_hint = is_cached and count > 0 and hint <= now + 60 * 1000000
for index = 2, takes_hint and size + 1 or 1 do
  local entry = entries[index]
  local counter = entry and tonumber(string.sub(entry, 1, 16))
  takes_hint = takes_hint and (not entry or counter and counter + count <= hint)
end

-- The fast path: all are free, and nobody waits for one of them.
if takes_hint and not is_late and not client and redis.pcall('EXISTS', unpack(KEYS, 4)) == 0 then
  local entry, raised = ARGV[4] .. owner .. note, {}
  for index = 1, size do
    local resource = KEYS[3 + index]
    redis.call('SET', resource, owner, 'PX', ttl)
    raised[2 * index - 1], raised[2 * index] = resource, entry
  end
  redis.call('HSET', COUNTERS, unpack(raised))
  return now
end
