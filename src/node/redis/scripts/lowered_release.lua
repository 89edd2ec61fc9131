-- Stands before read_release.lua, for a reader that was a writer: where the node has not followed, the key is its own by
-- itself, and is released as release.lua does.
if redis.pcall('GETRANGE', KEYS[1], '0', '32') == ARGV[1] then
  if ARGV[2] then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
  else
    redis.call('DEL', KEYS[1])
  end
  local seen = KEYS[3] and redis.pcall('ZRANGE', KEYS[3], '0', FEW)
  if seen and not seen.err and #seen > 0 then
    local wake = of_line()
    wake(KEYS[3], KEYS[1], nil, nil, seen)
  end
  -- Those who wait for any slot, as in release.lua.
  local slot_at = KEYS[3] and string.find(KEYS[1], '/%d%d?%d?$', -4)
  if slot_at then
    local line = 'quorlock:line:quorlock:slots:' .. string.sub(KEYS[1], 1, slot_at - 1)
    local wake = of_line()
    wake(line, string.sub(line, 15))
  end
  return 1
end
