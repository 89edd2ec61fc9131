-- What is said to be done of a resource, by its completion KEYS[4]: 16 digits of the last moment of the period that is done, 16 of
-- the ms for which it was to be kept then, the owner, and a label. ARGV[1] identity; ARGV[2] a completion and ARGV[3] the ms that are
-- left of its life: it is kept unless what stands reaches as far. It is no vote, and touches no lease.
-- {1, now, remaining ms, completion} as it stands then, or nil.
local said, done, left = redis.pcall('GETRANGE', KEYS[4], '0', '192'), ARGV[2], redis.call('PTTL', KEYS[4])
-- Of another type it is nobody's; that it may not be read must not pass for that.
if type(said) == 'table' then
  if not string.find(said.err or '', 'WRONGTYPE', 1, true) then return said end
  said = ''
end
local HEX = '[0-9a-f]'
local OWNER = string.rep(HEX, 12) .. '4' .. string.rep(HEX, 3) .. '[89ab]' .. string.rep(HEX, 15)
local is_one = #said <= 192 and string.match(said, '^' .. string.rep('%d', 32) .. OWNER)
-- In its last millisecond a server still has the key.
local stands = is_one and left ~= 0 and said
if done and not (stands and string.sub(stands, 1, 16) >= string.sub(done, 1, 16)) then
  redis.call('SET', KEYS[4], done, 'PX', ARGV[3])
  stands, left = done, redis.call('PTTL', KEYS[4])
end
return {1, now, left, stands or false}
