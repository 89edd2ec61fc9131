-- Stands before the scripts that prolong what was granted. ARGV[1] is the identity that the node was admitted under
-- when its marker was last read on this connection.
local identity, state, longest = unpack(redis.call('HMGET', NODE, 'identity', 'state', 'max_ttl'))
if identity ~= ARGV[1] or state ~= 'ready' then
  return {-1, now}
end
longest = tonumber(longest) or math.huge

-- For how many ms from now something is to live that has so many left, where `ttl` is asked for: a later end stays as it
-- is, since an extension may be executed behind one that was sent after it. No lease has more left than the longest ttl;
-- where a clock that went back says so, it is cut to that; so is a key whose end others have taken.
local function no_less(ttl, left)
  left = left == -1 and longest or math.min(math.floor(left), longest)
  return left < math.huge and math.max(ttl, left) or ttl
end

local function prolong(key, ttl)
  local left = redis.call('PTTL', key)
  local life = no_less(ttl, left)
  if life ~= left then
    redis.call('PEXPIRE', key, life)
  end
end
