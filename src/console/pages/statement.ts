/** Statement of a month: what an owner or a key had, what came and went, and what was changed in between. */
import { boundsOf, type Statement, type StatementOf } from "../../analytics/statement.js";
import { forbidden } from "../../keyring/rows.js";
import { permissionsOf } from "../ask.js";
import { count, dayOf, number, signed } from "../view/format.js";
import { button } from "../view/form.js";
import { html, type Html, type Part } from "../view/html.js";
import { badge, facts, link, muted, name, section, table } from "../view/parts.js";
import type { Content, Page, View } from "../view/view.js";
import { changeTable } from "./audit.js";
import { keyLink, readKey, toOwner } from "./key-parts.js";

const NEEDS = "analytics.getVerifications";
const toMonth = (at: number): string => new Date(at).toISOString().slice(0, 7);
/** `November 2026`. */
const toTitle = (at: number): string =>
  new Date(at).toLocaleString("en-US", { month: "long", year: "numeric", timeZone: "UTC" });

/** The month that the address names, or this one. @param apiId of a key; absent: of an owner */
async function show(view: View, of: StatementOf, whose: Html, apiId?: string): Promise<Content> {
  const analytics = view.analyticsOf(apiId);
  if (analytics === undefined) throw forbidden(permissionsOf(NEEDS));
  const month = view.query.get("month") ?? toMonth(view.now);
  const [from, to] = boundsOf(month);
  const found = await analytics.statement(of, month);
  const way = (at: number, text: string): Html => button(view, `${view.here}?month=${toMonth(at)}`, text);
  return {
    title: `Statement of ${toTitle(from)}`,
    about: html`${whose} ${muted("Days are those of UTC.")}`,
    actions: html`${way(from - 1, "Previous month")}${to <= view.now && way(to, "Next month")}`,
    body: html`<div class="ks-grid">${section("Credits", ledger(found, to > view.now))}${section("Refused", refusals(found))}</div>
      ${section("Spent by day", spending(found))}
      ${view.may("audit.listAudit") && section("Changes", changeTable(view, "Changes", found.changes))}`,
  };
}

function ledger(found: Statement, isRunning: boolean): Html {
  const { opening, refills, adjustments, spent, forfeited, expired, closing, unattributed } = found;
  const sums = facts([
    ["Opening", number(opening)],
    ["Refills", signed(refills)],
    ["Adjustments", signed(adjustments)],
    ["Spent", signed(-spent)],
    ["Forfeited", signed(-forfeited)],
    ["Expired", signed(-expired)],
    [isRunning ? "Now" : "Closing", html`<strong>${number(closing)}</strong>`],
  ]);
  const others = `${number(unattributed)} of what was spent are counted for none of these keys.`;
  return html`<div class="ks-sums">${sums}</div>${unattributed !== 0 && html`<p class="ks-hint ks-below">${others}</p>`}`;
}

function refusals({ refused }: Statement): Html {
  const rows = Object.entries(refused).map(([reason, times]): Part[] => [badge("bad", reason), number(times)]);
  return table("Refused", ["Reason", { title: "Verifications", isNumber: true }], rows, "No verification was refused.");
}

function spending({ days }: Statement): Html {
  const rows = days.map(({ day, spent }): Part[] => [dayOf(day), number(spent)]);
  const list = table("Spent by day", ["Day", { title: "Credits", isNumber: true }], rows, "Nothing was spent.");
  if (days.length === 0) return list;
  return html`<details><summary>${count(days.length, "day")} with spent credits</summary>${list}</details>`;
}

async function ofOwner(view: View, externalId: string): Promise<Content> {
  const owner = await view.ask("identities.getIdentity", { identity: externalId });
  const to = view.path(toOwner(owner.externalId));
  return show(view, { externalId: owner.externalId }, link(to, name(owner.externalId)));
}

async function ofKey(view: View, keyId: string): Promise<Content> {
  const key = await readKey(view, keyId);
  return show(view, { keyId }, keyLink(view, key), key.apiId);
}

/** The pages of statements. */
export const statementPages: readonly Page[] = [
  { path: "/owners/:id/statement", needs: NEEDS, show: ofOwner },
  { path: "/keys/:id/statement", needs: NEEDS, show: ofKey },
];
