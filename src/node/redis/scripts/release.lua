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
-- Where there is no line, this look is all that it costs. A slot of a semaphore has two, as in acquire_free.lua.
local slot_at = KEYS[2] and string.find(KEYS[1], '/%d%d?%d?$', -4)
local own_line = slot_at and 'quorlock:line:' .. KEYS[1]
local slots_line = slot_at and 'quorlock:line:quorlock:slots:' .. string.sub(KEYS[1], 1, slot_at - 1)
if not KEYS[2] or redis.pcall('EXISTS', own_line or KEYS[2], slots_line or KEYS[2]) == 0 then
  return 1
end
