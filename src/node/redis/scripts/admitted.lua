-- Stands before the scripts that prolong what was granted. ARGV[1] is the identity that the node was admitted under
-- when its marker was last read on this connection.
local identity, state = unpack(redis.call('HMGET', NODE, 'identity', 'state'))
if identity ~= ARGV[1] or state ~= 'ready' then
  return {-1, now}
end
