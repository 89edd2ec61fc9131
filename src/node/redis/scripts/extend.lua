-- KEYS marker, resources; ARGV run_id, then for each resource its owner and ttl in ms.
-- {1, now, one of each}: 1 extended, 0 the key is gone, 2 it is somebody else's. A key is never made anew.
local answer = {1, now}
for index = 2, #KEYS do
  local holder = redis.pcall('GET', KEYS[index])
  if holder == ARGV[index * 2 - 2] then
    redis.call('PEXPIRE', KEYS[index], ARGV[index * 2 - 1])
    answer[index + 1] = 1
  else
    answer[index + 1] = holder and 2 or 0
  end
end
return answer
