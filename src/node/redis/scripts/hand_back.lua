-- Undoes adopt.lua, whatever became of the others: the keys get the owner back that they had, and live as long as before.
-- KEYS: the resources. ARGV: owner, the owner before. Answers as release.lua does.
local answer = 1
for index = 1, #KEYS do
  local key = KEYS[index]
  local holder = redis.pcall('GETRANGE', key, '0', '32')
  if holder == ARGV[1] then
    -- A full server takes no first write that may need more.
    local left = redis.call('PTTL', key)
    if left > 0 then redis.call('PEXPIRE', key, left) end
    redis.call('SET', key, ARGV[2], 'KEEPTTL')
  elseif not (holder == '' and redis.pcall('PTTL', key) == -2) then
    answer = 2
  elseif answer ~= 2 then
    answer = 0
  end
end
return answer
