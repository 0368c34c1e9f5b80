/** Usage by day, where verifications are counted: those that passed, and below them those that were refused. */
import type { AnalyticsQuery } from "../../analytics/query.js";
import type { AnalyticsRow } from "../../analytics/rows.js";
import { boundsOf } from "../../analytics/statement.js";
import { OTHER, OUTCOMES } from "../../contracts/outcomes.js";
import { ifCounted } from "../ask.js";
import type { ConsoleAnalytics } from "../options.js";
import type { KeyResponseData } from "../../keyring/schemas/responses.js";
import { DAY, dayOf, number, time, toMonth } from "../../view/format.js";
import { burnDown, chart, most, spark } from "../../view/chart.js";
import { html, type Html, type Part } from "../../view/html.js";
import { badge, code, link, muted, name, section, table } from "../../view/parts.js";
import { toPage } from "../view/lists.js";
import type { View } from "../view/view.js";
import { keyLink, keysById, toKey, toOwner } from "./key-parts.js";

const REFUSED = OUTCOMES.filter((outcome) => outcome !== "VALID");
const DAYS = 30;
const TOP_DAYS = 7;
const TOP_ROWS = 8;

/** Of one day. */
interface Day {
  readonly time: number;
  readonly valid: number;
  readonly refused: ReadonlyMap<string, number>;
}

/** Sums of the last days, today included; undefined: they are too many to add up for a page. */
async function readCounts(
  analytics: ConsoleAnalytics,
  { now }: View,
  days: number,
  query: Omit<AnalyticsQuery, "from" | "to">,
): Promise<readonly AnalyticsRow[] | undefined> {
  const to = Math.floor(now / DAY) * DAY + DAY;
  const found = await ifCounted(analytics.query({ ...query, from: to - days * DAY, to }));
  // A program's own may return anything; what is no list is a fault.
  return found && [...found.rows];
}

const empty = (what: Part): Html => html`<p class="ks-empty">${what}</p>`;
const TOO_MANY = empty(html`Too many to add up for a page; ${code("keystile analytics")} does.`);

/** The last 30 days of some keys or owners. @param apiId of the keys; absent: of any API */
export async function usageOf(view: View, where: NonNullable<AnalyticsQuery["where"]>, apiId?: string): Promise<Part> {
  const analytics = view.analyticsOf(apiId);
  if (analytics === undefined) return undefined;
  const rows = await readCounts(analytics, view, DAYS, { by: ["day", "outcome"], where });
  return section(`Last ${DAYS} days`, rows === undefined ? TOO_MANY : shown(toDays(rows, view.now)));
}

function shown(days: readonly Day[]): Html {
  const [valid, refused] = [days.map((day) => day.valid), days.map(refusedOn)];
  if (most([...valid, ...refused]) === 0)
    return empty(html`No calls recorded yet. Verifiers record them with ${code("analytics: true")}.`);
  const ends = [days[0], days.at(-1)].map((day) => html`<span>${dayOf(day?.time ?? 0)}</span>`);
  const texts = days.map((day) =>
    [dayOf(day.time), `VALID ${number(day.valid)}`, refusalsOn(day)].filter((text) => text !== "").join(", "),
  );
  return html`${chart(valid, refused, { texts })}<p class="ks-ends">${ends}</p>${legend(days)}
    <p class="ks-hint">Busiest day: ${number(most(valid))} passed; most refused in a day: ${number(most(refused))}. The
    upper bars are calls that passed, the lower ones refused calls on a scale of their own. Today is not over.</p><details><summary>As a table</summary>${dayTable(days)}</details>`;
}

function toDays(rows: readonly AnalyticsRow[], now: number): readonly Day[] {
  const today = Math.floor(now / DAY) * DAY;
  return Array.from({ length: DAYS }, (_, i) => {
    const time = today - (DAYS - 1 - i) * DAY;
    const those = rows.filter((row) => row.time === time);
    const valid = those.filter(({ outcome }) => outcome === "VALID").reduce((sum, row) => sum + row.count, 0);
    const refused = those.filter(({ outcome }) => outcome !== "VALID");
    return { time, valid, refused: new Map(refused.map((row) => [row.outcome ?? "", row.count])) };
  });
}

/** `RATE_LIMITED 3, EXPIRED 1`. */
const refusalsOn = ({ refused }: Day): string =>
  [...refused].map(([code, times]) => `${code} ${number(times)}`).join(", ");
const refusedOn = ({ refused }: Day): number => [...refused.values()].reduce((sum, one) => sum + one, 0);

function legend(days: readonly Day[]): Html {
  const valid = days.reduce((sum, day) => sum + day.valid, 0);
  const refused = new Map<string, number>();
  for (const day of days) for (const [code, times] of day.refused) refused.set(code, (refused.get(code) ?? 0) + times);
  const items = [...refused].map(([code, times]) => html`<span>${badge("bad", code)} ${number(times)}</span>`);
  return html`<p class="ks-legend"><span>${badge("plain", "VALID")} ${number(valid)}</span>${items}</p>`;
}

function dayTable(days: readonly Day[]): Html {
  const rows = days.map((day): Part[] => [dayOf(day.time), number(day.valid), refusalsOn(day)]);
  return table("Verifications by day", ["Day (UTC)", { title: "Valid", isNumber: true }, "Refused"], rows, "None.");
}

/** What is told apart in a list of who used most, and how one of it is shown. */
const TOPS = [
  { by: "externalId", title: "Owner", show: (view: View, id: string) => link(view.path(toOwner(id)), name(id)) },
  { by: "keyId", title: "Key", show: (view: View, id: string) => link(view.path(toKey(id)), code(id)) },
  { by: "tag", title: "Tag", show: (_: View, tag: string) => code(tag) },
] as const;

/** Who used most in a week, or in a month: by verifications, or by credits where the address asks for it. */
export async function topUsage(view: View): Promise<Part> {
  const analytics = view.analyticsOf();
  if (analytics === undefined) return undefined;
  const [days, other] = view.query.get("days") === String(DAYS) ? [DAYS, TOP_DAYS] : [TOP_DAYS, DAYS];
  const lists = TOPS.map((top) => topList(view, { analytics, days, where: {} }, top));
  const title = `Who ${isBySpent(view) ? "spent" : "used"} most in ${days} days`;
  const ways = html`<span>${otherOrder(view)} · ${link(view.path(toPage(view, { days: other })), `In ${other} days`)}</span>`;
  return section(title, html`<div class="ks-grid">${await Promise.all(lists)}</div>`, ways);
}

const isBySpent = ({ query }: View): boolean => query.get("top") === "spent";

/** The way to the same page in the other order. */
function otherOrder(view: View): Html {
  const [top, order] = isBySpent(view) ? ["used", "verifications"] : ["spent", "credits"];
  return link(view.path(toPage(view, { top })), `Order by ${order}`);
}

/** The last 30 days of an owner: by day, by key and by tag. */
export async function ownerUsage(view: View, externalId: string): Promise<Part> {
  const where = { externalId: [externalId] };
  const days = await usageOf(view, where);
  const analytics = view.analyticsOf();
  if (analytics === undefined) return days;
  const lists = TOPS.filter(({ by }) => by !== "externalId").map((top) =>
    topList(view, { analytics, days: DAYS, where }, top),
  );
  const grid = html`<div class="ks-grid">${await Promise.all(lists)}</div>`;
  return html`${days}${section(`By key and by tag in ${DAYS} days`, grid, otherOrder(view))}`;
}

/** Which keys of an owner were refused, most first. @param since the first hour of them; absent: none was */
export async function refusedKeys(view: View, externalId: string, since: number | undefined): Promise<Part> {
  const analytics = view.analyticsOf();
  if (analytics === undefined || since === undefined) return undefined;
  const where = { externalId: [externalId], outcome: REFUSED };
  const query = { by: ["hour", "keyId"], where, from: since, to: view.now + 1, limit: 10_000 } as const;
  const rows = (await ifCounted(analytics.query(query)))?.rows ?? [];
  const times = new Map<string, number>();
  for (const { keyId = "", count } of rows) times.set(keyId, (times.get(keyId) ?? 0) + count);
  const most = [...times].sort(([, a], [, b]) => b - a).slice(0, TOP_ROWS);
  const ids = most.map(([id]) => id);
  const keys = await keysById(view, ids);
  const cells = most.map(([id, some]): Part[] => {
    const key = keys.get(id);
    return [key === undefined ? link(view.path(toKey(id)), code(id)) : keyLink(view, key), number(some)];
  });
  return html`<div class="ks-below">${table("Refused by key", ["Key", { title: "Refused", isNumber: true }], cells, "")}</div>`;
}

/**
 * What an owner had at the end of each day of this month, and will have at the pace of two weeks.
 * @param isShared whether it has credits, or its keys alone
 */
export async function burnDownOf(view: View, externalId: string, isShared: boolean): Promise<Part> {
  const analytics = view.analyticsOf();
  if (analytics === undefined) return undefined;
  const { now } = view;
  const month = toMonth(now);
  const [from, to] = boundsOf(month);
  const found = await ifCounted(analytics.statement({ externalId }, month));
  if (found === undefined || found.accounts.length === 0) return undefined;
  const { perDay, emptyAt } = await analytics.forecast({ externalId });
  const changes = [
    ...found.lines.map(({ time: at, credits }) => [at, credits] as const),
    ...found.days.map(({ day, spent }) => [day, -spent] as const),
  ];
  const used = found.days.reduce((sum, { spent }) => sum + spent, 0);
  // A pace takes two days.
  const isNew = perDay <= 0 && used > 0;
  const known = Math.floor((now - from) / DAY) + 1;
  const left = Array.from({ length: (to - from) / DAY }, (_, i) => {
    const end = from + (i + 1) * DAY;
    if (i >= known && isNew) return 0;
    if (i >= known) return Math.max(0, found.closing - perDay * ((end - now) / DAY));
    return changes.reduce((sum, [at, credits]) => (at < end ? sum + credits : sum), found.opening);
  });
  const texts = left.map(
    (value, i) => `${dayOf(from + i * DAY)}: ${i >= known && isNew ? "not known yet" : number(Math.round(value))}`,
  );
  const over = emptyAt !== undefined && html`, used up ${time(emptyAt, now)} without a refill`;
  return section(
    isShared ? "Credits this month" : "Credits of its keys this month",
    html`${burnDown(left, known, texts)}<p class="ks-ends"><span>${dayOf(from)}</span><span>${dayOf(to - DAY)}</span></p>
    <p class="ks-hint">${number(found.closing)} left now; ${number(used)} used this month. ${found.closing <= 0 ? "" : isNew ? TOO_NEW : html`${number(Math.round(perDay))} a day were spent in two weeks${over}. The pale bars show what is left at that pace.`}</p>`,
  );
}

/** How fast the credits of a key are spent, and when they are used up at that pace; undefined: nobody counts that. */
export async function pace(view: View, { keyId, apiId }: KeyResponseData): Promise<Part> {
  const analytics = view.analyticsOf(apiId);
  if (analytics === undefined) return undefined;
  const { perDay, emptyAt } = await analytics.forecast({ keyId });
  if (perDay <= 0) return muted(TOO_NEW);
  const end = emptyAt !== undefined && html`, used up ${time(emptyAt, view.now)} without a refill`;
  return html`${number(Math.max(1, Math.round(perDay)))} a day in two weeks${end}`;
}

const TOO_NEW = "Too little was spent yet to tell a pace.";
const SPARK_DAYS = 14;

/** Verifications of keys by day in two weeks, as small charts by their ids; undefined: nobody counts them. */
export async function sparks(view: View, keyIds: readonly string[]): Promise<ReadonlyMap<string, Html> | undefined> {
  const analytics = view.analyticsOf();
  if (analytics === undefined || keyIds.length === 0) return undefined;
  const query = { by: ["day", "keyId"], where: { keyId: keyIds }, limit: 10_000 } as const;
  const rows = await readCounts(analytics, view, SPARK_DAYS, query);
  const first = Math.floor(view.now / DAY) * DAY - (SPARK_DAYS - 1) * DAY;
  const byKey = new Map(keyIds.map((keyId) => [keyId, new Array<number>(SPARK_DAYS).fill(0)]));
  for (const { keyId = "", time: at = 0, count } of rows ?? []) {
    const days = byKey.get(keyId);
    if (days !== undefined) days[Math.round((at - first) / DAY)] = count;
  }
  return rows && new Map([...byKey].map(([keyId, days]) => [keyId, spark(days)]));
}

/** How often the keys of owners were used in the last 30 days, refused calls too; undefined: nobody counts that. */
export async function callsOf(
  view: View,
  externalIds: readonly string[],
): Promise<ReadonlyMap<string, number> | undefined> {
  const analytics = view.analyticsOf();
  if (analytics === undefined || externalIds.length === 0) return undefined;
  const query = { by: ["externalId"], where: { externalId: externalIds } } as const;
  const rows = await readCounts(analytics, view, DAYS, query);
  return rows && new Map(rows.map(({ externalId = "", count }) => [externalId, count]));
}

/** Whose counts a list has. */
interface Counted {
  readonly analytics: ConsoleAnalytics;
  readonly days: number;
  readonly where: NonNullable<AnalyticsQuery["where"]>;
}

async function topList(
  view: View,
  { analytics, days, where }: Counted,
  { by, title, show }: (typeof TOPS)[number],
): Promise<Html> {
  const order = isBySpent(view) ? "spent" : "count";
  // Two more, which are left out: calls of none, and of what was not told apart.
  const rows = await readCounts(analytics, view, days, { by: [by], where, order, limit: TOP_ROWS + 2 });
  const named = rows?.filter(({ [by]: id = "" }) => id !== "" && id !== OTHER).slice(0, TOP_ROWS);
  const keys = await keysById(view, named?.flatMap(({ keyId = [] }) => keyId) ?? []);
  const cells = named?.map(({ [by]: id = "", count, spent }): Part[] => {
    const shown = keys.get(id)?.name;
    const who = shown === undefined ? show(view, id) : link(view.path(toKey(id)), name(shown));
    return [who, number(count), number(spent)];
  });
  const numbers = ["Verifications", "Credits"].map((column) => ({ title: column, isNumber: true }));
  const list = cells && table(`Most used: ${title}`, [title, ...numbers], cells, `None in ${days} days.`);
  return html`<div><h3>By ${title.toLowerCase()}</h3>${list ?? TOO_MANY}</div>`;
}
