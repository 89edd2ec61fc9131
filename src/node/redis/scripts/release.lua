-- Deletes the keys of a lease, whatever became of the others: what is left would keep everybody out. wake.lua goes on where
-- somebody may wait for them. KEYS: the resources, of 'read' their readers, and the lines where the client has them: one for
-- each resource, or one for all. ARGV: owner, of 'set' how many resources, and for how many ms the keys are kept, if they are:
-- their holder is done, and others are to wait until then.
-- 1 if all were its own, 2 if one was somebody else's, 0 if one was gone. No clock is told: that a key is gone is true
-- whatever becomes of the node.
local owner, size, keep = ARGV[1], 1, ARGV[2]
if KIND == 'set' then size, keep = ARGV[2] + 0, ARGV[3] end
local answer, freed, others, is_deleted = 1, 0, nil, false
for index = 1, size do
  local key = KEYS[index]
  -- One byte more than an owner has is enough to tell; any other type than a string belongs to somebody else.
  local holder = redis.pcall('GETRANGE', key, '0', '32')
  if holder == owner then
    freed = freed + 1
    if keep then redis.call('PEXPIRE', key, keep) end
  elseif KIND == 'read' and holder == 'shared by readers, see quorlock.' then
    local readers = KEYS[2]
    local few = redis.pcall('ZRANGE', readers, '0', '1')
    if few.err and string.find(few.err, 'WRONGTYPE', 1, true) then redis.call('UNLINK', readers) end -- as in readers.lua
    -- Where it is alone, this look is all that it costs, and one at the line.
    if keep or #few ~= 1 or few[1] ~= owner then
      local time = redis.call('TIME')
      local ms = time[1] * 1000 + math.floor(time[2] / 1000)
      local ended = redis.call('ZRANGEBYSCORE', readers, '-inf', string.format('(%.0f', ms), 'LIMIT', '0', '1000')
      if #ended > 0 then redis.call('ZREM', readers, unpack(ended)) end
      answer = redis.call('ZREM', readers, owner) -- a full server takes no first write that may need more, as ZADD does
      local keeps = keep and answer == 1
      if keeps then redis.call('ZADD', readers, ms + keep, owner) end
      local last = redis.call('ZRANGE', readers, '-1', '-1', 'WITHSCORES')
      if last[2] then
        -- The key outlives the last of them, and no longer than it has to; the set lives for no less. Others may have put a half
        -- there, or what never ends.
        local life, left = math.max(last[2] - ms, 1), redis.call('PTTL', key)
        local text = string.format('%.0f', life)
        if life == math.huge then return answer end
        if left > life or left == -1 then redis.call('PEXPIRE', key, text)
        elseif keeps and left < keep + 0 then redis.call('PEXPIRE', key, keep) end
        if keeps and redis.call('PTTL', readers) < life then redis.call('PEXPIRE', readers, text) end
        return answer
      elseif answer == 0 then
        return 0 -- it may have been lost with those of others, for whom the key still stands
      end
    end
    redis.call('DEL', key, readers)
    freed, is_deleted = 1, true
  else
    local is_gone = holder == '' and redis.pcall('PTTL', key) == -2 -- others may have set it to nothing
    if not is_gone then answer = 2 elseif answer ~= 2 then answer = 0 end
    others = others or {}
    others[index] = true
  end
end
if freed == 0 then return answer end
if not keep and not is_deleted and not others then redis.call('DEL', unpack(KEYS, 1, size)) end
for index = 1, not keep and others and size or 0 do
  if not others[index] then redis.call('DEL', KEYS[index]) end
end

-- Where there is no line, this look is all that it costs. Who waits for a slot stands in its own line, or in that of all slots.
local first_line = KIND == 'read' and 3 or size + 1
local line, slots_line = KEYS[first_line], nil
if not line then return answer end
local slot_at = KIND ~= 'set' and string.find(KEYS[1], '/%d%d?%d?$', -4)
if slot_at then
  line, slots_line = 'quorlock:line:' .. KEYS[1], 'quorlock:line:quorlock:slots:' .. string.sub(KEYS[1], 1, slot_at - 1)
end
if KIND ~= 'set' and redis.pcall('EXISTS', line, slots_line or line) == 0
  or KIND == 'set' and redis.pcall('EXISTS', unpack(KEYS, first_line)) == 0 then return answer end
