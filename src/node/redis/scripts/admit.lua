-- ARGV identity, epoch, the highest known counter, a floor by a wall clock in us (0: none), the members of the fleet or both lists of
-- a change, and the record that it gets, unless it has lost nothing and has one. Lets a
-- node that is joining since this epoch vote, with counters above both; a wall clock from a broken machine must not push them to
-- their end. It belongs to these members from now on.
-- {1, now} it is ready now, {0, now} somebody else has changed its state, or other members have it or mean it.
local identity, state, epoch, floor, high_water, rotated_at, older, flags, members, meant = unpack(redis.call('HMGET', NODE,
  'identity', 'state', 'epoch', 'floor', 'high_water', 'rotated_at', 'older', 'flags', 'members', 'meant'))
if members == '' then
  members = nil
end
local both, old, new = records_of(ARGV[5])
local owner = members or meant
-- A client with the new list lets in what was sealed for it: it has read nodes that are open.
local generation, list = string.match(ARGV[5], '^(%d+) (.*)$')
local before, next_list = string.match(members or '', '^(%d+) [^> ]+>(.*)$')
local leads_here = before and not old and next_list == list and before + 1 == generation + 0
local is_ours = owner == both or owner and (owner == old or owner == new) or leads_here
if identity ~= ARGV[1] or state ~= 'joining' or epoch ~= ARGV[2] or not is_ours then
  return {0, now}
end
local wall = math.min(tonumber(ARGV[4]), now + 2 * AHEAD)
floor = digits(math.max(tonumber(ARGV[3]), wall, tonumber(floor or 0), tonumber(high_water or 0)))
epoch = string.format('%.0f', math.max(now, tonumber(epoch) + 1))
local record = members and string.find(flags or '', 'k', 1, true) and members or ARGV[6]
identity = string.match(identity, '^%w+/[^/]*/%x*') .. tag_of(record)
local run_id, rest = string.match(identity, '^(%w+)(/.*)$')
local head = epoch .. '.0/' .. string.sub(run_id, 1, 8) .. rest .. ' ' .. floor .. ' ' .. floor
-- One whose clock jumped goes on with the counters that it has, if nobody else has been at them.
local kept = string.find(flags or '', 'k', 1, true) and redis.pcall('HGET', COUNTERS, HEAD) == ''
  and type(redis.pcall('HGET', OLDER, HEAD)) ~= 'table'
redis.call('UNLINK', NODE .. ':') -- a full server takes no first write that may need more, and any second one
redis.call('HSET', NODE, 'identity', identity, 'state', 'ready', 'epoch', epoch, 'seal', '0', 'floor', floor, 'next_floor', floor, 'high_water', floor,
  'rotated_at', kept and rotated_at or time[1], 'older', kept and older or '0', 'flags', '', 'waited', '')
if record ~= members then
  redis.call('HSET', NODE, 'members', record, 'since', time[1], 'meant', '', 'meant_until', '', 'next', '', 'asked', '')
end
if not kept then
  redis.call('UNLINK', COUNTERS, OLDER)
end
redis.call('HSET', COUNTERS, HEAD, head)
return {1, now}
