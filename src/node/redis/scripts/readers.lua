-- Stands before the scripts of readers but release. Beside a key that readers have, the sorted set of the readers: each
-- owner, with the end of its entry in ms of our clock. An entry counts only while the key is theirs; the key outlives all
-- of them. KEYS behind the resources: their sets, in the same order.
local ms = math.floor(now / 1000)

-- Forgets those whose time is up.
local function drop_ended(readers)
  local ended = redis.call('ZRANGEBYSCORE', readers, '-inf', string.format('(%.0f', ms), 'LIMIT', '0', '1000')
  if #ended > 0 then
    redis.call('ZREM', readers, unpack(ended))
  end
end

-- Puts an entry there for so many ms, and lets the key live for no less.
local function put(resource, readers, owner, ttl, is_shared)
  redis.call('ZADD', readers, string.format('%.0f', ms + 1 + ttl), owner)
  local life = string.format('%.0f', ttl + 2)
  if not is_shared then
    redis.call('SET', resource, SHARED, 'PX', life)
    redis.call('PEXPIRE', readers, life)
  elseif redis.call('PTTL', resource) < ttl + 2 then
    redis.call('PEXPIRE', resource, life)
    redis.call('PEXPIRE', readers, life)
  end
end
