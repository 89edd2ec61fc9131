-- Stands behind the functions of the line. KEYS the resources of one lease, and behind them their lines, where the client
-- has them, or the one line of them all; ARGV[1] how many resources, ARGV[2] the owner, and as in release.lua for how long the keys are kept, if they
-- are. Deletes those that are the owner's, whatever the others are: what is left would keep everybody out. 1 if all were
-- its own, 2 if one was somebody else's, 0 if one was gone.
local size, answer = tonumber(ARGV[1]), 1
for index = 1, size do
  local resource, line = KEYS[index], KEYS[size + index] or KEYS[size + 1]
  local holder = redis.pcall('GETRANGE', resource, '0', '32')
  if holder ~= ARGV[2] then
    answer = holder == '' and answer ~= 2 and 0 or 2
  else
    if ARGV[3] then
      redis.call('PEXPIRE', resource, ARGV[3])
    else
      redis.call('DEL', resource)
    end
    local seen = line and redis.pcall('ZRANGE', line, '0', FEW)
    if seen and not seen.err and #seen > 0 then
      local _, _, wake = of_line()
      wake(line, string.sub(line, 15), nil, nil, seen)
    end
  end
end
return answer
