-- Stands before the scripts that vote, but for acquire. KEYS[1] is the node's marker, ARGV[1] the run_id that
-- was seen when the connection was opened. A node that restarted, was flushed or rolled back does not have the
-- marker of this run_id, and does not vote.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local m = redis.call('HMGET', KEYS[1], 'run_id', 'state')
if m[1] ~= ARGV[1] or m[2] ~= 'ready' then
  return {-1, now}
end
