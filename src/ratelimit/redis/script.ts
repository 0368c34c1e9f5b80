/**
 * The script that Redis runs: all buckets of one shard, in one step. The arithmetic is that of `../memory/bucket.ts`,
 * where it is explained; a test holds the two against each other.
 *
 * Why one script and packed doubles: a bucket is one string of 8 bytes, and 24 for each of its at most four levels, so
 * that a take reads and writes one value per bucket, which expires by itself once it is full. Numbers come and go as
 * text: clients turn integers of the protocol into numbers in ways of their own.
 *
 * Why a time far ahead is not believed: after a failover to a server whose clock is behind, or a clock that is set
 * back, a bucket would refill only once the clock has come to its time. Behind by more than a bucket takes to refill,
 * it goes on from now with what is used, so that the wait is bounded by that time and nothing is minted. By less, it
 * waits: going on from now at each small step back would refill twice what passes between them.
 *
 * Why a value that is no bucket, of whatever type, counts as none: an error would be taken for a failure of Redis, and
 * calls of that one key would take the limiter away from all others. The next take replaces it: one capacity more at
 * most, as after a flush.
 */

/** Checks are told in so many arguments each. */
const ARGUMENTS_PER_CHECK = 4;

/**
 * What a call does: `take` takes if all fits, `look` takes nothing, and `undo` returns what a `take` took.
 */
export type Mode = "take" | "look" | "undo";

/**
 * KEYS: buckets. ARGV: a header, the mode; where callers bring the time, also their time and for how many ms a full
 * bucket is kept. Then for each check: limit, duration, cost, and what is configured: `=` this size, `-` nothing, or
 * another limit and duration, `10 60000`. That is all where each check is of a bucket of its own, in order. Otherwise a
 * text follows, with the number of each check's bucket from 1: `1 2 1`. With `undo` that text is always there, and then
 * the receipt of each bucket.
 *
 * Returns a text: for each check whether it is exceeded, and the units used at its rate. If a `take` took, the
 * receipts follow after a slash: of each bucket, for each level, limit, duration and units added. They are left out in
 * the common case, in which each check added its cost to the only level of its bucket.
 */
export const SCRIPT = `
local MAX, MAX_LEVELS = 9007199254740991, 4
local floor, ceil, min, max, format, call = math.floor, math.ceil, math.min, math.max, string.format, redis.call
local mode, now, slack = ARGV[1], nil, 0
local header = string.find(mode, ' ', 1, true)
if header then
  now, slack = string.match(mode, ' (%S+) (%S+)')
  mode, now, slack = string.sub(mode, 1, header - 1), now + 0, slack + 0
else
  local time = call('TIME')
  now = time[1] * 1000 + floor(time[2] / 1000)
end

-- Units still used after some time.
local function drained(used, drain, elapsed)
  return max(0, used - floor(elapsed * drain))
end

local function fitsIn(used, wanted, limit, units)
  return wanted <= limit and used <= limit * units - wanted * units
end

-- Units per token, and those that drain per ms.
local function unitsOf(limit, duration)
  if limit == 0 then return 0, 0 end
  local divisor, rest = limit, duration
  while rest > 0 do divisor, rest = rest, math.fmod(divisor, rest) end
  local units = duration / divisor
  if limit * units <= MAX then return units, limit / divisor end
  units = floor(MAX / limit)
  return units, units * limit / duration * (1 - 2 ^ -51)
end

-- The common case: each check is of a bucket of its own, whose only level is at the check's rate.
if #ARGV == 1 + ${ARGUMENTS_PER_CHECK} * #KEYS then
  local isCommon, fits, takes = true, true, {}
  for i = 1, #KEYS do
    local from = ${ARGUMENTS_PER_CHECK} * i - 2
    local limit, duration, cost = ARGV[from] + 0, ARGV[from + 1] + 0, ARGV[from + 2] + 0
    local units, drain = unitsOf(limit, duration)
    local raw, at, used, exceeded = redis.pcall('GET', KEYS[i]), now, 0, 0
    if units == 0 or #ARGV[from + 3] > 1 or raw and #raw ~= 32 then isCommon = false break end
    if raw then
      local ownLimit, ownDuration
      at, ownLimit, ownDuration, used = struct.unpack('<dddd', raw)
      local isSane = at - now <= duration + slack and used >= 0 and used <= MAX
      if ownLimit ~= limit or ownDuration ~= duration or not isSane then isCommon = false break end
      if now > at then at, used = now, drained(used, drain, now - at) end
    end
    if cost > 0 and not fitsIn(used, cost, limit, units) then exceeded, fits = 1, false end
    takes[i] = { exceeded, used, cost * units, drain, at, limit, duration }
  end
  if isCommon then
    local answer = ''
    for i = 1, #KEYS do
      local exceeded, used, added, drain, at, limit, duration = unpack(takes[i])
      if fits and added > 0 and mode == 'take' then
        used = min(MAX, used + added)
        local packed = struct.pack('<dddd', at, limit, duration, used)
        call('SET', KEYS[i], packed, 'PX', min(MAX, ceil(used / drain) + slack))
      end
      answer = answer .. format(i == 1 and '%d %.0f' or ' %d %.0f', exceeded, used)
    end
    return answer
  end
end

local rates = {}
local function rateOf(limit, duration)
  local same = rates[limit]
  if not same then same = {} rates[limit] = same end
  local rate = same[duration]
  if rate then return rate end
  local units, drain = unitsOf(limit, duration)
  rate = { limit = limit, duration = duration, units = units, drain = drain, capacity = limit * units }
  same[duration] = rate
  return rate
end

-- Comparisons with NaN are false.
local function isWhole(value, least)
  return value >= least and value <= MAX and value == floor(value)
end

-- A value that this script cannot have written counts as none.
local function read(key)
  local none, bucket = { at = now, pending = 0 }, { at = now, pending = 0 }
  local raw = redis.pcall('GET', key)
  if type(raw) == 'table' and not string.find(raw.err, 'WRONGTYPE', 1, true) then error(raw) end
  if not raw or #raw % 24 ~= 8 or #raw > 8 + 24 * MAX_LEVELS then return none end
  local at, elapsed, longest = struct.unpack('<d', raw), 0, 0
  if not isWhole(math.abs(at), 0) then return none end
  for from = 9, #raw, 24 do
    local limit, duration, used = struct.unpack('<ddd', raw, from)
    if not (isWhole(limit, 1) and isWhole(duration, 1) and isWhole(used, 0)) then return none end
    bucket[#bucket + 1], longest = { rate = rateOf(limit, duration), used = used }, max(longest, duration)
  end
  if at - now > longest + slack then at, bucket.moved = now, true end
  if now > at then elapsed = now - at else bucket.at = at end
  for i = 1, #bucket do bucket[i].used = drained(bucket[i].used, bucket[i].rate.drain, elapsed) end
  return bucket
end

local function write(key, bucket)
  local packed, untilFull = struct.pack('<d', bucket.at), 0
  for i = 1, #bucket do
    local level = bucket[i]
    local rate = level.rate
    packed = packed .. struct.pack('<ddd', rate.limit, rate.duration, level.used)
    if level.used > 0 then untilFull = max(untilFull, ceil(level.used / rate.drain)) end
  end
  if untilFull == 0 then call('DEL', key)
  else call('SET', key, packed, 'PX', min(MAX, untilFull + slack)) end
end

-- The same tokens in units of another rate, rounded up.
local function converted(used, units, toUnits)
  local tokens = floor(used / units)
  return min(MAX, tokens * toUnits + ceil((used - tokens * units) * toUnits / units))
end

local function usedAt(bucket, rate)
  local most = 0
  for i = 1, #bucket do
    local level = bucket[i]
    if level.rate == rate then return level.used end
    most = max(most, converted(level.used, level.rate.units, rate.units))
  end
  return most
end

local function open(bucket, rate)
  if rate.units == 0 then return end
  local fastest
  for i = 1, #bucket do
    local one = bucket[i].rate
    if one == rate then return end
    local isFaster = not fastest or one.drain / one.units > fastest.rate.drain / fastest.rate.units
    if i > 1 and isFaster then fastest = bucket[i] end
  end
  local used, level = usedAt(bucket, rate), fastest
  if #bucket < MAX_LEVELS then
    level = {}
    bucket[#bucket + 1] = level
  end
  level.rate, level.used, level.added = rate, used, bucket.isNew and used or 0
  bucket.changed = true
end

local function isFull(bucket)
  for i = 1, #bucket do
    if bucket[i].used > 0 then return false end
  end
  return true
end

local function adopt(bucket, check)
  if isFull(bucket) then return end
  local base, configured = bucket[1], check.configured
  if configured and configured.units > 0 and base.rate ~= configured then
    base.used = converted(base.used, base.rate.units, configured.units)
    base.rate, bucket.changed = configured, true
    for i = #bucket, 2, -1 do
      if bucket[i].rate == configured then base.used = max(base.used, table.remove(bucket, i).used) end
    end
  end
  open(bucket, check.rate)
end

local function charge(bucket, check)
  local rate, configured = check.rate, check.configured
  if isFull(bucket) then
    for i = #bucket, 1, -1 do bucket[i] = nil end
    bucket.isNew = true
    if configured then open(bucket, configured) end
  end
  bucket.changed = true
  open(bucket, rate)
  for i = 1, #bucket do
    local level = bucket[i]
    local most = MAX
    if i == 1 and configured and level.rate ~= rate then most = max(level.used, level.rate.capacity) end
    local used = min(most, level.used + check.cost * level.rate.units)
    level.added = (level.added or 0) + used - level.used
    level.used = used
  end
end

local checks = {}
local function addCheck(index)
  local from = ${ARGUMENTS_PER_CHECK} * #checks + 2
  local rate = rateOf(ARGV[from] + 0, ARGV[from + 1] + 0)
  local configured = ARGV[from + 3] == '=' and rate or nil
  local limit, duration = string.match(ARGV[from + 3], '(%S+) (%S+)')
  if limit then configured = rateOf(limit + 0, duration + 0) end
  checks[#checks + 1] = { index = index + 0, rate = rate, cost = ARGV[from + 2] + 0, configured = configured }
end
local extra = ARGV[#ARGV - (mode == 'undo' and #KEYS or 0)]
if #ARGV == 1 + ${ARGUMENTS_PER_CHECK} * #KEYS then
  for i = 1, #KEYS do addCheck(i) end
else
  for index in string.gmatch(extra, '%S+') do addCheck(index) end
end

local buckets = {}
for i = 1, #KEYS do buckets[i] = read(KEYS[i]) end

local fits = true
for i = 1, #checks do
  local check = checks[i]
  local bucket, rate = buckets[check.index], check.rate
  if mode ~= 'undo' then adopt(bucket, check) end
  if check.cost > 0 and mode ~= 'undo' then
    local wanted = bucket.pending + check.cost
    if fitsIn(usedAt(bucket, rate), wanted, rate.limit, rate.units) then bucket.pending = wanted
    else check.exceeded, fits = true, false end
  end
end

if mode == 'undo' then
  for i = 1, #KEYS do
    local bucket = buckets[i]
    for limit, duration, added in string.gmatch(ARGV[#ARGV - #KEYS + i], '(%S+) (%S+) (%S+)') do
      local rate = rateOf(limit + 0, duration + 0)
      for n = 1, #bucket do
        if bucket[n].rate == rate then bucket[n].used = max(0, bucket[n].used - added) end
      end
    end
    bucket.changed = true
  end
elseif fits and mode ~= 'look' then
  for i = 1, #checks do
    if checks[i].cost > 0 then charge(buckets[checks[i].index], checks[i]) end
  end
end
for i = 1, #KEYS do
  if buckets[i].changed or buckets[i].moved then write(KEYS[i], buckets[i]) end
end

local text = {}
for i = 1, #checks do
  local check = checks[i]
  text[i] = format('%d %.0f', check.exceeded and 1 or 0, usedAt(buckets[check.index], check.rate))
end
local answer = table.concat(text, ' ')
if not fits or mode ~= 'take' then return answer end
local receipts = answer .. '/'
for i = 1, #KEYS do
  local bucket = buckets[i]
  if i > 1 then receipts = receipts .. ';' end
  for n = 1, #bucket do
    local rate, added = bucket[n].rate, bucket[n].added
    if added then receipts = receipts .. format('%.0f %.0f %.0f ', rate.limit, rate.duration, added) end
  end
end
return receipts
`;
