-- KEYS[4] and on: resources. ARGV identity, then for each resource its owner and ttl in ms.
-- {1, now, one of each}: 1 extended, 0 the key is gone, 2 it is somebody else's. A key is never made anew, and none is made
-- to end sooner.
local answer = {1, now}
for index = 4, #KEYS do
  local owner, ttl = ARGV[2 * index - 6], tonumber(ARGV[2 * index - 5])
  local holder = value_of(KEYS[index])
  if holder == owner then
    prolong(KEYS[index], ttl)
    answer[index - 1] = 1
  else
    answer[index - 1] = holder == '' and redis.call('PTTL', KEYS[index]) == -2 and 0 or 2
  end
end
return answer
