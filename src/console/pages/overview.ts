/** The first page: how many keys there are, what ends soon, and what was changed. */
import type { KeyResponseData } from "../../keyring/schemas/responses.js";
import { ifAble } from "../ask.js";
import { DAY, number, time } from "../../view/format.js";
import { searchForm } from "../../view/form.js";
import { html, type Html, type Part } from "../../view/html.js";
import { type Column, link, section, table } from "../../view/parts.js";
import { searchField } from "../view/lists.js";
import type { Content, Page, View } from "../view/view.js";
import { SEARCHED } from "./search.js";
import { recent } from "./audit.js";
import { firstRun } from "./first-run.js";
import { creditsLeft, keyLink, ownerLink } from "./key-parts.js";
import { asOf, going, latest, whole } from "./latest.js";
import { notShown } from "./rights.js";
import { topUsage, usageOf } from "./usage.js";

const SOON = 30 * DAY;
const LOW_CREDITS = 100;
const ROWS = 8;
const COUNTING = "Being counted for the first time. Load the page again in a moment.";

/** What of the page needs which operation. */
const PARTS = [
  ["How many keys there are, which expire, and which run out of credits", "keys.searchKeys"],
  ["Usage, and who used most", "analytics.getVerifications"],
  ["Owners", "identities.listIdentities"],
  ["Recent changes", "audit.listAudit"],
] as const;

async function show(view: View): Promise<Content> {
  const first = await firstRun(view);
  if (first !== undefined) return first;
  const lists = view.may("keys.searchKeys") && (await ifAble(Promise.all([expiring(view), low(view)])));
  return {
    title: "Overview",
    body: html`${lists && searchForm(view, "Keys", [searchField(view, SEARCHED)], undefined, "/keys")}${view.may("keys.countKeys") && (await ifAble(counts(view)))}${await usageOf(view, {})}
      ${await topUsage(view)}
      ${lists && html`<div class="ks-grid">${lists}</div>`}${await recent(view, "Recent changes")}${notShown(view, PARTS)}`,
  };
}

async function counts(view: View): Promise<Html> {
  const counted = await latest((maxAge) => view.ask("keys.countKeys", { maxAge }));
  if (counted === undefined) return going("ks-counts", html`<p class="ks-empty" role="status">${COUNTING}</p>`);
  const { total, disabled, expired } = counted;
  const tile = (title: string, value: number, query: string): Html =>
    html`<div><dt>${title}</dt><dd>${link(`${view.path("/keys")}${query}`, number(value))}</dd></div>`;
  const tiles = html`<dl class="ks-tiles">${tile("Keys", total, "")}${tile("Disabled", disabled, "?state=disabled")}
    ${tile("Expired", expired, "?state=expired")}</dl>`;
  return whole("ks-counts", html`${tiles}${asOf(view, counted.asOf)}`);
}

async function expiring(view: View): Promise<Html> {
  const request = { order: "expires", expiresFrom: view.now, expiresBefore: view.now + SOON, limit: ROWS };
  const { data, pagination } = await view.ask("keys.searchKeys", request);
  const ends = (days: number, text: string): Html => link(view.path(`/keys?ends=${days}`), text);
  const all = html`<span>${ends(7, "Within 7 days")}${pagination.hasMore && html` · ${ends(30, "All")}`}</span>`;
  return keysOf(view, "Expire within 30 days", data, "Expires", ({ expires }) => time(expires, view.now), all);
}

async function low(view: View): Promise<Html> {
  const title = `Below ${LOW_CREDITS} credits`;
  const request = { creditsBelow: LOW_CREDITS, order: "credits", limit: ROWS };
  const found = await latest((maxAge) => view.ask("keys.searchKeys", { ...request, maxAge }));
  if (found === undefined)
    return going("ks-low", section(title, html`<p class="ks-empty" role="status">${COUNTING}</p>`));
  const { data, pagination } = found;
  const aside = html`${asOf(view, pagination.asOf ?? view.now)}
    ${pagination.hasMore && link(view.path(`/keys?order=credits&below=${LOW_CREDITS}`), "All")}`;
  return whole("ks-low", keysOf(view, title, data, { title: "Credits", isNumber: true }, creditsLeft, aside));
}

/** A few keys, each with what they are listed for. */
function keysOf(
  view: View,
  title: string,
  keys: readonly KeyResponseData[],
  column: string | Column,
  show: (key: KeyResponseData) => Part,
  aside: Part,
): Html {
  const rows = keys.map((key) => [keyLink(view, key), ownerLink(view, key), show(key)]);
  return section(title, table(title, ["Key", "Owner", column], rows, "None."), aside);
}

/** The first page. */
export const overviewPages: readonly Page[] = [{ path: "/", show }];
