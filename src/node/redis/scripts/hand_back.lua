-- Undoes adopt.lua, whatever became of the others: the keys get the owner back that they had, and end when they would have.
-- KEYS[4] and on: the resources. ARGV: owner, the owner before. Answers as release.lua does.
local answer = 1
for index = 4, #KEYS do
  local key = KEYS[index]
  local holder = redis.pcall('GETRANGE', key, '0', '32')
  if holder == ARGV[1] then
    -- A full server takes no first write that may need more.
    local left = redis.call('PTTL', key)
    if left > 0 then redis.call('PEXPIRE', key, left) end
    redis.call('SET', key, ARGV[2], 'KEEPTTL')
    local lent = redis.pcall('GETRANGE', 'quorlock:lent:' .. key, '0', '63')
    local ends = type(lent) == 'string' and string.sub(lent, 1, 32) == ARGV[1] and string.match(lent, '^%d+$', 33)
    if ends then
      local rest = ends - math.floor(now / 1000)
      if left >= 0 and rest < left then redis.call('PEXPIRE', key, string.format('%.0f', rest)) end
      redis.call('UNLINK', 'quorlock:lent:' .. key)
    end
    -- The counter stays, and names the owner before, as where its key was restored: acquire.lua knows by it whose keys it may cut.
    local entry = redis.call('HGET', COUNTERS, key)
    if entry and string.sub(entry, 17, 48) == ARGV[1] then
      redis.call('HSET', COUNTERS, key, string.sub(entry, 1, 16) .. ARGV[2] .. 'r')
    end
  elseif not (holder == '' and redis.pcall('PTTL', key) == -2) then
    answer = 2
  elseif answer ~= 2 then
    answer = 0
  end
end
return answer
