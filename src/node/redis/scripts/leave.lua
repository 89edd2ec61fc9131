-- Behind line.lua. KEYS[1] the resource, KEYS[2] its line. ARGV the name of a client that does not wait any more, and its
-- ticket: a place that it has taken since stays. Where the key is free, or readers have it, whoever is next is woken.
for _, name in ipairs(redis.pcall('ZRANGEBYSCORE', KEYS[2], ARGV[2], ARGV[2], 'LIMIT', '0', '16')) do
  -- Of two places with one ticket the second may be gone: whoever is woken for the first is not woken again.
  if string.sub(name, -16) == ARGV[1] and redis.pcall('ZREM', KEYS[2], name) == 1 then
    local holder = redis.pcall('GETRANGE', KEYS[1], '0', '32')
    if holder == 'shared by readers, see quorlock.' or redis.pcall('EXISTS', KEYS[1]) == 0 then wake(KEYS[2], KEYS[1]) end
  end
end
return 1
