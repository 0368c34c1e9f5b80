/** Statement of a month: what an owner or a key had, what came and went, and what was changed in between. */
import { statementCsv } from "../../analytics/csv.js";
import { boundsOf, type Statement, type StatementOf } from "../../analytics/statement.js";
import { forbidden } from "../../keyring/rows.js";
import type { KeyResponseData } from "../../keyring/schemas/responses.js";
import { permissionsOf } from "../ask.js";
import { count, dayOf, number, signed, toMonth } from "../../view/format.js";
import { button } from "../../view/form.js";
import { html, type Html, type Part } from "../../view/html.js";
import type { Download } from "../../view/pages.js";
import { badge, code, facts, link, muted, name, section, table } from "../../view/parts.js";
import type { Content, Page, View } from "../view/view.js";
import { changeTable } from "./audit.js";
import { keyLink, keysById, readKey, toOwner } from "./key-parts.js";

/** Balances that a page shows. */
const MAX_ACCOUNTS = 100;
const NEEDS = "analytics.getVerifications";
/** `November 2026`. */
const toTitle = (at: number): string =>
  new Date(at).toLocaleString("en-US", { month: "long", year: "numeric", timeZone: "UTC" });

/** The month that the address names, or this one. @param apiId of a key; absent: of an owner */
async function show(view: View, of: StatementOf, whose: Html, apiId?: string): Promise<Content | Download> {
  const analytics = view.analyticsOf(apiId);
  if (analytics === undefined) throw forbidden(permissionsOf(NEEDS));
  const month = view.query.get("month") ?? toMonth(view.now);
  const [from, to] = boundsOf(month);
  const found = await analytics.statement(of, month);
  if (view.query.get("as") === "csv")
    return { file: `statement-${month}.csv`, type: "text/csv; charset=utf-8", text: statementCsv(found, view.now) };
  const isCounted = found.accounts.length > 0;
  const keyIds = found.accounts.flatMap(({ keyId = [] }) => keyId);
  const keys = await keysById(view, keyIds);
  const way = (at: number, text: string): Html => button(view, `${view.here}?month=${toMonth(at)}`, text);
  return {
    title: `Statement of ${toTitle(from)}`,
    about: html`${whose} ${muted("Days are those of UTC.")}`,
    actions: html`${button(view, `${view.here}?month=${month}&as=csv`, "Download as CSV")}${way(from - 1, "Previous month")}${to <= view.now && way(to, "Next month")}`,
    body: html`<div class="ks-grid">${section("Credits", isCounted ? ledger(found, to > view.now) : UNCOUNTED)}${section("Refused", refusals(found))}</div>
      ${isCounted && html`${section("Line by line", changesOf(found, view.may("audit.listAudit")))}${balances(view, found, keys)}${section("Spent by day", spending(found))}`}
      ${view.may("audit.listAudit") && section("Changes", await changeTable(view, "Changes", [...found.changes].reverse()))}`,
  };
}

function ledger(found: Statement, isRunning: boolean): Html {
  const { opening, refills, granted, adjustments, spent, forfeited, expired, closing } = found;
  const sums = facts([
    ["Opening", number(opening)],
    ["Refills", signed(refills)],
    ["Granted", signed(granted)],
    ["Adjustments", signed(adjustments)],
    ["Spent", signed(-spent)],
    ["Lost with verifiers", signed(-forfeited)],
    ["Expired", signed(-expired)],
    [isRunning ? "Now" : "Closing", html`<strong>${number(closing)}</strong>`],
  ]);
  return html`<div class="ks-sums">${sums}</div>${notes(found).map((note) => html`<p class="ks-hint ks-below">${note}</p>`)}`;
}

/** What the statement cannot tell. */
function notes({ unattributed, unexplained, countedFrom }: Statement): string[] {
  const all: string[] = [];
  if (unattributed !== 0) all.push(`${number(unattributed)} spent credits are counted under none of these keys.`);
  if (unexplained !== 0) all.push(`No entry of the audit trail explains ${signed(unexplained)} of the adjustments.`);
  if (countedFrom !== undefined)
    all.push(`Counting began on ${dayOf(countedFrom)}: what an account was given and spent before is of that day.`);
  return all;
}

/** In place of sums, which would be 0 whatever there is. */
const UNCOUNTED = html`<p class="ks-empty">No balance of this month was counted: only verifiers with ${code("analytics: true")} count.</p>`;

const CAPS =
  "A key inside the balance has credits of its own: its calls take from both, and count once. What it was given is its own, and in no sum above.";
const LINE_COLUMNS = ["Day", "What", "Of", "Reason", { title: "Credits", isNumber: true }];
/** @param isTrail whether what the audit trail alone tells is shown */
function changesOf({ lines, spent }: Statement, isTrail: boolean): Html {
  const rows = lines.map(({ time, kind, credits, grantId, reason, actor }): Part[] => {
    const isShown = isTrail || kind !== "adjustment";
    return [
      dayOf(time),
      kind,
      grantId !== undefined ? name(grantId) : isShown && actor !== undefined && muted(`by ${actor}`),
      isShown && reason !== undefined && name(reason),
      signed(credits),
    ];
  });
  if (rows.length > 0) rows.push(["All days", "spent", muted("by day below"), undefined, signed(-spent)]);
  return table("Line by line", LINE_COLUMNS, rows, "Nothing but spending changed the balance.");
}

/** Where there are several: what each had at both ends. */
function balances(view: View, { accounts }: Statement, keys: ReadonlyMap<string, KeyResponseData>): Html | undefined {
  if (accounts.length < 2) return undefined;
  const columns = ["Of", ...["Opening", "Spent", "Closing"].map((title) => ({ title, isNumber: true }))];
  const rows = accounts.slice(0, MAX_ACCOUNTS).map(({ grantId, keyId, isCap, ...one }): Part[] => {
    const key = keyId !== undefined && keys.get(keyId);
    const own = keyId === undefined ? "Balance" : key ? keyLink(view, key) : code(keyId);
    const of = grantId === undefined ? own : html`${muted("Grant")} ${name(grantId)}`;
    const cap = isCap === true && html`<br>${muted("inside the balance")}`;
    return [html`${of}${cap}`, ...[one.opening, one.spent, one.closing].map(number)];
  });
  return section(
    accounts.length > MAX_ACCOUNTS ? `The first ${MAX_ACCOUNTS} balances` : "Balances",
    html`${table("Balances", columns, rows, "")}${accounts.some(({ isCap }) => isCap === true) && html`<p class="ks-hint ks-below">${CAPS}</p>`}`,
  );
}

function refusals({ refused }: Statement): Html {
  const rows = Object.entries(refused).map(([reason, times]): Part[] => [badge("bad", reason), number(times)]);
  return table(
    "Refused",
    ["Reason", { title: "Verifications", isNumber: true }],
    rows,
    "No refused verification was counted.",
  );
}

function spending({ days }: Statement): Html {
  const rows = days.map(({ day, spent }): Part[] => [dayOf(day), number(spent)]);
  const list = table("Spent by day", ["Day", { title: "Credits", isNumber: true }], rows, "Nothing was spent.");
  if (days.length === 0) return list;
  return html`<details><summary>${count(days.length, "day")} with spent credits</summary>${list}</details>`;
}

async function ofOwner(view: View, externalId: string): Promise<Content | Download> {
  const owner = await view.ask("identities.getIdentity", { identity: externalId });
  const to = view.path(toOwner(owner.externalId));
  return show(view, { externalId: owner.externalId }, link(to, name(owner.externalId)));
}

async function ofKey(view: View, keyId: string): Promise<Content | Download> {
  const key = await readKey(view, keyId);
  return show(view, { keyId }, keyLink(view, key), key.apiId);
}

/** The pages of statements. */
export const statementPages: readonly Page[] = [
  { path: "/owners/:id/statement", needs: NEEDS, show: ofOwner },
  { path: "/keys/:id/statement", needs: NEEDS, show: ofKey },
];
