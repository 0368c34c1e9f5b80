/** CSV as RFC 4180 has it: fields, and the statement of a month. */
import { boundsOf, type Statement } from "./statement.js";

/** A field of CSV. What a spreadsheet would take for a formula gets an apostrophe: owners and tags are foreign text. */
export function toField(value: unknown): string {
  if (value === undefined) return "";
  if (typeof value === "number") return String(value);
  const text = typeof value === "string" ? value : JSON.stringify(value);
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/**
 * A statement with a running balance, for spreadsheets: a line for what was there at first, for each change, for the
 * credits spent on each day, and for what was there at the end. Days are those of UTC, and `what` is a word of
 * {@link Statement}. Reasons, grants and who changed what are left out. If nothing was counted there are no lines.
 */
export function statementCsv(statement: Statement, now: number): string {
  const { month, opening, lines, days, closing, accounts } = statement;
  const [from, to] = boundsOf(month);
  const spent = days.map((one) => ({ time: one.day, kind: "spent", credits: -one.spent }));
  // The credits of a day come before what is spent of them.
  const changes = [...lines, ...spent].sort((a, b) => dayOf(a.time) - dayOf(b.time));
  let balance = opening;
  const rows = changes.map(({ time, kind, credits }) => [toDay(time), kind, credits, (balance += credits)]);
  const end = Math.min(to - 1, now);
  const all =
    accounts.length === 0 ? [] : [[toDay(from), "opening", "", opening], ...rows, [toDay(end), "closing", "", closing]];
  return [["day", "what", "credits", "balance"], ...all].map((row) => `${row.map(toField).join(",")}\r\n`).join("");
}

const DAY = 86_400_000;
const dayOf = (at: number): number => Math.floor(at / DAY);
const toDay = (at: number): string => new Date(at).toISOString().slice(0, 10);
