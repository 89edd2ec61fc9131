-- KEYS[4] and on: resources, of several leases; of 'read' and 'downgraded' their readers behind them, and of 'downgraded', which is one
-- lease, its line, where the client has one. ARGV: identity, then for each resource its owner and ttl in ms.
-- {1, now, one of each}: 1 extended, 0 the key is gone, 2 it is somebody else's. No key and no entry is made anew, and none is
-- made to end sooner.
local answer, size = {1, now}, #KEYS - 3
if KIND == 'read' then size = size / 2 elseif KIND == 'downgraded' then size = 1 end
for index = 1, size do
  local key, owner, ttl = KEYS[3 + index], ARGV[2 * index], tonumber(ARGV[2 * index + 1])
  local readers = KEYS[3 + size + index]
  local holder = value_of(key)
  -- A writer goes on as a reader: from now on readers have the key, and its entry is the first. What is left of earlier ones is
  -- void. Where this user may keep no readers it stays a writer's, which keeps others out, and is not lost for that.
  local downgrades = KIND == 'downgraded' and holder == owner
  if downgrades then
    redis.call('UNLINK', readers)
    downgrades = type(redis.pcall('ZADD', readers, 'XX', '0', '')) == 'number'
  end
  local said = holder == '' and redis.call('PTTL', key) == -2 and 0 or 2
  if downgrades then
    put(key, readers, owner, no_less(ttl, redis.call('PTTL', key)), false)
    if KEYS[6] then
      -- Those who wait to read are told, if they are next. A writer is not: the key is not free.
      for _, name in ipairs(redis.pcall('ZRANGE', KEYS[6], '0', FEW)) do
        if is_name(name) then
          if string.byte(name) == READER then wake(KEYS[6], key) end
          break
        end
      end
    end
    said = 1
  elseif holder == owner and KIND ~= 'read' then
    local left = redis.call('PTTL', key)
    local life = no_less(ttl, left)
    if life ~= left then redis.call('PEXPIRE', key, life) end
    said = 1
  elseif holder == SHARED and readers then
    drop_ended(readers)
    local ends = end_of(readers, owner)
    said = ends and 1 or 0
    if ends then
      -- Taken out first: a server whose memory is full takes no first write that may need more, and any second one.
      redis.call('ZREM', readers, owner)
      put(key, readers, owner, no_less(ttl, math.max(ends - ms, 0)), true)
    end
  end
  answer[2 + index] = said
end
return answer
