/**
 * When the days and hours of a time zone begin, on `Intl.DateTimeFormat`. Days are counted from 1970-01-01 by the local
 * calendar; hours are counted from the epoch, at the full hours that the local clock shows.
 *
 * A day begins at the first instant at which the zone has reached it. So a midnight that the clocks skip is the first
 * instant after it, one that comes twice is the first of the two, and a day that the zone left out begins with the next
 * one. An hour lasts an hour, also where clocks change; only where they change by part of an hour one is longer or
 * shorter.
 *
 * Why counts are of local days and not of boundaries since some instant: when the rules of a zone change, boundaries
 * that have passed keep their numbers.
 */
import { KeystileError } from "../contracts/errors.js";
import { MAX_DATE_MS } from "../lib/check-options.js";

const HOUR = 3_600_000;
const DAY = 86_400_000;
/** Zones remembered: more than there are. Names are known in any letter case, so that those given may be more. */
const MAX_ZONES = 1_000;

/** A day or an hour: its number, its first instant, and that of the next one. */
interface Span {
  readonly number: number;
  readonly from: number;
  readonly to: number;
}
interface Zone {
  /** Unix time of the local clock's reading, as if it were UTC, less the instant; milliseconds. */
  readonly offsetAt: (instant: number) => number;
  /** The latest that were asked for: calls ask for the same day again and again, and formatting a date takes 1.5 µs. */
  day: Span;
  hour: Span;
}

const NEVER: Span = { number: 0, from: Infinity, to: -Infinity };

// It remembers what follows from its key alone, so that nobody can tell whether modules share it.
const zones = new Map<string, Zone>();

/** Whether this runtime knows a time zone of this IANA name. */
export function isTimeZone(name: string): boolean {
  // Newer runtimes take offsets such as "+01:00" too, and others do not.
  if (!/^[a-z]/i.test(name)) return false;
  try {
    new Intl.DateTimeFormat("en-US", { timeZone: name });
    return true;
  } catch {
    return false;
  }
}

/**
 * Days that have begun.
 * @param instant Unix time, milliseconds, 0…8.64e15
 * @throws KeystileError STORE_INVALID: the runtime does not know the zone
 */
export function dayAt(timeZone: string, instant: number): number {
  const zone = zoneOf(timeZone);
  if (instant < zone.day.from || instant >= zone.day.to) zone.day = spanAt(instant, DAY, zone.offsetAt);
  return zone.day.number;
}

/** Hours that have begun; otherwise as {@link dayAt}. */
export function hourAt(timeZone: string, instant: number): number {
  const zone = zoneOf(timeZone);
  if (instant < zone.hour.from || instant >= zone.hour.to) zone.hour = spanAt(instant, HOUR, zone.offsetAt);
  return zone.hour.number;
}

/** The first instant of a day, at most 8.64e15. @throws as {@link dayAt} */
export function startOfDay(timeZone: string, day: number): number {
  return startOf(day, DAY, zoneOf(timeZone).offsetAt);
}

/** The first instant of an hour; otherwise as {@link startOfDay}. */
export function startOfHour(timeZone: string, hour: number): number {
  return startOf(hour, HOUR, zoneOf(timeZone).offsetAt);
}

function zoneOf(timeZone: string): Zone {
  const known = zones.get(timeZone);
  if (known !== undefined) return known;
  const zone: Zone = { offsetAt: offsetsOf(timeZone), day: NEVER, hour: NEVER };
  if (zones.size >= MAX_ZONES) for (const oldest of [...zones.keys()].slice(0, MAX_ZONES / 2)) zones.delete(oldest);
  zones.set(timeZone, zone);
  return zone;
}

function offsetsOf(timeZone: string): Zone["offsetAt"] {
  let format: Intl.DateTimeFormat;
  try {
    format = new Intl.DateTimeFormat("en-US-u-ca-gregory-nu-latn", {
      timeZone,
      hourCycle: "h23",
      year: "numeric",
      month: "numeric",
      day: "numeric",
      hour: "numeric",
      minute: "numeric",
      second: "numeric",
    });
  } catch (cause) {
    const message = `a refill has the time zone ${JSON.stringify(timeZone)}, which this runtime does not know`;
    throw new KeystileError("STORE_INVALID", message, { cause });
  }
  return (instant) => {
    // The local time must be one that dates know, too.
    const second = Math.floor(Math.min(instant, MAX_DATE_MS - DAY) / 1_000) * 1_000;
    // "1/15/2026, 13:05:09"
    const [month, day, year, ...time] = (format.format(second).match(/\d+/g) as string[]).map(Number);
    const [hour, minute, seconds] = time as [number, number, number];
    return Date.UTC(year as number, (month as number) - 1, day, hour, minute, seconds) - second;
  };
}

/** The number of the day or hour that the local clock shows. */
function shownAt(instant: number, unit: number, offsetAt: Zone["offsetAt"]): number {
  return Math.floor((instant + shiftAt(instant, unit, offsetAt)) / unit);
}

/** How far the local clock is ahead, of hours by less than one. */
function shiftAt(instant: number, unit: number, offsetAt: Zone["offsetAt"]): number {
  const offset = offsetAt(instant);
  return unit === HOUR ? ((offset % HOUR) + HOUR) % HOUR : offset;
}

function spanAt(instant: number, unit: number, offsetAt: Zone["offsetAt"]): Span {
  let number = shownAt(instant, unit, offsetAt);
  let to = startOf(number + 1, unit, offsetAt);
  // Clocks that were set back show an earlier day again: it has begun all the same.
  if (to <= instant) to = startOf(++number + 1, unit, offsetAt);
  return { number, from: startOf(number, unit, offsetAt), to };
}

/** The first instant at which the clock has reached this number. */
function startOf(number: number, unit: number, offsetAt: Zone["offsetAt"]): number {
  const onTime = number * unit;
  if (onTime > MAX_DATE_MS - 2 * DAY) return Math.min(onTime, MAX_DATE_MS);
  let [low, high] = [onTime - DAY, onTime + DAY];
  const [before, after] = [shiftAt(low, unit, offsetAt), shiftAt(high, unit, offsetAt)];
  for (const shift of before > after ? [before, after] : [after, before])
    if (shiftAt(onTime - shift, unit, offsetAt) === shift) return onTime - shift;
  // The clock skips it: the instant at which it does.
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (shownAt(middle, unit, offsetAt) >= number) high = middle;
    else low = middle;
  }
  return high;
}
