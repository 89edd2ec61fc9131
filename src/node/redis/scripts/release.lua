-- KEYS[1] the resource, ARGV[1] the owner. Deletes the key if it is the owner's; 1 if it did, else 0.
-- Any other type than a string belongs to somebody else, and GET would be an error.
local holder = redis.pcall('GET', KEYS[1])
if holder == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
