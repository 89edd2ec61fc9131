-- Stands before read_extend.lua, for one lease: a writer goes on as a reader. Where the key still is its own, readers have it
-- from now on, and its entry is the first; what is left of earlier ones is void. KEYS[4] the resource, KEYS[5] its readers,
-- KEYS[6] its line, where the client has one.
if value_of(KEYS[4]) == ARGV[2] then
  redis.call('UNLINK', KEYS[5])
  if type(redis.pcall('ZADD', KEYS[5], 'XX', '0', '')) ~= 'number' then
    -- This user may keep no readers: it stays a writer's, which keeps others out, and is not lost for that.
    prolong(KEYS[4], tonumber(ARGV[3]))
    return {1, now, 1}
  end
  put(KEYS[4], KEYS[5], ARGV[2], no_less(tonumber(ARGV[3]), redis.call('PTTL', KEYS[4])), false)
  local seen = KEYS[6] and redis.pcall('ZRANGE', KEYS[6], '0', FEW)
  if seen and not seen.err and #seen > 0 then
    -- Those who wait to read are told, if they are next. A writer is not: the key is not free.
    local wake, is_name = of_line()
    local first
    for place = #seen, 1, -1 do
      first = is_name(seen[place]) and seen[place] or first
    end
    if first and string.byte(first) == READER then
      wake(KEYS[6], KEYS[4], nil, nil, seen)
    end
  end
end
