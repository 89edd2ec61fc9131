-- Stands behind a release, where somebody may be in the line. A key that is not deleted yet has a new end, which whoever
-- is next has to see.
if is_line(KEYS[2]) then
  redis.pcall('ZREMRANGEBYSCORE', KEYS[2], HOLDERS, '(0')
  wake(KEYS[2], KEYS[1])
end
return 1
