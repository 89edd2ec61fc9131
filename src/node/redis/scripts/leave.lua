-- Stands behind the functions of the line. KEYS[1] the resource, KEYS[2] its line. ARGV the name of a client that does not
-- wait any more, and its ticket: a place that it has taken since stays. Where the key is free, or readers have it,
-- whoever is next is woken.
local wake = of_line()
for _, client in ipairs(redis.pcall('ZRANGEBYSCORE', KEYS[2], ARGV[2], ARGV[2], 'LIMIT', '0', '16')) do
  if string.sub(client, -16) == ARGV[1] then
    redis.pcall('ZREM', KEYS[2], client)
    if redis.pcall('EXISTS', KEYS[1]) == 0 or redis.pcall('GETRANGE', KEYS[1], '0', '8') == 'shared by' then
      wake(KEYS[2], KEYS[1])
    end
  end
end
return 1
