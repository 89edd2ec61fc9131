-- Reads the marker, and drops counters that were not used for long.
-- ARGV: run_id, database, the members of the fleet or both lists of a change, longest ttl in ms, an epoch that must join again (0: none), letters, a random
-- number, for how many ms a counter that is not used is kept at least, an epoch that one which begins now must be above, an epoch of
-- which the client knows how long the node has been joining in it (0: none), for how many ms that is, and the node's time in us
-- behind which w, t, x, d, y, c and a hold do nothing (0: none): what comes late would undo what was done since. The letters:
--   s  seal a node that is ready, and hold one that no fleet has yet
--   l  a node that joins again by force has lost data, and does so also if it is joining
--   o  a node that is joining in the epoch that the client knows did so while a majority had forgotten
--   w  the client gives up what it has meant;  n  it means nothing, and gives up nothing of others
--   t  take the node from other members
--   x and a number  note from now on the longest ttl that is told, and seal a node that is ready, so that each client tells its own
--   d and that number  the longest ttl becomes the noted one, unless another number has begun since
--   y  take the node from its members if they are of an earlier generation of the same lists
--   e  the generation of the members is proven: the change to them is over
--   c  a node that serves clients with the list before a change serves those with both lists alone from now on
--   p and a number  a node of the list behind a change serves clients with that list from now on, with counters above the number
-- {1, now, identity, head, epoch, seal, floor, high_water, longest ttl before, flags, 0} ready; {0, ..., waited} the same, joining,
-- and for how many ms at least; the flags are k (it kept its data), o, m or h where no node of these members was let in here yet,
-- and they are meant or held, b or s where it serves clients with the old list too or those with both alone, and a if one with the
-- new list has asked for the end of the change. {-5, now, members, seconds} it is of other members for so long, or, -1, they are meant or held, or
-- -2 if that members come next is all that is known;
-- {-6, now} it is a replica.
--
-- Two lists of nodes that share one have quorums that need not meet. A node that was let in has `members`. Before that a look
-- writes whom it means to let in, `meant`, which others respect until `meant_until`. A client lets the first node of a list in
-- once each that answers is held, meant_until = 'held', which does not end. So of two lists one has none.
local run_id, database, members, max_ttl, force, letters, random, retention, after, waited_in, waited, latest = unpack(ARGV)
local MEANT = 10000000 -- microseconds; a client looks at a node that is joining, or does not serve it yet, twice a second
local late = tonumber(latest) > 0 and now > tonumber(latest)
if late then letters = string.gsub(letters, '[wtxdyc]%d*', '') end
local function asked(letter) return string.find(letters, letter, 1, true) end

-- The same process has other data after it was a replica for a while. Redis then remembers whose, in replid2, until it
-- has had no replica for an hour, or gets one; forgetting that is no change.
local replication = redis.call('INFO', 'replication')
if not string.find(replication, 'role:master', 1, true) then return {-6, now} end
local of = string.sub(string.match(replication, 'master_replid2:(%x+)') or '', 1, 8)
local names = {'identity', 'state', 'epoch', 'seal', 'max_ttl', 'floor', 'next_floor', 'high_water',
  'rotated_at', 'older', 'flags', 'waited', 'members', 'since', 'meant', 'meant_until', 'max_ttl_seen', 'next', 'next_at', 'asked'}
local marker = {}
for index, value in ipairs(redis.call('HMGET', NODE, unpack(names))) do
  marker[names[index]] = value and value ~= '' and value or nil
end
local held = marker.meant_until == 'held'
local left = tonumber(marker.meant_until or '') and marker.meant_until - now or 0
-- One that is longer than any is from before the clock went back.
local meant = marker.meant and (held or left > 0 and left <= MEANT) and marker.meant
local both, old, new = records_of(members)
local function generation_of(record) return tonumber(string.match(record or '', '^(%d+) ')) or 0 end

-- Whether a record is of an earlier generation of this list, of two the first. A claim of one gives way: its client did not know better.
local function is_earlier(record)
  -- Patterns that try no place twice: others may have written anything there, of any length.
  local first, second, fleet = string.match(record or '', '^%d+ ([^> ]+)>([^> ]+) (.*)$')
  if not first then first, fleet = string.match(record or '', '^%d+ ([^> ]+) (.*)$') end
  local mine, ours = string.match(members, '^%d+ ([^> ]+)>?%S* (.*)$')
  local is_kin = first and mine and fleet == ours and (first == mine or second == mine)
  return is_kin and generation_of(record) < generation_of(members)
end
if meant and is_earlier(meant) then meant, held = nil, false end
local owner = marker.members or meant or members
local function serves(record) return record == both or record ~= nil and (record == old or record == new) end

-- A server whose memory is full takes no first write of a script that may need more, and any second one: the first does
-- nothing.
local written = false
local function write(...)
  if not written then redis.call('UNLINK', NODE .. ':') end
  written = true
  redis.call('HSET', NODE, ...)
end

-- A list of a later generation than its own: the fleet is about to change to it, or has done so.
local list = not old and string.match(members, '^%d+ (.*)$')
local function leads_here(record) return list and record and string.match(record, '^%d+ [^> ]+>(.*)$') == list end
local opens = tonumber(string.match(letters, 'p(%d+)') or '')
local is_next = leads_here(marker.members) and generation_of(marker.members) + 1 == generation_of(members)
local opens_here = opens and is_next
local announced = not leads_here(marker.members) and leads_here(marker.next) and marker.next
local takes = asked('t') or asked('y') and marker.members and (is_earlier(owner) or announced)
  and generation_of(owner) < generation_of(members)
local joins_here = asked('e') and marker.state == 'joining' and is_next
if not serves(owner) and not takes and not opens_here and not joins_here then
  -- What was announced is so for a while, and to a client that knows that it has happened for ever.
  local age = now - (tonumber(marker.next_at or '') or 0)
  local is_over = asked('e') and generation_of(owner) < generation_of(members)
  if announced and not is_over and (age < 0 or age > 6 * MEANT) then announced = nil end
  local change = leads_here(owner) and owner or announced
  if marker.members and change then
    if not asked('n') then write('asked', string.format('%.0f', now)) end
    owner = change
  end
  -- Others may have written anything there, of any length.
  local since = marker.members and string.format('%.0f', time[1] - (tonumber(marker.since) or time[1]))
  return {-5, now, string.sub(owner, 1, 65536), announced and '-2' or since or '-1'}
end
local process = run_id .. '/' .. database .. '/'
if of == '00000000' and marker.identity and string.sub(marker.identity, 1, #process) == process then
  of = string.match(marker.identity, '^%x*', #process + 1)
end
local identity = process .. of .. tag_of(marker.members)
local function mean(until_)
  marker.meant, marker.meant_until = members, until_
  write('meant', members, 'meant_until', until_)
end
local same = marker.identity == identity
local taken = takes and not serves(owner)
if taken then
  write('members', '', 'since', '', 'next', '', 'asked', '')
  marker.members = nil
  identity = process .. of
end
if marker.members then
  meant = nil
elseif asked('w') then
  if meant == members and not held then write('meant', '', 'meant_until', '') end
elseif asked('n') then
  meant = nil
elseif taken or asked('s') and not late and not (meant == members and held) then
  mean('held')
elseif meant ~= members or not held and left < MEANT / 2 then
  mean(string.format('%.0f', now + MEANT))
end
local function head()
  local etag = marker.epoch .. '.' .. marker.seal .. '/' .. string.sub(run_id, 1, 8) .. '/' .. database .. '/' .. of
    .. tag_of(marker.members)
  return etag .. ' ' .. marker.high_water .. ' ' .. marker.next_floor
end
local function put_head() redis.call('HSET', COUNTERS, HEAD, head()) end

-- What others may have written to the marker or the counters makes a node that is ready join again.
local whole = true
for _, name in ipairs({'floor', 'next_floor', 'high_water'}) do
  if not string.match(marker[name] or '', SIXTEEN_DIGITS .. '$') then
    marker[name], whole = digits(0), false
  end
end
local was_ready = marker.state == 'ready' and same and whole and tonumber(marker.epoch) and tonumber(marker.seal)
  and tonumber(marker.rotated_at) and redis.pcall('HGET', COUNTERS, HEAD) == head()
  and ((marker.older or '0') == '0' or type(redis.pcall('HGET', OLDER, HEAD)) == 'string')
-- One that was taken from others, or whose members an operator has deleted, joins again.
local ready = was_ready and marker.members and (opens_here or serves(marker.members))
-- An operator may admit a node that is joining: docs/deploying.md says how.
local approved = marker.state == 'approved' and same and (asked('e') or generation_of(members) <= 1)
local joining = marker.state == 'joining' and same
local again = marker.epoch == force and (ready or joining and asked('l')) or taken
if again or not joining and not ready then
  -- Its clock jumped, and nothing else: no vote of before counts any more, and its high-water mark is the last word. One that
  -- was taken counts as one that forgot: other nodes of its list may have counted further for those who had it.
  local kept = was_ready and not asked('l') and not taken
  marker.flags = kept and 'k' or ''
  -- The random part tells epochs apart also where a node is emptied while its clock stands still.
  after = tonumber(after) < NUMBERS_END and tonumber(after) or 0
  local newest = math.max(tonumber(marker.epoch) or 0, after)
  marker.epoch = string.format('%.0f', math.max(now, newest + 1) + tonumber(random))
  marker.seal = '0'
  if kept then
    -- The counters are as true as before, and say whom it granted keys to: acquire.lua cuts those that a clock which went
    -- back prolongs. Without the head nobody votes with them. UNLINK, as above.
    redis.call('UNLINK', NODE .. ':')
    redis.call('HSET', COUNTERS, HEAD, '')
  else
    redis.call('UNLINK', COUNTERS, OLDER)
    marker.rotated_at, marker.older = time[1], '0'
  end
  if approved then
    local floor = digits(math.max(tonumber(redis.call('HGET', NODE, 'floor')) or 0, tonumber(marker.high_water)))
    marker.floor, marker.next_floor, marker.high_water, marker.members = floor, floor, floor, members
    identity = process .. of .. tag_of(members)
    put_head()
    write('members', members, 'since', time[1], 'meant', '', 'meant_until', '')
  end
  ready = approved
  write('identity', identity, 'state', ready and 'ready' or 'joining', 'epoch', marker.epoch, 'seal', '0',
    'floor', marker.floor, 'next_floor', marker.next_floor, 'high_water', marker.high_water,
    'rotated_at', marker.rotated_at, 'older', marker.older or '0', 'flags', marker.flags, 'waited', '')
  marker.waited = ''
end
-- It is said of one wait: a look that comes late, in another epoch, says nothing.
if asked('o') and not ready and waited_in == marker.epoch and not string.find(marker.flags or '', 'o', 1, true) then
  marker.flags = (marker.flags or '') .. 'o'
  write('flags', marker.flags)
end

-- For how long it has been joining, as the clients have counted it: the longest time that one has told, but no longer than
-- our clock says. It counts nothing, and cuts what a client tells whose clock has just jumped: that one sees the jump only
-- in the answer to this. It stands there with its epoch, since what begins a new one may be a script that does not know of
-- this field, and with our time when the epoch was first seen here.
local has_waited = 0
if not ready then
  local epoch, ms, since = string.match(marker.waited or '', '^(%d+) (%d+) (%d+)$')
  local known = epoch == marker.epoch
  since = known and tonumber(since) or now
  has_waited = known and math.min(tonumber(ms), NUMBERS_END) or 0
  local told = waited_in == marker.epoch and math.min(tonumber(waited), (now - since) / 1000) or 0
  if told > has_waited or not known then
    has_waited = math.floor(math.max(told, has_waited))
    write('waited', string.format('%s %.0f %.0f', marker.epoch, has_waited, since))
  end
end

-- The answer says what was known before, so that whoever raises it knows.
local longest = tonumber(marker.max_ttl) or 0
-- `max_ttl_seen` is the number of a watch, and the longest ttl that was told since it began.
local watch, seen = string.match(marker.max_ttl_seen or '', '^(%d+) (%d+)$')
local begins, ends = string.match(letters, 'x(%d+)'), string.match(letters, 'd(%d+)')
local watches = begins and begins ~= watch
if watches or watch and tonumber(max_ttl) > tonumber(seen) then
  watch, seen = begins or watch, max_ttl
  write('max_ttl_seen', watch .. ' ' .. seen)
end
if ends and ends == watch then
  longest = tonumber(seen)
  write('max_ttl', seen, 'max_ttl_seen', '')
elseif tonumber(max_ttl) > longest then
  write('max_ttl', max_ttl)
end

-- A change of the list: core/src/admission/changing.rs says why these steps are safe.
if ready and marker.members == old then
  if asked('c') then
    marker.members, marker.seal = members, string.format('%.0f', tonumber(marker.seal) + 1)
    identity = process .. of .. tag_of(members)
    write('members', members, 'since', time[1], 'seal', marker.seal, 'identity', identity)
    put_head()
  elseif not asked('n') and (marker.next ~= members or math.abs(now - (tonumber(marker.next_at or '') or 0)) > MEANT / 2) then
    write('next', members, 'next_at', string.format('%.0f', now))
  end
end
if ready and opens and opens < NUMBERS_END and (opens_here or old and marker.members ~= new) then
  -- What was granted stands: the counters become the older generation (2), of which those below the floor do not count.
  local floor = digits(math.max(opens, tonumber(marker.high_water), tonumber(marker.floor)))
  marker.members, marker.epoch, marker.seal = new or members, string.format('%.0f', math.max(now, marker.epoch + 1)), '0'
  marker.floor, marker.next_floor, marker.high_water = floor, floor, floor
  marker.rotated_at, marker.older, marker.asked = time[1], '2', nil
  identity = process .. of .. tag_of(marker.members)
  write('members', marker.members, 'since', time[1], 'identity', identity, 'epoch', marker.epoch, 'seal', '0', 'floor', floor,
    'next_floor', floor, 'high_water', floor, 'rotated_at', time[1], 'older', '2', 'next', '', 'asked', '')
  redis.call('UNLINK', OLDER)
  redis.call('RENAME', COUNTERS, OLDER)
  put_head()
end

if ready then
  -- Rotation: the older generation is dropped, this one becomes the older, and a new one begins.
  local age_ms = 1000 * (tonumber(time[1]) - tonumber(marker.rotated_at))
  if age_ms > tonumber(retention) or age_ms < 0 then
    -- The floor rises above all that is dropped: next_floor was the high-water mark when the older generation ended.
    -- So no counter is forgotten, however often this happens, and whatever the clock does.
    -- An operator may have raised it above that.
    marker.floor = marker.floor > marker.next_floor and marker.floor or marker.next_floor
    marker.next_floor = marker.high_water
    write('floor', marker.floor, 'next_floor', marker.next_floor, 'rotated_at', time[1], 'older', '1')
    redis.call('UNLINK', OLDER)
    redis.call('RENAME', COUNTERS, OLDER)
    put_head()
  end
  if asked('s') or watches then
    marker.seal = string.format('%.0f', tonumber(marker.seal) + 1)
    write('seal', marker.seal)
    put_head()
  end
end
local claim = marker.members and '' or marker.meant_until == 'held' and 'h' or 'm'
if old and marker.members then claim = marker.members == old and 'b' or marker.members == both and 's' or '' end
local asked_for = now - (tonumber(marker.asked or '') or -math.huge)
if asked_for >= 0 and asked_for < MEANT then claim = claim .. 'a' end
return {ready and 1 or 0, now, identity, ready and head() or '', marker.epoch, marker.seal, marker.floor,
  marker.high_water, string.format('%.0f', longest), (marker.flags or '') .. claim, string.format('%.0f', has_waited)}
