-- Stands before acquire and leave, and behind a release that has freed a key. The line of a resource is a sorted set: the
-- name of a client, 16 hexadecimal digits, and its ticket in us. One that waits to read has a `~` before its name: readers
-- are told together, and let each other pass. A holder of several tokens stands before them all, below zero and with a `!`
-- before its name, so that it is told when somebody comes. A place is stuck where something else is in its way: a set whose
-- other keys are held, or a semaphore all of whose slots are taken. All this is advice, and nothing that is done
-- for it may fail a script: what others have put in its place, or in it, counts as if it were not there.
local LIFE = 4000 -- ms that a line lives after the last one has stood in it, or a little less
local UNHEARD = 2400 -- ms of that which are left where all who stand there have missed a poll
local FEW, MANY = '2', '15' -- the last place that is looked at: for a holder and the first two, and where that is not all
local HOLDER, READER = 33, 126 -- the `!` and the `~`
local STUCK = 'quorlock:stuck:' -- before the name of a client and of a line: why that place is stuck
local MOST = 10000 -- with more than these, and without an end, it is no line of ours

-- The functions of the line. Each call of a script makes its functions anew: these only where somebody stands there, those
-- that tell somebody only where that is done, and the others only for one that acquires.
local function of_line(acquires)
  local function is_name(name)
    local is_long = #name == 16 or #name == 17 and string.byte(name) == READER
    return is_long and not string.find(name, '[^0-9a-f]', -16)
  end

  local function of_telling()
    -- Tells a client, and forgets its entry where nobody hears: its connection is gone. Where nothing may be told, nobody is
    -- the first.
    local function tell(line, entry, client, message)
      local heard = redis.pcall('PUBLISH', 'quorlock:wake:' .. client, message)
      if heard == 0 then
        redis.pcall('ZREM', line, entry)
      end
      return type(heard) == 'number' and heard > 0
    end

    -- Tells the first of those who wait that the key is free, which no holder has any more, and the next one to stand by; a
    -- reader that comes next after one is told as the first is. Returns the first; nothing where there is none, or where that
    -- is `client`. The first is forgotten if it is `missing`.
    -- `seen` are the first few places, where they have been looked at.
    local function wake(line, resource, client, missing, seen)
      local first, last, told = nil, FEW, {}
      while true do
        seen = seen or redis.pcall('ZRANGE', line, '0', last)
        for place = 1, #seen do
          local waiter = seen[place]
          if waiter == client then
            return first
          elseif string.byte(waiter) == HOLDER then
            redis.pcall('ZREM', line, waiter)
          elseif not told[waiter] and is_name(waiter) then
            local name = string.sub(waiter, -16)
            local reads = string.byte(waiter) == READER
            local beside = reads and first and string.byte(first) == READER
            local message = first and not beside and 's' .. string.sub(first, -16) or 'n'
            if name == missing then
              redis.pcall('ZREM', line, waiter)
            elseif tell(line, waiter, name, message .. resource) then
              if first and not beside then
                return first
              end
              first, told[waiter] = first or waiter, true
            end
            missing = nil
          end
        end
        if #seen < 3 or last == MANY then
          return first
        end
        seen, last = nil, MANY
      end
    end

    return wake, tell
  end

  if not acquires then
    local wake = of_telling()
    return wake, is_name
  end

  -- Looks for the first who waits. Returns its entry, if it is not `client`'s; whether one of those seen is another's; whether
  -- `client` is among those up to there; the holder who is to hear of others; and how many were seen. `seen` are the first few
  -- places. More are looked at only where none of these is another's.
  local function look(line, client, seen)
    local first, others, stands, holding
    local last = FEW
    while true do
      for place = 1, #seen do
        local name = seen[place]
        if name == client then
          stands = true
        elseif others then
          -- A holder stands before all others.
        elseif is_name(name) then
          first, others = not stands and name or nil, true
        elseif string.byte(name) == HOLDER then
          holding = name
        end
      end
      if others or #seen < 3 or last == MANY then
        return first, others, stands, holding, #seen
      end
      seen, last = redis.pcall('ZRANGE', line, '0', MANY), MANY
    end
  end

  -- Lets it live for so many ms, or nearly so. Nothing where it is none of ours, which is left alone. `left` is for how many
  -- ms it lives, where that has been looked at.
  local function live(line, ms, left)
    left = left or redis.pcall('PTTL', line)
    local size = left == -1 and redis.pcall('ZCARD', line) or 0
    if type(left) ~= 'number' or type(size) ~= 'number' or size > MOST then
      return nil
    end
    -- Not for each one who comes.
    if left < ms - 100 then
      redis.pcall('PEXPIRE', line, ms)
    end
    return true
  end

  -- What stands for a place that is stuck: it cannot go on while all of these keys stand, none of which this line is about.
  -- `count` slots whose names begin with `key`, or `key` itself where that is 0.
  local function set_stuck(line, client, ticket, count, key)
    redis.pcall('SET', STUCK .. client .. string.sub(line, 15), ticket .. ' ' .. count .. ' ' .. key, 'PX', LIFE)
  end

  -- Whether the place is stuck, and still the one that was said to be.
  local function is_stuck(line, client, ticket)
    local said = redis.pcall('GETRANGE', STUCK .. client .. string.sub(line, 15), '0', '65999')
    local of, count, key = string.match(type(said) == 'string' and said or '', '^(%d+) (%d%d?%d?) (.+)$')
    if not of or tonumber(of) ~= tonumber(ticket) then
      return false
    elseif count == '0' then
      return redis.pcall('EXISTS', key) == 1
    end
    local slots = {}
    for slot = 1, tonumber(count) do
      slots[slot] = key .. slot - 1
    end
    return redis.pcall('EXISTS', unpack(slots)) == #slots
  end

  -- The first who can go on, before `client`: a place that is stuck keeps nobody out who asks once. Of another
  -- line than its own: one that came before `ticket`, where it waits, and is not `missing`. There it may be the same client.
  local function first_not_stuck(line, client, ticket, missing)
    local seen = redis.pcall('ZRANGE', line, '0', MANY, 'WITHSCORES')
    for place = 1, #seen, 2 do
      local name, score = seen[place], seen[place + 1]
      if name == client or ticket and tonumber(score) >= tonumber(ticket) then
        return nil
      elseif is_name(name) and string.sub(name, -16) ~= missing
        and (#name > 16 or not is_stuck(line, name, score)) then
        return name
      end
    end
    return nil
  end

  return live, of_telling, is_name, look, first_not_stuck, set_stuck, is_stuck
end
