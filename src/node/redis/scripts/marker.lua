-- Stands before every script that votes. KEYS[1] is the node's marker, ARGV[1] the run_id that was seen when
-- the connection was opened. A node that restarted, was flushed or rolled back does not have the marker of
-- this run_id, and does not vote.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local m = redis.call('HMGET', KEYS[1], 'run_id', 'state', 'max_ttl', 'floor', 'passed', 'high', 'turned')
if m[1] ~= ARGV[1] or m[2] ~= 'ready' then
  return {-1, now}
end
-- Numbers are doubles: exact below 2^53, and printed in full only with %.0f.
local function exact(number)
  return string.format('%.0f', number)
end
-- No counter ever issued here is above `high`, which runs two seconds ahead so that it is seldom written.
local function raise_high(fence)
  if fence > tonumber(m[6]) then
    redis.call('HSET', KEYS[1], 'high', exact(fence + 2000000))
  end
end
