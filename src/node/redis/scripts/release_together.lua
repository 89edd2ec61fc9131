-- Stands behind the functions of the line. KEYS the resources of one lease, and behind them their lines, where the client
-- has them, or the one line of them all; ARGV[1] how many resources, ARGV[2] the owner, and as in release.lua for how long the keys are kept, if they
-- are. Deletes those that are the owner's, whatever the others are: what is left would keep everybody out. 1 if all were
-- its own, 2 if one was somebody else's, 0 if one was gone.
local size, owner, answer = ARGV[1] + 0, ARGV[2], 1
local others
for index = 1, size do
  local holder = redis.pcall('GETRANGE', KEYS[index], '0', '32')
  if holder ~= owner then
    local is_gone = holder == '' and redis.pcall('PTTL', KEYS[index]) == -2
    answer = is_gone and answer ~= 2 and 0 or 2
    others = others or {}
    others[index] = true
  end
end
if not others and not ARGV[3] then
  redis.call('DEL', unpack(KEYS, 1, size))
  -- Where nobody waits for any of them, this look is all that it costs.
  if #KEYS == size or redis.pcall('EXISTS', unpack(KEYS, size + 1)) == 0 then
    return answer
  end
end
for index = 1, size do
  if not (others and others[index]) then
    if ARGV[3] then
      redis.call('PEXPIRE', KEYS[index], ARGV[3])
    elseif others then
      redis.call('DEL', KEYS[index])
    end
    local line = KEYS[size + index] or KEYS[size + 1]
    local seen = line and redis.pcall('ZRANGE', line, '0', FEW)
    if seen and not seen.err and #seen > 0 then
      local wake = of_line()
      wake(line, string.sub(line, 15), nil, nil, seen)
    end
  end
end
return answer
