-- KEYS[1] the resource, ARGV[1] the owner. Deletes the key if it is the owner's; 1 if it did, else 0.
-- One byte more than an owner has is enough to tell; any other type than a string belongs to somebody else.
if redis.pcall('GETRANGE', KEYS[1], '0', '32') == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
