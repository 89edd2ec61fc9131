-- Stands before the scripts that prolong what was granted. ARGV[1] is the identity that the node was admitted under when its
-- marker was last read on this connection; in classic mode nodes have no marker.
local longest = math.huge
if KIND ~= 'classic' then
  local identity, state, max_ttl = unpack(redis.call('HMGET', NODE, 'identity', 'state', 'max_ttl'))
  if identity ~= ARGV[1] or state ~= 'ready' then return {-1, now} end
  longest = tonumber(max_ttl) or longest
end

-- For how many ms from now something is to live that has so many left, where `ttl` is asked for: a later end stays as it
-- is, since an extension may be executed behind one that was sent after it. No lease has more left than the longest ttl;
-- where a clock that went back says so, it is cut to that; so is a key whose end others have taken.
local function no_less(ttl, left)
  left = left == -1 and longest or math.min(math.floor(left), longest)
  return left < math.huge and math.max(ttl, left) or ttl
end

-- Keeps a note beside the counter of a resource, which stays where it is; where there is none, that is at the floor. An `r`
-- before the note says that the counter is not of this owner's grant. Not where a leader's record of this owner stands that
-- is later: `p`, the term and a number, 16 digits each.
local function keep_note(resource, owner, note)
  local entry = redis.call('HGET', COUNTERS, resource) or older_of(resource) or redis.call('HGET', NODE, 'floor')
  local counter = string.match(entry or '', SIXTEEN_DIGITS)
  local is_own = counter and string.sub(entry, 17, 48) == owner
  local record = '^r?p(' .. string.rep('%d', 32) .. ')'
  local said = is_own and string.match(entry, record, 49)
  if not counter or said and said > (string.match(note, record) or '') then return false end
  local is_granted = is_own and string.sub(entry, 49, 49) ~= 'r'
  redis.call('HSET', COUNTERS, resource, counter .. owner .. (is_granted and '' or 'r') .. note)
  return true
end
