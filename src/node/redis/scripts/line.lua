-- Stands before acquire, and behind a release that has freed a key. The line of a resource is a sorted set: the name of
-- a client, 16 hexadecimal digits, and its ticket in us. A holder of several tokens stands there too, below zero, so that
-- it is told when somebody comes. All this is advice, and nothing that is done for it may fail a script: what others have
-- put in its place, or in it, counts as if it were not there.
local FIRST, LAST, HOLDERS = '0', '9007199254740991', '-9007199254740991' -- tickets
local LIFE = 4000 -- ms that a line lives after the last one has stood in it
local FEW = '16' -- as many are looked at
local MOST = 10000 -- with more than these it is no line of ours

-- Whether it is a line, or may become one.
local function is_line(line)
  local size = redis.pcall('ZCARD', line)
  return type(size) == 'number' and size <= MOST
end

-- Tells a client, and forgets it where nobody hears: its connection is gone.
local function tell(line, client, message)
  if #client ~= 16 or string.find(client, '[^0-9a-f]') then
    return false
  end
  local heard = redis.pcall('PUBLISH', 'quorlock:wake:' .. client, message)
  if heard == 0 then
    redis.pcall('ZREM', line, client)
  end
  return heard ~= 0
end

-- The first of those who wait, who is told that the key is free; the next one is to stand by. Nothing where there is
-- none, or where that is `client`. The first is forgotten if it is `missing`.
local function wake(line, resource, client, missing)
  local first
  for place, waiter in ipairs(redis.pcall('ZRANGEBYSCORE', line, FIRST, LAST, 'LIMIT', '0', FEW)) do
    if waiter == client then
      return first
    elseif place == 1 and waiter == missing then
      redis.pcall('ZREM', line, waiter)
    elseif tell(line, waiter, first and 's' .. first .. resource or 'n' .. resource) then
      if first then
        return first
      end
      first = waiter
    end
  end
  return first
end

-- Lets it live for so many ms at least.
local function live(line, ms)
  local left = redis.pcall('PTTL', line)
  if type(left) == 'number' and left < ms then
    redis.pcall('PEXPIRE', line, ms)
  end
end
