-- Goes on where acquire_free.lua has not ended it, behind tools.lua, line.lua and readers.lua: somebody holds what is asked for
-- or waits for it, or the client knows the node's counters as they were.
if not is_cached then
  -- It must be of the same state, and not older. A high-water mark that has fallen is that of older data, such as a backup.
  local etag, high_water = read_head(head)
  local cached, cached_high_water = read_head(ARGV[1])
  if not (etag and etag == cached and high_water >= cached_high_water) then return {-1, now} end
end
if is_late then return {-3, now} end
local ticket, missing = ARGV[rest + 2], ARGV[rest + 3]
local me = client and (KIND == 'read' and '~' .. client or client)
local waits = me and ticket ~= ''
ttl = ttl + 0

-- Lets a line live for so many ms. Nothing where it is none of ours, which is left alone.
local function live(line, ms)
  local left = redis.pcall('PTTL', line)
  local length = left == -1 and redis.pcall('ZCARD', line) or 0
  if type(left) ~= 'number' or type(length) ~= 'number' or length > MOST then return false end
  if left < ms - 100 then redis.pcall('PEXPIRE', line, ms) end
  return true
end

-- Who goes before us: the first in the line that is not stuck. In the other line of a slot (`is_other`), where we may stand
-- too, only tickets below ours count, and all of them where we ask once.
local function first_unstuck(line, is_other)
  local seen = redis.pcall('ZRANGE', line, '0', MANY, 'WITHSCORES')
  for place = 1, #seen, 2 do
    local name, score = seen[place], seen[place + 1]
    if is_other and waits and tonumber(score) >= tonumber(ticket) or not is_other and name == me then return nil end
    if is_name(name) and not (is_other and string.sub(name, -16) == missing) and not (KIND == 'read' and #name == 17) then
      local said = #name == 16 and redis.pcall('GETRANGE', STUCK .. name .. string.sub(line, 15), '0', '65999')
      local of, slots, key = string.match(type(said) == 'string' and said or '', '^(%d+) (%d%d?%d?) (.+)$')
      local keys = {key}
      for slot = 1, tonumber(slots or 0) do keys[slot] = key .. slot - 1 end
      -- What is said of an earlier place of the same client does not count.
      if not of or tonumber(of) ~= tonumber(score) or redis.pcall('EXISTS', unpack(keys)) ~= #keys then return name end
    end
  end
end

-- What stands in the way: of a set the key that lives longest, of slots that which ends soonest, if none is free. `rival` is who
-- goes before us for a slot that is free, in its other line: of 'any' that of the slot, of 'one' that of all slots.
local way, way_left, free, rival, is_shared
local lefts = {}
for index = 1, size do
  local key = KEYS[3 + index]
  local left = redis.call('PTTL', key)
  if left == -2 then
    local own_line = KIND == 'any' and line and 'quorlock:line:' .. key or slots_line
    local first = own_line and redis.pcall('EXISTS', own_line) == 1 and first_unstuck(own_line, true)
    rival = rival or first
    if KIND == 'any' and not first then free, rival = index, nil break end
  else
    lefts[index] = left
  end
end
for index = 1, KIND == 'any' and (free or rival) and 0 or size do
  local key, left = KEYS[3 + index], lefts[index]
  if left and (left > ttl or left == -1 or KIND == 'read') then
    local holder = value_of(key)
    is_shared = holder == SHARED
    local entry = not is_shared and left > ttl and (entries[index + 1] or entry_of(key))
    local is_ours = is_shared or holder and #holder == 32 and entry and string.sub(entry, 17, 48) == holder
    if is_ours and (left > ttl or is_shared and left == -1) then
      -- Our clock was set back; or others have taken the end of what readers have, and nobody may be left who would end it.
      local most = tonumber(redis.call('HGET', NODE, 'max_ttl')) -- where others have taken it, nothing is cut
      if most and (left > most or left == -1) then
        left = most
        redis.call('PEXPIRE', key, most)
      end
    end
    lefts[index] = left
  end
  if left and not (KIND == 'read' and is_shared) then -- readers let each other pass
    local lasts = left < 0 and math.huge or left
    if not way or KIND == 'any' and lasts < way_left or KIND ~= 'any' and lasts > way_left then way, way_left = index, lasts end
  end
end

-- Looks at a line: whether it is one that we may use; who is to be let in before us, for a reader the first writer; whether others
-- stand there; the `!` entry; and whether we are in it, or may be, behind the last place that was looked at.
local function look(lane)
  local last = KIND == 'read' and MANY or lane.last or FEW
  local seen = redis.pcall('ZRANGE', lane.line, '0', last)
  lane.is_usable = (me or seen[1] or lane.is_usable) and not seen.err
  local first, others, bang, passed
  for place = 1, #seen do
    local name = seen[place]
    if name == me then
      passed = true
    elseif string.byte(name) == HOLDER then
      bang = name
    elseif not others and (KIND ~= 'read' or #name == 16) and is_name(name) then
      others, first = true, not passed and name or nil
    end
  end
  if last == FEW and #seen == 3 and not others then
    lane.last = MANY
    return look(lane)
  end
  if first and lane.is_open and not waits then first = first_unstuck(lane.line) end
  lane.first, lane.others, lane.bang, lane.may_be_in = first, others, bang, passed or #seen == last + 1
end

-- The lines. Nobody overtakes those who wait: who is behind somebody takes its place.
local lanes, behind = {}, nil
for index = 1, line and (KIND == 'set' and size or 1) or 0 do
  local about, is_free = KEYS[3 + index], not lefts[index]
  local lane = {line = KEYS[first_line - 1 + index], is_open = nil, is_new = nil, first = nil, others = nil, bang = nil}
  if KIND == 'any' then about, is_free = string.sub(lane.line, 15), not way end
  lane.is_open = is_free or KIND == 'read' and not way -- nothing but the line keeps us out
  lanes[index] = lane
  look(lane)
  if lane.first and lane.is_open and waits then
    lane.is_new = redis.pcall('ZADD', lane.line, ticket, me)
    look(lane) -- our ticket may be the earlier one
  end
  local is_due = lane.is_new == 0 or missing and missing ~= ''
  if lane.first and is_free and (is_due or redis.pcall('PTTL', lane.line) < UNHEARD) then
    -- The releaser has woken the first. Who comes anew wakes it again only where all who stand there have missed a poll.
    local woken = wake(lane.line, about, me, missing)
    look(lane)
    -- Before a reader the first that was woken may be a reader too, and then the first writer counts.
    if KIND == 'read' then lane.first = lane.first and (woken or lane.first) else lane.first = woken and lane.first end
  elseif lane.first and lane.is_open and not is_free then
    -- A reader beside readers. The writer is told with its ticket: one that waits no more, and was not heard, can leave.
    local at = redis.pcall('ZRANK', lane.line, lane.first)
    local score = redis.pcall('ZRANGE', lane.line, at, at, 'WITHSCORES')[2]
    local message = 'k' .. string.sub('0000000000000000' .. tostring(score), -16) .. about
    if not tell(lane.line, lane.first, message) then look(lane) end
  end
  behind = behind or lane.first and lane.is_open and index
end

if way or behind or rival then
  local which, left, holder, entry = way or behind or 1, -2, false, nil
  if way or KIND == 'read' and lefts[1] then
    left, holder = lefts[which], value_of(KEYS[3 + which])
    entry = KIND ~= 'any' and holder and (entries[which + 1] or redis.call('HGET', OLDER, KEYS[3 + which]))
  end
  local before, is_foreign, is_lined = -1, 0, line and true
  for index = 1, #lanes do
    local lane, line = lanes[index], lanes[index].line
    if waits and lane.is_usable then
      local is_new = lane.is_new or redis.pcall('ZADD', line, ticket, me)
      lane.is_usable = live(line, LIFE)
      if not lane.is_usable and is_new == 1 then redis.pcall('ZREM', line, me) end
      lane.is_new = is_new
    end
    is_lined = is_lined and (lane.is_usable or not client)
    if waits and lane.is_usable then
      local rank = redis.pcall('ZRANK', line, me)
      rank = type(rank) == 'number' and math.max(rank - (lane.bang and 1 or 0), 0) or -1
      before = math.max(before, rank)
      local name = lane.bang and string.sub(lane.bang, 2)
      if name and name ~= client and (lane.is_new == 1 or rank == 0) then tell(line, lane.bang, 'w' .. KEYS[3 + index]) end
      local is_ours = KIND == 'any' or not holder or holder == SHARED or entry and string.sub(entry, 17, 48) == holder
      if index == way and rank == 0 and not is_ours then is_foreign = 1 end
      -- Our place is stuck while another key of the set stands, or all slots.
      local stuck = KIND == 'any' and way and size .. ' ' .. string.match(KEYS[4], '^(.*/)')
      for at = 1, KIND == 'set' and size or 0 do
        if at ~= index and lefts[at] and (at == way or not stuck) then stuck = '0 ' .. KEYS[3 + at] end
      end
      if stuck then redis.pcall('SET', STUCK .. client .. string.sub(line, 15), ticket .. ' ' .. stuck, 'PX', LIFE) end
    end
  end
  -- With the note that a holder with a label has left; that of a leader without its end, which is its text.
  if entry and #entry > 48 and string.sub(entry, 17, 48) == holder then holder = {holder, string.sub(entry, 49, 229)} end
  local first = left == -2 and (behind and lanes[behind].first or rival)
  if KIND ~= 'set' then which = 0 end
  if not is_lined then return {0, now, left, holder, which, first and string.sub(first, -16) or nil} end
  return {0, now, left, holder, which, first and string.sub(first, -16) or false, before, is_foreign}
end

-- Granted. What others have written, above our high-water mark or as no number, does not spread: we count on from the mark.
local etag, high_water, next_floor = read_head(head)
local from, to, counter = free or 1, free or size, hint
if free and free > 1 then entries[free + 1] = redis.call('HGET', COUNTERS, KEYS[3 + free]) end
if free then
  local own = entries[free + 1] and tonumber(string.sub(entries[free + 1], 1, 16))
  takes_hint = may_take and (not entries[free + 1] or own and own + 1 <= hint)
end
local sets_counter = KIND ~= 'read' or takes_hint -- a reader goes on with the counter that there is
if not takes_hint then
  counter = 0
  for index = from, to do
    local entry = entries[index + 1] or older_of(KEYS[3 + index])
    sets_counter = sets_counter or not entry
    counter = math.max(counter, entry and counter_of(entry, high_water) or tonumber(redis.call('HGET', NODE, 'floor')))
  end
  if sets_counter then counter = math.max(counter + (KIND == 'read' and 0 or math.abs(count)), math.min(hint, now + AHEAD)) end
  if sets_counter and counter >= NUMBERS_END then return {-4, now} end
end
if sets_counter and counter > high_water then -- it runs half a minute ahead, so that it is seldom written
  head = raise_high_water(etag, math.max(counter, math.min(hint + AHEAD / 2, now + AHEAD)), next_floor)
end
for index = from, to do
  local key = KEYS[3 + index]
  if KIND ~= 'read' then
    redis.call('SET', key, owner, 'NX', 'PX', ARGV[3])
  elseif lefts[1] then
    drop_ended(KEYS[5])
    -- One that stands is extended already: this comes late. It is not made to end sooner.
    local ends = end_of(KEYS[5], owner)
    if ends then ttl = math.max(ttl, math.floor(math.min(ends - ms, tonumber(redis.call('HGET', NODE, 'max_ttl')) or ttl))) end
    put(key, KEYS[5], owner, ttl, true)
  else
    redis.call('UNLINK', KEYS[5])
    put(key, KEYS[5], owner, ttl, false)
  end
  if sets_counter then redis.call('HSET', COUNTERS, key, digits(counter) .. owner .. note) end
end

-- Whoever has it waits no more. With several tokens it is to hear of those who come.
local waiting = -1
for index = 1, #lanes do
  local lane, line = lanes[index], lanes[index].line
  if lane.is_usable then
    if KIND ~= 'read' then waiting = math.max(waiting, lane.others and 1 or 0) end
    if lane.bang then redis.pcall('ZREM', line, lane.bang) end
    local may_be_in = me and (lane.may_be_in or lane.is_new)
    if may_be_in and type(redis.pcall('ZREM', line, me)) ~= 'number' then redis.pcall('DEL', line) end -- it would seem to wait
    if client and math.abs(count) > 1 then
      redis.pcall('ZADD', line, '-1', '!' .. client)
      if not live(line, math.max(LIFE, ttl)) then redis.pcall('ZREM', line, '!' .. client) end
    end
  end
end
if KIND == 'any' and waiting == 1 and redis.pcall('EXISTS', unpack(KEYS, 4, 3 + size)) ~= size then
  wake(line, string.sub(line, 15)) -- the next one is let in at once where there is another slot
end
if takes_hint and waiting == -1 and from == 1 then return now end
return {1, now, counter, head, waiting, from}
