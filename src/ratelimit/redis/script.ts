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
 */

/** Checks are told in so many arguments each. */
const NUMBERS_PER_CHECK = 5;

/**
 * What a call does: `take` takes if all fits; `hold` does too, and tells what `undo` needs to take it back; `look`
 * takes nothing.
 */
export type Mode = "take" | "hold" | "look" | "undo";

/**
 * KEYS: buckets. ARGV: a header, the mode; where callers bring the time, also their time and for how many ms a full
 * bucket is kept. Then for each check: limit, duration, units per token, drain per ms, cost. That is all where each
 * check is of a bucket of its own, in order, and at its configured rate. Otherwise a text follows, with the number of
 * each check's bucket from 1, and its configured limit and duration or `- -`: `1 - - 1 10 60000`. With `undo` that text
 * is always there, and then the receipt of each bucket.
 *
 * Returns a text: for each check whether it is exceeded, and the units used at its rate; with `hold`, after a slash,
 * the receipts: of each bucket, for each level, limit, duration, units added, units that it was opened with or -1, and
 * time.
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

-- The common case, on one flat table: each check is of a bucket of its own, whose only level is at the check's rate.
if #ARGV == 1 + ${NUMBERS_PER_CHECK} * #KEYS and mode ~= 'hold' then
  local isCommon, fits, takes, n = true, true, {}, 0
  for i = 1, #KEYS do
    local from = ${NUMBERS_PER_CHECK} * i - 3
    local limit, duration, units = ARGV[from] + 0, ARGV[from + 1] + 0, ARGV[from + 2] + 0
    local drain, cost = ARGV[from + 3] + 0, ARGV[from + 4] + 0
    local raw, at, used, exceeded = call('GET', KEYS[i]), now, 0, 0
    if units == 0 or raw and #raw ~= 32 then isCommon = false break end
    if raw then
      local ownLimit, ownDuration
      at, ownLimit, ownDuration, used = struct.unpack('<dddd', raw)
      if ownLimit ~= limit or ownDuration ~= duration or at - now > duration + slack then isCommon = false break end
      if now > at then at, used = now, drained(used, drain, now - at) end
    end
    if cost > 0 and not fitsIn(used, cost, limit, units) then exceeded, fits = 1, false end
    takes[n + 1], takes[n + 2], takes[n + 3], takes[n + 4] = exceeded, at, limit, duration
    takes[n + 5], takes[n + 6], takes[n + 7] = used, cost * units, drain
    n = n + 7
  end
  if isCommon then
    local answer = ''
    for i = 1, #KEYS do
      local of = 7 * (i - 1)
      local used, added = takes[of + 5], takes[of + 6]
      if fits and added > 0 and mode == 'take' then
        used = min(MAX, used + added)
        local packed = struct.pack('<dddd', takes[of + 2], takes[of + 3], takes[of + 4], used)
        call('SET', KEYS[i], packed, 'PX', min(MAX, ceil(used / takes[of + 7]) + slack))
      end
      answer = answer .. format(i == 1 and '%d %.0f' or ' %d %.0f', takes[of + 1], used)
    end
    return answer
  end
end

local rates = {}
local function rateOf(limit, duration, units, drain)
  local same = rates[limit]
  if not same then same = {} rates[limit] = same end
  local rate = same[duration]
  if rate then return rate end
  if limit == 0 then
    units, drain = 0, 0
  elseif not units then
    local divisor, rest = limit, duration
    while rest > 0 do divisor, rest = rest, math.fmod(divisor, rest) end
    if divisor == 0 then divisor = 1 end
    units, drain = duration / divisor, limit / divisor
    if limit * units > MAX then
      units = floor(MAX / limit)
      drain = units * limit / duration * (1 - 2 ^ -51)
    end
  end
  rate = { limit = limit, duration = duration, units = units, drain = drain, capacity = limit * units }
  same[duration] = rate
  return rate
end

local function read(key)
  local bucket = { at = now, pending = 0 }
  local raw = call('GET', key)
  if not raw then return bucket end
  local at, elapsed, longest = struct.unpack('<d', raw), 0, 0
  for from = 9, #raw, 24 do longest = max(longest, (select(2, struct.unpack('<dd', raw, from)))) end
  if at - now > longest + slack then at, bucket.moved = now, true end
  if now > at then elapsed = now - at else bucket.at = at end
  for from = 9, #raw, 24 do
    local limit, duration, used = struct.unpack('<ddd', raw, from)
    local rate = rateOf(limit, duration)
    bucket[#bucket + 1] = { rate = rate, used = drained(used, rate.drain, elapsed) }
  end
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

-- The most on any level; without what this call has added.
local function tokensUsed(bucket, isBefore)
  local most = 0
  for i = 1, #bucket do
    local level = bucket[i]
    local used = isBefore and level.used - (level.added or 0) or level.used
    if used > 0 then most = max(most, ceil(used / level.rate.units)) end
  end
  return most
end

local function usedAt(bucket, rate)
  for i = 1, #bucket do
    if bucket[i].rate == rate then return bucket[i].used end
  end
  return min(MAX, tokensUsed(bucket) * rate.units)
end

local function open(bucket, rate, most)
  if rate.units == 0 then return end
  local fastest
  for i = 1, #bucket do
    local one = bucket[i].rate
    if one == rate then return end
    if not fastest or one.drain / one.units > fastest.rate.drain / fastest.rate.units then fastest = bucket[i] end
  end
  local used = min(most, tokensUsed(bucket) * rate.units)
  local opened = min(most, tokensUsed(bucket, true) * rate.units)
  local level = fastest
  if #bucket < MAX_LEVELS then
    level = {}
    bucket[#bucket + 1] = level
  end
  level.rate, level.used, level.added, level.opened = rate, used, used - opened, opened
end

local function charge(bucket, check)
  local rate, configured = check.rate, check.configured
  if not bucket.changed and tokensUsed(bucket) == 0 then
    for i = #bucket, 1, -1 do bucket[i] = nil end
  end
  bucket.changed = true
  open(bucket, configured, configured == rate and MAX or configured.capacity)
  open(bucket, rate, MAX)
  for i = 1, #bucket do
    local level = bucket[i]
    local most = MAX
    if level.rate == configured and configured ~= rate then most = max(level.used, configured.capacity) end
    local used = min(most, level.used + check.cost * level.rate.units)
    level.added = (level.added or 0) + used - level.used
    level.used = used
  end
end

local checks = {}
local function addCheck(index, limit, duration)
  local from = ${NUMBERS_PER_CHECK} * #checks + 2
  local rate = rateOf(ARGV[from] + 0, ARGV[from + 1] + 0, ARGV[from + 2] + 0, ARGV[from + 3] + 0)
  local configured = limit == '-' and rate or rateOf(limit + 0, duration + 0)
  checks[#checks + 1] = { index = index + 0, rate = rate, cost = ARGV[from + 4] + 0, configured = configured }
end
local extra = ARGV[#ARGV - (mode == 'undo' and #KEYS or 0)]
if #ARGV == 1 + ${NUMBERS_PER_CHECK} * #KEYS then
  for i = 1, #KEYS do addCheck(i, '-') end
else
  for index, limit, duration in string.gmatch(extra, '(%S+) (%S+) (%S+)') do addCheck(index, limit, duration) end
end

local buckets = {}
for i = 1, #KEYS do buckets[i] = read(KEYS[i]) end

local fits = true
for i = 1, #checks do
  local check = checks[i]
  local bucket, rate = buckets[check.index], check.rate
  if check.cost > 0 and mode ~= 'undo' then
    local wanted = bucket.pending + check.cost
    if fitsIn(usedAt(bucket, rate), wanted, rate.limit, rate.units) then bucket.pending = wanted
    else check.exceeded, fits = true, false end
  end
end

if mode == 'undo' then
  for i = 1, #KEYS do
    local bucket = buckets[i]
    local receipt = '(%S+) (%S+) (%S+) (%S+) (%S+)'
    for limit, duration, added, opened, at in string.gmatch(ARGV[#ARGV - #KEYS + i], receipt) do
      local rate = rateOf(limit + 0, duration + 0)
      for n = #bucket, 1, -1 do
        local level = bucket[n]
        if level.rate == rate then
          level.used = max(0, level.used - added)
          -- A level that the hold opened goes, unless others used it since. A fifth one had taken the place of the
          -- fastest, which stays away: a slower one stands in for it.
          local left = drained(opened, rate.drain, bucket.at - at)
          if opened ~= '-1' and level.used <= left then table.remove(bucket, n) end
        end
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
if mode ~= 'hold' then return answer end
local receipts = {}
for i = 1, #KEYS do
  local added = {}
  for _, level in ipairs(buckets[i]) do
    local rate = level.rate
    local receipt = { rate.limit, rate.duration, level.added or 0, level.opened or -1, buckets[i].at }
    added[#added + 1] = format('%.0f %.0f %.0f %.0f %.0f', unpack(receipt))
  end
  receipts[i] = table.concat(added, ' ')
end
return answer .. '/' .. table.concat(receipts, ';')
`;
