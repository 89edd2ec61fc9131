-- Takes the keys of a lease over from an owner that has let go of it: an acquire with another condition. The keys are not free,
-- so that no line is looked at. KEYS[4] and on: the resources. ARGV: the head that the client has cached, owner, ttl in ms, hint
-- (16 digits), latest node time in us (0: none), the owner before, and the note of the holder or ''.
-- Answers, as acquire_free.lua has them: {1, now, counter, head, -1, 1}; {0, now, left, holder, which}, where left is -2 if the key
-- is gone; {-1, now}; {-3, now}; {-4, now}.
local owner, hint = ARGV[2], ARGV[4] + 0
local head = redis.call('HGET', COUNTERS, HEAD)
local etag, high_water, next_floor = read_head(head)
local cached, cached_high_water = read_head(ARGV[1])
if not (etag and etag == cached and high_water >= cached_high_water) then return {-1, now} end
if ARGV[5] ~= '0' and now > ARGV[5] + 0 then return {-3, now} end
local counter = 0
for index = 4, #KEYS do
  local key, holder = KEYS[index], value_of(KEYS[index])
  if holder ~= ARGV[6] then
    local left, entry = redis.call('PTTL', key), entry_of(key)
    if left == -2 then holder = false end
    -- With the note that a holder with a label has left.
    if holder and entry and #entry > 48 and string.sub(entry, 17, 48) == holder then
      holder = {holder, string.sub(entry, 49, 229)}
    end
    return {0, now, left, holder, #KEYS > 4 and index - 3 or 0}
  end
  local entry = redis.call('HGET', COUNTERS, key) or older_of(key)
  counter = math.max(counter, entry and counter_of(entry, high_water) or tonumber(redis.call('HGET', NODE, 'floor')))
end
counter = math.max(counter + 1, math.min(hint, now + AHEAD))
if counter >= NUMBERS_END then return {-4, now} end
if counter > high_water then
  head = raise_high_water(etag, math.max(counter, math.min(hint + AHEAD / 2, now + AHEAD)), next_floor)
end
for index = 4, #KEYS do
  -- It ends no sooner than before, and when it would have ended if it is given back. That is noted first: where this user may
  -- not, no key is taken.
  local left, lasts = redis.call('PTTL', KEYS[index]), ARGV[3] + 0
  local ends, ms = left, redis.call('TIME')
  ms = ms[1] * 1000 + math.floor(ms[2] / 1000)
  if left < 0 then ends = lasts end -- somebody has taken away its end
  local lives = string.format('%.0f', math.max(ends, lasts))
  redis.call('SET', 'quorlock:lent:' .. KEYS[index], owner .. digits(ms + ends), 'PX', lives)
  if left > lasts then
    redis.call('SET', KEYS[index], owner, 'KEEPTTL')
  else
    redis.call('SET', KEYS[index], owner, 'PX', ARGV[3])
  end
  redis.call('HSET', COUNTERS, KEYS[index], digits(counter) .. owner .. ARGV[7])
end
return {1, now, counter, head, -1, 1}
