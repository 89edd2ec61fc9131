-- The line of a resource is a sorted set of those who wait: the name of a client, 16 hexadecimal digits, with its ticket in
-- us. Before the name of a reader stands a `~`. A holder of several tokens stands before all with -1 and a `!`: it is told
-- when somebody comes. A place is stuck while keys stand that its line is not about: others of a set, or all slots.
-- All this is advice, and must not fail a script: what others have put in its place, or in it, counts as nothing.
local LIFE = 4000 -- ms that a line lives after the last one has stood in it, or 100 less
local UNHEARD = 2400 -- ms of that which are left where all who stand there have missed a poll
local FEW, MANY = '2', '15' -- the last place that is looked at: for a holder and the first two, or where that is not all
local MOST = 10000 -- with more than these, and without an end, it is no line of ours
local HOLDER, READER = 33, 126 -- the `!` and the `~`
local STUCK = 'quorlock:stuck:' -- before the name of a client and of a line: `ticket count key`

local function is_name(name)
  return (#name == 16 or #name == 17 and string.byte(name) == READER) and not string.find(name, '[^0-9a-f]', -16)
end

-- Tells a client. One that nobody hears has lost its connection, and its entry is forgotten.
local function tell(line, entry, message)
  local heard = redis.pcall('PUBLISH', 'quorlock:wake:' .. string.sub(entry, -16), message)
  if heard == 0 then redis.pcall('ZREM', line, entry) end
  return type(heard) == 'number' and heard > 0
end

-- Tells the first that the key is free (`n`), readers right behind a first reader too, and the next one to stand by (`s` and the
-- first); where `me` is before one of them, nobody else. Returns the first that was told. `missing` is forgotten where it is first.
local function wake(line, about, me, missing)
  local first
  for _, name in ipairs(redis.pcall('ZRANGE', line, '0', MANY)) do
    if name == me then
      return first
    elseif string.byte(name) == HOLDER then
      redis.pcall('ZREM', line, name)
    elseif is_name(name) then
      local beside = first and #first == 17 and #name == 17 -- both read
      if string.sub(name, -16) == missing then
        redis.pcall('ZREM', line, name)
      elseif tell(line, name, (first and not beside and 's' .. string.sub(first, -16) or 'n') .. about) then
        if first and not beside then return first end
        first = first or name
      end
      missing = nil
    end
  end
  return first
end
