-- As extend.lua for readers: KEYS[4] and on the resources, and behind them their readers. An entry is never made anew, and
-- none is made to end sooner.
local answer = {1, now}
local size = math.floor((#KEYS - 3) / 2) -- behind lower.lua there may be a line
for index = 1, size do
  local resource, readers = KEYS[3 + index], KEYS[3 + size + index]
  local owner, ttl = ARGV[2 * index], tonumber(ARGV[2 * index + 1])
  local holder = value_of(resource)
  local said = holder == '' and redis.call('PTTL', resource) == -2 and 0 or 2
  if holder == SHARED then
    drop_ended(readers)
    local ends = end_of(readers, owner)
    said = ends and 1 or 0
    if ends then
      -- Taken out first: a server whose memory is full takes no first write that may need more, and any second one.
      redis.call('ZREM', readers, owner)
      put(resource, readers, owner, no_less(ttl, math.max(ends - ms - 1, 0)), true)
    end
  end
  answer[2 + index] = said
end
return answer
