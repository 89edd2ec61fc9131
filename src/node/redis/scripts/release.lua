-- KEYS[1] the resource, ARGV[1] the owner. Deletes the key if it is the owner's; 1 if it did, 0 if there was none, 2 if
-- it is somebody else's. With ARGV[2], in ms, the key is not deleted and lives for that long from now: its holder is
-- done, and others are to wait until then.
-- One byte more than an owner has is enough to tell; any other type than a string belongs to somebody else.
local holder = redis.pcall('GETRANGE', KEYS[1], '0', '32')
if holder == ARGV[1] then
  if ARGV[2] then
    return redis.call('PEXPIRE', KEYS[1], ARGV[2])
  end
  return redis.call('DEL', KEYS[1])
end
return holder == '' and 0 or 2
