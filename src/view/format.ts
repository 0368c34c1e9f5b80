/** Times, numbers and lengths of time in words. */
import { html, type Html } from "./html.js";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;
const UNITS: readonly (readonly [name: string, ms: number])[] = [
  ["y", 365 * DAY],
  ["mo", 30 * DAY],
  ["d", DAY],
  ["h", HOUR],
  ["min", MINUTE],
  ["s", 1_000],
];

/** An instant: relative, with the date in UTC as its title. */
export function time(at: number | undefined, now: number, none = "never"): Html {
  if (at === undefined) return html`<span class="ks-muted">${none}</span>`;
  const iso = new Date(at).toISOString();
  return html`<time datetime="${iso}" title="${toDate(at)}">${relative(at, now)}</time>`;
}

/** `2026-11-24`. */
export const dayOf = (at: number): string => new Date(at).toISOString().slice(0, 10);

/** `2026-11-24 19:00:00 UTC`. */
export const toDate = (at: number): string => `${new Date(at).toISOString().slice(0, 19).replace("T", " ")} UTC`;

/** `in 3 d`, `5 min ago`, `now`. */
function relative(at: number, now: number): string {
  const length = Math.abs(at - now);
  if (length < 1_000) return "now";
  return at > now ? `in ${duration(length)}` : `${duration(length)} ago`;
}

/** A length of time in its largest unit: `90 d`, `1 min`. */
export function duration(ms: number): string {
  const [name, size] = UNITS.find(([, length]) => ms >= length) ?? ["ms", 1];
  return `${number(Math.floor(ms / size))} ${name}`;
}

/** A window of a limit, exactly: `60 s`, `1 h`, `1.5 s`. */
export function window(ms: number): string {
  const [name, size] = UNITS.slice(2).find(([, length]) => ms % length === 0) ?? ["s", 1_000];
  return ms === size ? name : `${ms / size} ${name}`;
}

export const number = (value: number): string => value.toLocaleString("en-US");

/** A count with its noun: `1 key`, `2 keys`. */
export const count = (value: number, one: string, many = `${one}s`): string =>
  `${number(value)} ${value === 1 ? one : many}`;

/** Of a date field in UTC; `NaN` for what is no date. */
export const fromField = (text: string): number => Date.parse(`${text}Z`);
/** For a date field, in UTC, to the minute. */
export const toField = (at: number): string => new Date(at).toISOString().slice(0, 16);

/** A number with its sign: `+5`, `−5`, `0`. */
export const signed = (value: number): string =>
  value > 0 ? `+${number(value)}` : value < 0 ? `−${number(-value)}` : "0";
