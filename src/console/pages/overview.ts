/** The first page: how many keys there are, what ends soon, and what was changed. */
import type { KeyResponseData } from "../../keyring/schemas/responses.js";
import { ifAble } from "../ask.js";
import { DAY, number, time } from "../../view/format.js";
import { html, type Html, type Part } from "../../view/html.js";
import { type Column, link, section, table } from "../../view/parts.js";
import type { Content, Page, View } from "../view/view.js";
import { recent } from "./audit.js";
import { firstRun } from "./first-run.js";
import { creditsLeft, keyLink, ownerLink } from "./key-parts.js";
import { notShown } from "./rights.js";
import { topUsage, usageOf } from "./usage.js";

const SOON = 30 * DAY;
const LOW_CREDITS = 100;
const ROWS = 8;

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
    body: html`${view.may("keys.countKeys") && (await ifAble(counts(view)))}${await usageOf(view, {})}
      ${await topUsage(view)}
      ${lists && html`<div class="ks-grid">${lists}</div>`}${await recent(view, "Recent changes")}${notShown(view, PARTS)}`,
  };
}

async function counts(view: View): Promise<Html> {
  const { total, disabled, expired } = await view.ask("keys.countKeys", {});
  const tile = (title: string, value: number, query: string): Html =>
    html`<div><dt>${title}</dt><dd>${link(`${view.path("/keys")}${query}`, number(value))}</dd></div>`;
  return html`<dl class="ks-tiles">${tile("Keys", total, "")}${tile("Disabled", disabled, "?state=disabled")}
    ${tile("Expired", expired, "?state=expired")}</dl>`;
}

async function expiring(view: View): Promise<Html> {
  const request = { state: "active", order: "expires", expiresBefore: view.now + SOON, limit: ROWS };
  return keysOf(view, "Expire within 30 days", request, "Expires", ({ expires }) => time(expires, view.now));
}

async function low(view: View): Promise<Html> {
  const request = { creditsBelow: LOW_CREDITS, order: "credits", limit: ROWS };
  return keysOf(view, `Below ${LOW_CREDITS} credits`, request, { title: "Credits", isNumber: true }, creditsLeft);
}

/** A few keys, each with what they are listed for. */
async function keysOf(
  view: View,
  title: string,
  request: object,
  column: string | Column,
  show: (key: KeyResponseData) => Part,
): Promise<Html> {
  const { data } = await view.ask("keys.searchKeys", request);
  const rows = data.map((key) => [keyLink(view, key), ownerLink(view, key), show(key)]);
  return section(title, table(title, ["Key", "Owner", column], rows, "None."));
}

/** The first page. */
export const overviewPages: readonly Page[] = [{ path: "/", show }];
