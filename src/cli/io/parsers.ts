/** Parsers of flag values. */
import { InvalidArgumentError, Option } from "commander";
import { absolute } from "../../http/options.js";
import { explainSeconds } from "../../lib/seconds.js";
import { isAddressOrRange } from "../../lib/ip-ranges.js";
import { isSchemaName, SCHEMA_NAMES } from "../../stores/postgres/schema.js";

/** Parses digits as an integer between two bounds. */
export function toInteger(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= min && value <= max) return value;
    throw new InvalidArgumentError(`must be an integer from ${min} to ${max}`);
  };
}

/** Takes a text as it is, if it fits. */
const checked = (fits: (text: string) => boolean, fault: string) => (text: string) => {
  if (fits(text)) return text;
  throw new InvalidArgumentError(fault);
};

/** Refuses the empty string: with HOST unset, `--host "$HOST"` would mean every address. */
export const notEmpty = checked((text) => text !== "", "must not be empty");

/** Parses an idempotency key, which a header carries. */
export const toIdempotencyKey = checked(
  (text) => /^[ -~]{1,255}$/.test(text),
  "must be 1 to 255 characters of printable ASCII",
);

/** A database path: the driver drops spaces at its ends, and would open another file or none. */
export function toPath(text: string): string {
  if (/^(postgres(ql)?|rediss?):\/\//.test(text))
    throw new InvalidArgumentError(
      "must be a file, not an address; commands that work on PostgreSQL take its address as --store",
    );
  if (notEmpty(text) === text.trim()) return text;
  throw new InvalidArgumentError("must be a path without spaces at its ends");
}

/** The address of a PostgreSQL. Never repeated: it may hold a password. */
export const toAddress = checked(
  (text) => /^postgres(ql)?:\/\//.test(text) && URL.canParse(text),
  "must be an address such as postgres://user@host:5432/database",
);

/** The name of a schema of PostgreSQL. */
export const toSchema = checked(isSchemaName, `must be ${SCHEMA_NAMES}`);

/** The URL below which the pages of error types are. */
export function toDocsBase(text: string): string {
  try {
    absolute(text, "");
  } catch (error) {
    throw new InvalidArgumentError((error as Error).message.trim());
  }
  return text;
}

/** Collects the values of a flag that may be repeated. */
export function collect(value: string, before: readonly string[] | undefined): readonly string[] {
  return [...(before ?? []), value];
}

/** As {@link collect}, for IP addresses and CIDR ranges. */
export function collectRange(value: string, before: readonly string[] | undefined): readonly string[] {
  if (isAddressOrRange(value)) return collect(value, before);
  throw new InvalidArgumentError("must be an IP address or a CIDR range, such as 10.0.0.0/8");
}

/** Whether a parser collects values: the option of such a one may be repeated. */
export function isCollector(parse: unknown): boolean {
  return parse === collect || parse === collectRange;
}

/** A date, or a date and time with its zone: without a zone it would be another time on another machine. */
const DATE = /^(\d{4}-\d{2}-\d{2})(T\d{2}:\d{2}(:\d{2}(\.\d{1,3})?)?(Z|[+-]\d{2}:\d{2}))?$/;

/** Parses Unix milliseconds or an ISO 8601 date; a date without a time means 00:00 UTC. */
export function toTime(text: string): number {
  const day = DATE.exec(text)?.[1];
  // Date.parse would turn 30 February into 2 March.
  const isDay = day !== undefined && isDayOfCalendar(day);
  const time = /^\d+$/.test(text) ? Number(text) : isDay ? Date.parse(text) : NaN;
  const fault = explainSeconds(time);
  if (fault !== undefined) throw new InvalidArgumentError(`${fault.message}; ${fault.fix}`);
  if (Number.isSafeInteger(time)) return time;
  throw new InvalidArgumentError("must be Unix milliseconds or a date such as 2027-01-31T00:00:00Z");
}

function isDayOfCalendar(day: string): boolean {
  const time = Date.parse(day);
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(day);
}

/** Parses `1000/60`: calls per seconds. */
export function toRequestLimit(text: string): { readonly limit: number; readonly duration: number } {
  const [limit = 0, seconds = 0] = /^[1-9]\d{0,8}\/[1-9]\d{0,6}$/.test(text) ? text.split("/").map(Number) : [];
  if (limit > 0 && seconds <= MAX_SECONDS) return { limit, duration: seconds * 1_000 };
  throw new InvalidArgumentError("must be calls and seconds, such as 1000/60");
}

/** Parses where rate limits are: `memory`, `file` or the URL of a Redis. */
export function toLimiter(text: string): string {
  if (text === "memory" || text === "file") return text;
  // A URL leaves out spaces at its ends, at which a client fails.
  const url = URL.canParse(text) && text === text.trim() ? new URL(text) : undefined;
  const isRedis = url !== undefined && /^rediss?:$/.test(url.protocol) && url.hostname !== "";
  if (isRedis && /^(\/\d*)?$/.test(url.pathname)) return text;
  throw new InvalidArgumentError(
    "must be memory, file, or a Redis as redis://HOST:PORT or rediss://HOST:PORT, perhaps with /NUMBER of a database",
  );
}

/** The longest window (contract 8). */
const MAX_SECONDS = 2_592_000;

const LENGTHS = { m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** `--since`, in milliseconds. @param usual its default, as people write it */
export const sinceOption = (usual: string): Option =>
  new Option("--since <age>", "how far back, such as 30d, 12h or 90m").argParser(toAge).default(toAge(usual), usual);

function toAge(text: string): number {
  const [, digits, unit] = /^([1-9]\d{0,4})([mhd])$/.exec(text) ?? [];
  if (digits !== undefined) return Number(digits) * LENGTHS[unit as keyof typeof LENGTHS];
  throw new InvalidArgumentError("must be an age such as 30d, 12h or 90m");
}
