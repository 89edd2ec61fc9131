-- Stands before the scripts of readers but release. Beside a key that readers have, the sorted set of the readers: each
-- owner, with the end of its entry in ms of our clock. An entry counts only while the key is theirs; the key outlives all
-- of them. KEYS behind the resources: their sets, in the same order.
local ms = math.floor(now / 1000)

-- Forgets those whose time is up. Anything but a sorted set is none of ours, and goes as if there were no set: nobody could
-- read here, nor be released, for as long as the key lives.
local function drop_ended(readers)
  local ended = redis.pcall('ZRANGEBYSCORE', readers, '-inf', string.format('(%.0f', ms), 'LIMIT', '0', '1000')
  if ended.err then
    if string.find(ended.err, 'WRONGTYPE', 1, true) then return redis.call('UNLINK', readers) end
    ended = redis.call('ZRANGEBYSCORE', readers, '-inf', '0', 'LIMIT', '0', '1') -- says what has failed
  end
  if #ended > 0 then redis.call('ZREM', readers, unpack(ended)) end
end

-- When the entry of an owner ends, in ms of our clock; nothing where there is none.
local function end_of(readers, owner)
  local place = redis.call('ZRANK', readers, owner)
  return place and tonumber(redis.call('ZRANGE', readers, place, place, 'WITHSCORES')[2])
end

-- Puts an entry there for so many ms, and lets the key live for no less, and the set for no less than the key: others may
-- have taken the end from either, or deleted the set.
local function put(resource, readers, owner, ttl, is_shared)
  redis.call('ZADD', readers, ms + ttl, owner)
  local left = is_shared and redis.call('PTTL', resource) or ttl
  if not is_shared then
    redis.call('SET', resource, SHARED, 'PX', ttl)
  elseif left == -1 then
    -- Without an end it covers whatever stands there: it ends as the longest lease may, where that is known.
    local most = tonumber(redis.call('HGET', NODE, 'max_ttl'))
    left = math.max(most or 0, ttl)
    if most then redis.call('PEXPIRE', resource, left) end
  elseif left < ttl then
    left = ttl
    redis.call('PEXPIRE', resource, left)
  end
  if redis.call('PTTL', readers) < left then redis.call('PEXPIRE', readers, left) end
end
