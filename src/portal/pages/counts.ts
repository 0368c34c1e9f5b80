/** What an owner used, by day and by key, and the statement of a month. */
import type { AnalyticsRow } from "../../analytics/rows.js";
import { boundsOf, type Statement, type StatementLine } from "../../analytics/statement.js";
import { statementCsv } from "../../analytics/csv.js";
import { KeystileError } from "../../contracts/errors.js";
import type { KeyResponseData } from "../../keyring/schemas/responses.js";
import { chart, most } from "../../view/chart.js";
import { button } from "../../view/form.js";
import { DAY, toMonth } from "../../view/format.js";
import { html, type Html, type Part } from "../../view/html.js";
import type { Download } from "../../view/pages.js";
import { code, facts, link, section, table } from "../../view/parts.js";
import type { TextName } from "../texts.js";
import { type Content, nameOf, type PortalPage, type PortalView } from "../view.js";
import { toKey } from "./keys.js";

const DAYS = 30;
const MAX_KEYS = 100;

interface Sums {
  count: number;
  refused: number;
  spent: number;
}

/** Calls, those of them that were refused, and credits, by what `of` tells apart. */
function addUp<T>(rows: readonly AnalyticsRow[], of: (row: AnalyticsRow) => T): Map<T, Sums> {
  const sums = new Map<T, Sums>();
  for (const row of rows) {
    const sum = sums.get(of(row)) ?? { count: 0, refused: 0, spent: 0 };
    sums.set(of(row), sum);
    sum.count += row.count;
    sum.spent += row.spent;
    if (row.outcome !== "VALID") sum.refused += row.count;
  }
  return sums;
}

async function showUsage(view: PortalView): Promise<Content> {
  const { mine, now, language } = view;
  const { say, number, day } = language;
  const today = Math.floor(now / DAY) * DAY;
  const range = { from: today - (DAYS - 1) * DAY, to: today + DAY };
  const [byDay, byKey, { data: keys }] = await Promise.all([
    mine.usage({ ...range, by: ["day", "outcome"] }),
    mine.usage({ ...range, by: ["keyId", "outcome"] }),
    mine.list({ limit: MAX_KEYS }),
  ]);
  const numbers = (["calls", "refused", "spent"] as const).map((title) => ({ title: say(title), isNumber: true }));
  const cells = ({ count, refused, spent }: Sums): Part[] => [count, refused, spent].map(number);
  const days = addUp(byDay, ({ time = 0 }) => time);
  const all = Array.from(
    { length: DAYS },
    (_, i) => days.get(range.from + i * DAY) ?? { count: 0, refused: 0, spent: 0 },
  );
  const dayRows = [...days].map(([time, sums]): Part[] => [day(time), ...cells(sums)]);
  const valid = all.map(({ count, refused }) => count - refused);
  const refused = all.map((one) => one.refused);
  const texts = all.map((sums, i) => {
    const calls = html`${say("calls")} ${number(sums.count)}, ${say("refused")} ${number(sums.refused)}`;
    return html`${day(range.from + i * DAY)}: ${calls}`;
  });
  const bars =
    most([...valid, ...refused]) > 0 &&
    html`${chart(valid, refused, { texts, write: number })}<p class="ks-ends"><span>${day(range.from)}</span><span>${day(today)}</span></p>`;
  const used = [...addUp(byKey, ({ keyId = "" }) => keyId)].sort(([, a], [, b]) => b.count - a.count);
  const keyRows = used.slice(0, MAX_KEYS).map(([keyId, sums]): Part[] => [ofKey(view, keyId, keys), ...cells(sums)]);
  const usedBy = (title: TextName, by: TextName, rows: readonly (readonly Part[])[]): Html =>
    section(say(title), table(say(title), [{ title: say(by) }, ...numbers], rows, say("noUsage")));
  return {
    title: say("usage"),
    body: html`${bars && section(say("lastDays"), bars)}${usedBy("byKey", "key", keyRows)}
      ${usedBy("byDay", "day", dayRows.reverse())}<p class="ks-hint ks-below">${say("utc")}</p>`,
  };
}

/** A key that was used: by its name, or by its id if it was revoked or is not among the newest. */
function ofKey(view: PortalView, keyId: string, keys: readonly KeyResponseData[]): Html {
  const key = keys.find((one) => one.keyId === keyId);
  return key === undefined ? code(keyId) : link(view.path(toKey(keyId)), nameOf(view, key));
}

/** The month that the address names, or this one. */
async function read({ query, now, analytics, owner }: PortalView): Promise<Statement> {
  const month = query.get("month") ?? toMonth(now);
  boundsOf(month);
  if (month > toMonth(now)) throw new KeystileError("NOT_FOUND", "that month has not begun");
  // Only asked for where there are counts.
  if (analytics === undefined) throw new KeystileError("NOT_FOUND", "this portal has no statements");
  return analytics.statement({ externalId: owner }, month);
}

const LINES = {
  ...{ refill: "refill", grant: "granted", adjustment: "adjustment", moved: "moved", unexplained: "unexplained" },
  ...{ forfeited: "forfeited", expired: "creditsExpired" },
} as const satisfies Record<StatementLine["kind"], TextName>;

async function showStatement(view: PortalView): Promise<Content> {
  const { language, now } = view;
  const { say, number, signed, day } = language;
  const found = await read(view);
  const [from, to] = boundsOf(found.month);
  const way = (at: number, text: TextName): Html => button(view, `/statement?month=${toMonth(at)}`, say(text));
  const sums = facts([
    [say("opening"), number(found.opening)],
    [say("refill"), signed(found.refills)],
    [say("granted"), signed(found.granted)],
    [say("adjustment"), signed(found.adjustments)],
    [say("spent"), signed(-found.spent)],
    [say("forfeited"), signed(-found.forfeited)],
    [say("creditsExpired"), signed(-found.expired)],
    [say(to > now ? "now" : "closing"), html`<strong>${number(found.closing)}</strong>`],
  ]);
  const credits = { title: say("credits"), isNumber: true };
  const lines = found.lines.map((one): Part[] => [day(one.time), say(LINES[one.kind]), signed(one.credits)]);
  const days = found.days.map((one): Part[] => [day(one.day), number(one.spent)]);
  const { countedFrom } = found;
  const isCounted = found.accounts.length > 0;
  return {
    title: say("statementOf", { month: language.month(from) }),
    actions: html`${way(from - 1, "previousMonth")}${to <= now && way(to, "nextMonth")}
      ${button(view, `/statement.csv?month=${found.month}`, say("download"))}`,
    body: html`${section(say("credits"), isCounted ? html`<div class="ks-sums">${sums}</div>` : say("notCounted"))}
      ${isCounted && section(say("changes"), table(say("changes"), [{ title: say("day") }, { title: say("what") }, credits], lines, say("noChanges")))}
      ${isCounted && section(say("spentByDay"), table(say("spentByDay"), [{ title: say("day") }, credits], days, say("noUsage")))}
      <p class="ks-hint ks-below">${say("utc")}${countedFrom !== undefined && html` ${say("countedSince", { date: day(countedFrom) })}`}</p>`,
  };
}

async function asFile(view: PortalView): Promise<Download> {
  const found = await read(view);
  return { file: `statement-${found.month}.csv`, type: "text/csv; charset=utf-8", text: statementCsv(found, view.now) };
}

export const countPages: readonly PortalPage[] = [
  { path: "/usage", isCounted: true, show: showUsage },
  { path: "/statement", isCounted: true, show: showStatement },
  { path: "/statement.csv", isCounted: true, show: asFile },
];
