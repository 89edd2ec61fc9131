-- KEYS[1] the resource, KEYS[2] its line, where the client has one; ARGV[1] the owner. Deletes the key if it is the
-- owner's, and wakes whoever is next; 1 if it did, 0 if there was none, 2 if it is somebody else's. With ARGV[2], in ms,
-- the key is not deleted and lives for that long from now: its holder is done, and others are to wait until then.
-- One byte more than an owner has is enough to tell; any other type than a string belongs to somebody else.
local holder = redis.pcall('GETRANGE', KEYS[1], '0', '32')
if holder ~= ARGV[1] then
  return holder == '' and redis.pcall('PTTL', KEYS[1]) == -2 and 0 or 2 -- others may have set it to nothing
end
if ARGV[2] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
else
  redis.call('DEL', KEYS[1])
end
-- Where there is no line, this look is all that it costs.
if not KEYS[2] or redis.pcall('EXISTS', KEYS[2]) == 0 then
  return 1
end
