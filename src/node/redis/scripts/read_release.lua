-- Stands behind the functions of the line. As release.lua for a reader: KEYS[1] the resource, KEYS[2] its readers, KEYS[3]
-- its line, where the client has one; ARGV[1] the owner, ARGV[2] for how many ms its entry is kept, if it is. 1 if the entry
-- was there, 0 if not, 2 if the key is no reader's. The last one deletes the key, and wakes whoever is next.
local resource, readers, line = KEYS[1], KEYS[2], KEYS[3]
local holder = redis.pcall('GETRANGE', resource, '0', '32')
if holder ~= 'shared by readers, see quorlock.' then
  return holder == '' and redis.pcall('PTTL', resource) == -2 and 0 or 2
end
local was_there, is_alone
local few = redis.pcall('ZRANGE', readers, '0', '1')
if few.err and string.find(few.err, 'WRONGTYPE', 1, true) then
  redis.call('UNLINK', readers) -- as in readers.lua
elseif not ARGV[2] then
  -- Where it is alone, this look is all that it costs, and one at the line.
  is_alone = #few == 1 and few[1] == ARGV[1]
  was_there = 1
end
if not is_alone then
  local time = redis.call('TIME')
  local ms = time[1] * 1000 + math.floor(time[2] / 1000)
  local ended = redis.call('ZRANGEBYSCORE', readers, '-inf', string.format('(%.0f', ms), 'LIMIT', '0', '1000')
  if #ended > 0 then
    redis.call('ZREM', readers, unpack(ended))
  end
  if ARGV[2] then
    was_there = redis.call('ZRANK', readers, ARGV[1]) and 1 or 0
    if was_there == 1 then
      redis.call('ZADD', readers, ms + 1 + ARGV[2], ARGV[1])
      -- One without an end, which others have taken, covers other readers too: it gets the end of the last of them below.
      for _, key in ipairs({resource, readers}) do
        local left = redis.call('PTTL', key)
        if left ~= -1 and left < ARGV[2] + 2 then
          redis.call('PEXPIRE', key, ARGV[2] + 2)
        end
      end
    end
  else
    was_there = redis.call('ZREM', readers, ARGV[1])
  end
  local last = redis.call('ZRANGE', readers, '-1', '-1', 'WITHSCORES')
  if last[2] then
    -- It outlives the last of them, and no longer than it has to.
    local life = last[2] - ms + 1
    local left = redis.call('PTTL', resource)
    if left > life or left == -1 and life < math.huge then
      redis.call('PEXPIRE', resource, string.format('%.0f', life)) -- others may have put a half there
    end
    return was_there
  elseif was_there == 0 then
    return 0 -- it may have been lost with those of others, for whom the key still stands
  end
end
redis.call('DEL', resource, readers)
if line and redis.pcall('EXISTS', line) == 1 then
  local wake = of_line()
  wake(line, resource)
end
return was_there
