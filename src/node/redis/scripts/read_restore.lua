-- As restore.lua for a reader: KEYS[4] the resource, KEYS[5] its readers. ARGV identity, owner, ttl in ms, latest node time
-- in us. {1, now} its entry is set again; {0, now} it stands, or a writer has the key; {-3, now} too late.
if now > tonumber(ARGV[4]) then
  return {-3, now}
end
local resource, readers, owner = KEYS[4], KEYS[5], ARGV[2]
local holder, is_free = value_of(resource), redis.call('PTTL', resource) == -2
if is_free then
  redis.call('UNLINK', readers)
elseif holder ~= SHARED then
  return {0, now}
else
  drop_ended(readers)
  if redis.call('ZRANK', readers, owner) then
    return {0, now}
  end
end
put(resource, readers, owner, tonumber(ARGV[3]), not is_free)
return {1, now}
