-- Reads the marker. ARGV run_id, database, fleet, longest ttl in ms, era that must join again (0: none), 1 to seal.
-- {1, now, identity, etag, era, seal, floor, high-water mark, longest ttl} ready; {0, ...} the same, joining;
-- {-5, now, fleet} it belongs to another fleet; {-6, now} it is a replica.
local run_id, database, fleet = ARGV[1], ARGV[2], ARGV[3]
local max_ttl, force, seals = ARGV[4], ARGV[5], ARGV[6] == '1'
local GENERATION = 3600 -- seconds after which counters that were not used since become the older generation

-- The same process has other data after it was a replica for a while. Redis then remembers whose, in replid2.
local replication = redis.call('INFO', 'replication')
if not string.find(replication, 'role:master', 1, true) then
  return {-6, now}
end
local of = string.sub(string.match(replication, 'master_replid2:(%x+)') or '', 1, 8)
local identity = run_id .. '/' .. database .. '/' .. of
local tag = string.sub(run_id, 1, 8) .. '/' .. database .. '/' .. of

local names = {'identity', 'fleet', 'state', 'era', 'seal', 'max_ttl', 'floor', 'passed', 'high', 'rotated'}
local marker = {}
for index, value in ipairs(redis.call('HMGET', NODE, unpack(names))) do
  marker[names[index]] = value
end
if marker.fleet and marker.fleet ~= fleet then
  return {-5, now, marker.fleet}
end

local function write(...)
  redis.call('HSET', NODE, ...)
end
local function etag()
  return marker.era .. '.' .. marker.seal .. '/' .. tag
end
local function open_counters()
  redis.call('HSET', COUNTERS, ETAG, etag(), HIGH, marker.high, PASSED, marker.passed)
end

local ready = marker.state == 'ready' and marker.identity == identity
  and redis.call('HGET', COUNTERS, ETAG) == etag()
-- An operator may admit a node that is joining: docs/operating.md says how.
local approved = marker.state == 'approved' and marker.identity == identity
local joining = marker.state == 'joining' and marker.identity == identity
if not joining and (not ready or marker.era == force) then
  marker.era = string.format('%.0f', math.max(now, tonumber(marker.era or 0) + 1))
  marker.seal = '0'
  redis.call('UNLINK', COUNTERS, OLDER)
  if approved then
    local floor = digits(math.max(tonumber(marker.floor or 0), tonumber(marker.high or 0)))
    marker.floor, marker.passed, marker.high = floor, floor, floor
    write('floor', floor, 'passed', floor, 'high', floor, 'rotated', time[1])
    open_counters()
  end
  ready = approved
  write('identity', identity, 'fleet', fleet, 'state', ready and 'ready' or 'joining', 'era', marker.era, 'seal', '0')
end

if tonumber(max_ttl) > tonumber(marker.max_ttl or 0) then
  marker.max_ttl = max_ttl
  write('max_ttl', max_ttl)
end

if ready then
  local since = tonumber(time[1]) - tonumber(marker.rotated or time[1])
  if since > GENERATION or since < 0 then
    -- `passed` was the high-water mark when the older generation was begun to be left alone, so that no counter that
    -- is dropped here is above it. However often this happens, and whatever the clock does, none is forgotten.
    redis.call('UNLINK', OLDER)
    redis.call('RENAME', COUNTERS, OLDER)
    marker.floor, marker.passed = marker.passed, marker.high
    write('floor', marker.floor, 'passed', marker.passed, 'rotated', time[1])
    open_counters()
  end
  if seals then
    marker.seal = string.format('%.0f', tonumber(marker.seal) + 1)
    write('seal', marker.seal)
    open_counters()
  end
end
return {ready and 1 or 0, now, identity, etag(), marker.era, marker.seal, marker.floor or '0', marker.high or '0',
  marker.max_ttl}
