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
/** `2026-11`. */
export const toMonth = (at: number): string => new Date(at).toISOString().slice(0, 7);

/** `2026-11-24 19:00:00 UTC`. */
export const toDate = (at: number): string => `${new Date(at).toISOString().slice(0, 19).replace("T", " ")} UTC`;

/** The same with its date in view. */
export const dated = (at: number | undefined, now: number): Html =>
  html`${time(at, now)}${at !== undefined && html` <span class="ks-muted">${toDate(at)}</span>`}`;

/** `createdAt` → `created at`. */
export const words = (name: string): string => name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);

/** `in 3 d 2 h`, `5 min ago`, `now`. */
function relative(at: number, now: number): string {
  const length = Math.abs(at - now);
  if (length < 1_000) return "now";
  return at > now ? `in ${duration(length)}` : `${duration(length)} ago`;
}

/** A length of time in its largest unit, where that is few in the next one too: `90 d`, `7 d 5 h`, `1 min`. */
export function duration(ms: number): string {
  const at = UNITS.findIndex(([, length]) => ms >= length);
  const [name, size] = UNITS[at] ?? ["ms", 1];
  const [less, smaller] = UNITS[at + 1] ?? ["", Infinity];
  const rest = at >= 0 && ms < 10 * size ? Math.floor((ms % size) / smaller) : 0;
  return `${number(Math.floor(ms / size))} ${name}${rest > 0 ? ` ${rest} ${less}` : ""}`;
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

const DATE = /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?)?$/;
/** Of a date field in UTC; `NaN` for what is no date, as `Date.parse` alone reads a date out of almost any text. */
export function fromField(text: string): number {
  const at = DATE.test(text) ? Date.parse(`${text}Z`) : NaN;
  // The 31st of a shorter month is none.
  return at >= 0 && new Date(at).toISOString().startsWith(text) ? at : NaN;
}
/** For a date field, in UTC, to the minute. */
export const toField = (at: number): string => new Date(at).toISOString().slice(0, 16);

/** A number with its sign: `+5`, `−5`, `0`. */
export const signed = (value: number): string =>
  value > 0 ? `+${number(value)}` : value < 0 ? `−${number(-value)}` : "0";
