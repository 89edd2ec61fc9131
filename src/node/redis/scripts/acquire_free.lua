-- Begins every acquire, and ends it where all is free, nobody waits, and the client knows the node's counters; or acquire.lua goes
-- on. KIND is 'one'; 'set': all of several resources or none; 'any': the first free one of several slots, in the order of the
-- keys; 'read': one resource, beside other readers.
-- KEYS[4] and on: the resources, of 'read' the set of its readers, and the lines where the client has them: one for each
-- resource, and of 'any' one for all.
-- ARGV: the head that the client has cached, owner, ttl in ms, hint (16 digits), latest node time in us (0: none), how many
-- tokens (of 'any' and 'read' one; with a minus unless that head says next_floor + count <= hint <= high_water), of 'set' and
-- 'any' how many resources, and as far as there is any: the note of the holder, the client's name, its ticket or '' where it asks
-- once, a first one who did not come or ''.
-- Answers:
--   now                                             granted: the counter is the hint, the slot is the first
--   {1, now, counter, head or nil, others, which}   granted; others: 1 if somebody else waits, 0 if nobody, -1 not looked for
--   {0, now, left, holder, which}                   denied; left in ms, -1 without an end, -2 free; holder: nil, the value, or
--                                                   {value, note}; which of a set is in the way, or 0
--   {0, ..., first}                                 free, and `first` goes before; a line is none that we may use
--   {0, ..., first, before, is_foreign}             the same with a line: who is let in first where the key is free, how many
--                                                   wait before the client or -1, 1 if it is the first and another program has the key
--   {-1, now} the node is in another state; {-3, now} it comes too late; {-4, now} the counters are at their end
local owner, ttl, hint, count = ARGV[2], ARGV[3], ARGV[4] + 0, ARGV[6] + 0
local size, rest = 1, 7
if KIND == 'set' or KIND == 'any' then size, rest = ARGV[7] + 0, 8 end
local note, client = ARGV[rest] or '', ARGV[rest + 1]
local first_line = KIND == 'read' and 6 or 4 + size
local line = KEYS[first_line]

local entries = KIND == 'set' and redis.call('HMGET', COUNTERS, HEAD, unpack(KEYS, 4, 3 + size))
  or redis.call('HMGET', COUNTERS, HEAD, KEYS[4])
local head = entries[1]
local is_cached, is_late = head == ARGV[1] and head ~= '', ARGV[5] ~= '0' and now > ARGV[5] + 0

-- The hint becomes the counter if the cached head is the node's and no counter is near. Then the older generation need not be
-- read: it has none above next_floor. A reader raises no counter, and begins one. acquire.lua cuts a hint far ahead of our clock.
local may_take = is_cached and count > 0 and hint <= now + 60 * 1000000
local takes_hint = may_take
for index = 2, may_take and #entries or 1 do
  local counter = entries[index] and KIND ~= 'read' and tonumber(string.sub(entries[index], 1, 16))
  takes_hint = takes_hint and (not entries[index] or counter and counter + count <= hint)
end

-- Who waits for a slot stands in its own line, or in that of all slots.
local slot_at = line and KIND == 'one' and string.find(KEYS[4], '/%d%d?%d?$', -4)
local slots_line = slot_at and 'quorlock:line:quorlock:slots:' .. string.sub(KEYS[4], 1, slot_at - 1)

if is_cached and not is_late and not client then
  if KIND == 'any' then
    for at = 4, may_take and (not line or redis.pcall('EXISTS', line) == 0) and 3 + size or 3 do
      if line and redis.pcall('EXISTS', 'quorlock:line:' .. KEYS[at]) == 1 then break end
      if redis.call('SET', KEYS[at], owner, 'NX', 'PX', ttl) then
        local entry = at == 4 and entries[2] or at > 4 and redis.call('HGET', COUNTERS, KEYS[at])
        local counter = entry and tonumber(string.sub(entry, 1, 16))
        if not entry or counter and counter + 1 <= hint then
          redis.call('HSET', COUNTERS, KEYS[at], ARGV[4] .. owner .. note)
          return at == 4 and now or {1, now, hint, false, -1, at - 3}
        end
        redis.call('DEL', KEYS[at])
        break
      end
    end
  elseif KIND == 'read' then
    local counter = entries[2] and string.sub(entries[2], 1, 16)
    local is_known = counter and #counter == 16 and not string.find(counter, '%D')
      and counter <= string.sub(head, -33, -18) -- its high-water mark
    if (takes_hint or is_known) and redis.pcall('EXISTS', unpack(KEYS, 4)) == 0 then
      redis.call('ZADD', KEYS[5], math.floor(now / 1000) + ttl, owner)
      redis.call('SET', KEYS[4], 'shared by readers, see quorlock.', 'PX', ttl)
      redis.call('PEXPIRE', KEYS[5], ttl)
      if not takes_hint then return {1, now, counter + 0, head, -1, 1} end
      redis.call('HSET', COUNTERS, KEYS[4], ARGV[4] .. owner)
      return now
    end
  elseif KIND == 'one' and takes_hint and (not line or redis.pcall('EXISTS', line, slots_line or line) == 0) then
    if redis.call('SET', KEYS[4], owner, 'NX', 'PX', ttl) then
      redis.call('HSET', COUNTERS, KEYS[4], ARGV[4] .. owner .. note)
      return now
    end
  elseif KIND == 'set' and takes_hint and redis.pcall('EXISTS', unpack(KEYS, 4)) == 0 then
    local entry, raised = ARGV[4] .. owner .. note, {}
    for index = 1, size do
      redis.call('SET', KEYS[3 + index], owner, 'NX', 'PX', ttl)
      raised[2 * index - 1], raised[2 * index] = KEYS[3 + index], entry
    end
    redis.call('HSET', COUNTERS, unpack(raised))
    return now
  end
end
