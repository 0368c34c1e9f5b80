/**
 * The list of keys: searched, ordered and filtered, over all APIs that the caller may read; finding a key by
 * its text, which is in no address; and making one.
 */
import { KeystileError } from "../../contracts/errors.js";
import type { KeyResponseData, SearchPage } from "../../keyring/schemas/responses.js";
import { count, DAY, time } from "../../view/format.js";
import { button, type Field, form, type Options } from "../../view/form.js";
import { html, type Html, type Part } from "../../view/html.js";
import { asked, type List, listed, searched, searchField, toPage } from "../view/lists.js";
import { code, link, name, section } from "../../view/parts.js";
import type { Content, Done, Page, View } from "../view/view.js";
import { selectBox, selection } from "./stop.js";
import { sparks } from "./usage.js";
import { keyOf, search, SEARCHED } from "./search.js";
import { changesOf, creditFields, creditsOf, KEY_FIELDS } from "./key-fields.js";
import {
  apiField,
  apiOptions,
  creditsLeft,
  keyLink,
  ownerLink,
  readKey,
  showState,
  STATES,
  toKey,
} from "./key-parts.js";
import { secret } from "./key.js";
import { ownersFound } from "./owner-list.js";
import { asOf, going, latest, MINUTE, soon, whole } from "./latest.js";

/** What an empty balance of a new key means. */
const UNLIMITED = "Empty: unlimited, or those of the owner if it has some.";
const PAGE = 50;
/** Deleted keys below a list. */
const DELETED = 10;
const ORDERS: Options = [
  ["", "Newest"],
  ["expires", "Expiring soonest"],
  ["lastUsed", "Last used"],
  ["credits", "Fewest credits"],
];
const ENDS: Options = [
  ["", "Any time"],
  ["1", "Within a day"],
  ["7", "Within 7 days"],
  ["30", "Within 30 days"],
];
/** Orders that no index has. */
const COMPUTED: readonly (string | undefined)[] = ["lastUsed", "credits"];
/** Milliseconds of one answer where no script goes on. */
const LONG = 10_000;
/** The part of a page that has the list. */
const PART = "ks-keys";
const ORDERING = "Being put in order for the first time. Load the page again in a moment.";
const COLUMNS = ["Key", "State", "Owner", "API", { title: "Credits", isNumber: true }, "Expires", "Last used"];

async function list(view: View): Promise<Content> {
  const filters = asked(view, "search", "apiId", "state", "externalId", "ends", "order", "below");
  const field = (at: string, label: string, options?: Options): Field => ({
    ...{ name: at, label, value: filters[at] },
    ...(options && { type: "select", options }),
  });
  // What ends soon begins with what ends first, unless another order is chosen.
  const isEnding = filters["ends"] !== undefined || filters["state"] === "replaced";
  const orders = ORDERS.filter(([value]) => !isEnding || value !== "");
  const order = { ...field("order", "Order", orders), value: filters["order"] ?? (isEnding ? "expires" : "") };
  const fields = [
    searchField(view, SEARCHED),
    field("apiId", "API", [["", "All"], ...(await apiOptions(view))]),
    field("state", "State", [["", "Any"], ...STATES]),
    field("externalId", "Owner"),
    field("ends", "Expires", ENDS),
    order,
  ];
  const maySelect = filters["state"] !== "deleted" && view.may("keys.changeKeys");
  const owners = await ownersFound(view, filters);
  const keys = await keyTable(view, filters, maySelect ? selectBox : undefined);
  return {
    title: "Keys",
    actions: html`${view.may("keys.whoami") && button(view, "/keys/find", "Find by full key")}
      ${view.may("keys.createKey") && button(view, "/keys/new", "Create key", "primary")}`,
    body: searched(
      view,
      fields,
      owners === undefined ? keys : html`${owners}${section("Keys", keys)}`,
      html`${maySelect && selection(view)}${await deletedKeys(view, filters)}`,
    ),
  };
}

/** A few deleted keys that hold a text, which is looked for in all that are not: somebody asks why theirs is gone. */
async function deletedKeys(view: View, filters: Readonly<Record<string, string>>): Promise<Part> {
  if (filters["search"] === undefined || filters["state"] !== undefined || view.query.has("cursor")) return undefined;
  const found = await toList(view, await read(view, { ...filters, state: "deleted" }, DELETED));
  const all = new URLSearchParams({ ...filters, state: "deleted" });
  const note = found.pagination.hasMore && link(`${view.path("/keys")}?${all.toString()}`, "All that are deleted");
  return found.rows.length > 0 && section("Deleted keys", listed(view, { ...found, note, pagination: {} }));
}

type Filters = Readonly<Record<string, string>>;
type Found = SearchPage<KeyResponseData>;

/** Asks for a page. What ends soon begins with now, and is in the order of an index. */
function read(view: View, { ends, below, ...filters }: Filters, limit: number, maxAge?: number): Promise<Found> {
  const order = filters["order"] ?? (ends === undefined && filters["state"] !== "replaced" ? undefined : "expires");
  // What is kept is found again by its minute.
  const now = maxAge === undefined ? view.now : Math.floor(view.now / MINUTE) * MINUTE;
  const isFromNow = ends !== undefined || (order === "expires" && filters["state"] === undefined);
  return view.ask("keys.searchKeys", {
    ...{ ...filters, limit, ...asked(view, "cursor") },
    ...(order !== undefined && { order }),
    ...(isFromNow && { expiresFrom: now }),
    ...(ends !== undefined && { expiresBefore: now + Number(ends) * DAY }),
    ...(below !== undefined && { creditsBelow: Number(below) }),
    ...(maxAge !== undefined && { maxAge }),
  });
}

/** Asks until the page is full, or for 10 seconds: nothing else goes on where there is no script. */
async function readLong(view: View, filters: Filters, limit: number): Promise<Found> {
  const until = performance.now() + LONG;
  const data: KeyResponseData[] = [];
  let searched = 0;
  let from = view;
  for (;;) {
    const page = await read(from, filters, limit - data.length);
    data.push(...page.data);
    searched += page.pagination.searched;
    const { hasMore, cursor } = page.pagination;
    if (!hasMore || data.length === limit || performance.now() >= until)
      return { data, pagination: { ...page.pagination, searched } };
    from = { ...view, query: new URLSearchParams({ cursor: cursor ?? "" }) };
  }
}

/** What selects a key, first in its row. */
type Box = (key: KeyResponseData) => Html;

/** A page of the keys that fit, which the script goes on with until it is full. */
export async function keyTable(view: View, filters: Filters, box?: Box): Promise<Html> {
  const shown = Math.min(Number(view.query.get("shown")) || 0, PAGE - 1);
  const limit = PAGE - shown;
  const isComputed = COMPUTED.includes(filters["order"]) || filters["state"] === "exhausted";
  const found = isComputed
    ? await latest((maxAge) => read(view, filters, limit, maxAge))
    : await (view.query.has("long") ? readLong : read)(view, filters, limit);
  if (found === undefined) return going(PART, html`<p class="ks-empty" role="status">${ORDERING}</p>`);
  const { data, pagination } = found;
  const list = await toList(view, found, box);
  const at = pagination.asOf === undefined ? false : asOf(view, pagination.asOf);
  if (!pagination.hasMore || data.length === limit || isComputed)
    return whole(PART, listed(view, { ...list, ...(at && { note: at }) }));
  const searched = (Number(view.query.get("searched")) || 0) + pagination.searched;
  const note = html`<span role="status">${await progress(view, filters, searched)}</span>`;
  const more = toPage(view, { cursor: pagination.cursor, searched, shown: shown + data.length });
  const empty = "Nothing is found so far.";
  return going(PART, listed(view, { ...list, empty, note, next: "Go on" }), view.path(more));
}

/** How much of all keys is searched, where that is known soon. */
async function progress(view: View, { apiId }: Filters, searched: number): Promise<string> {
  const request = { maxAge: MINUTE, ...(apiId !== undefined && { apiId }) };
  const counted = view.may("keys.countKeys") ? await soon(view.ask("keys.countKeys", request), 10) : undefined;
  if (counted === undefined) return `Searched ${count(searched, "key")}.`;
  return `Searched ${Math.min(99, Math.floor((searched / Math.max(1, counted.total)) * 100))} %.`;
}

async function toList(view: View, { data, pagination }: Found, box?: Box): Promise<List> {
  const apis = new Map(await apiOptions(view));
  const keyIds = data.map(({ keyId }) => keyId);
  const used = await sparks(view, keyIds);
  const columns = [...(box ? ["Select"] : []), ...COLUMNS, ...(used ? ["14 days"] : [])];
  const rows = data.map((key): Part[] => [
    ...(box ? [box(key)] : []),
    ...row(view, key, apis),
    ...(used ? [used.get(key.keyId)] : []),
  ]);
  return { title: "Keys", columns, rows, pagination, empty: "No key is found." };
}

function row(view: View, key: KeyResponseData, apis: ReadonlyMap<string, string>): Part[] {
  const { now } = view;
  const called = apis.get(key.apiId);
  const api = called === undefined ? code(key.apiId) : name(called);
  const { expires, lastUsedAt } = key;
  const times = [time(expires, now), time(lastUsedAt, now)];
  return [keyLink(view, key), showState(key), ownerLink(view, key), api, creditsLeft(key), ...times];
}

async function showFind(view: View): Promise<Content> {
  const fields: readonly Field[] = [{ name: "key", label: "The whole key", type: "password", isRequired: true }];
  const about = "Of a key that leaked, or that a customer sent. The key is not stored or put in the page address.";
  const body = form(view, { fields, submit: "Find", cancel: "/keys", isQuestion: true });
  return { title: "Find by full key", about, body };
}

async function find(view: View): Promise<Done> {
  const key = view.form.get("key") ?? "";
  const keyId = key === "" ? undefined : await keyOf(view, key);
  if (keyId === undefined) throw new KeystileError("NOT_FOUND", "No key has this text at body.key");
  return { to: toKey(keyId), notice: "found" };
}

async function showNew(view: View): Promise<Content> {
  const first: readonly Field[] = [
    await apiField(view),
    { name: "prefix", label: "Prefix", hint: "Before the random part, such as sk_live." },
  ];
  const fields = [...first, ...KEY_FIELDS.map(({ field }) => field), ...creditFields(UNLIMITED)];
  const body = form(view, { fields, submit: "Create key", cancel: "/keys" });
  const actions = view.may("apis.createApi") && button(view, "/apis/new", "New API");
  return { title: "Create key", about: "Everything but the API may be left out.", actions, body };
}

async function create(view: View): Promise<Done> {
  const { form: sent } = view;
  const prefix = sent.get("prefix") ?? "";
  const credits = creditsOf(sent);
  const { changes } = changesOf(sent, KEY_FIELDS);
  const request = { apiId: sent.get("apiId") ?? "", ...(prefix !== "" && { prefix }), ...changes };
  const made = await view.ask("keys.createKey", { ...request, ...(credits && { credits }) });
  // A failure from here on would lose the text of the key.
  const key = await readKey(view, made.keyId).catch(() => undefined);
  const warning = key !== undefined && key.state !== "active" && html`It cannot be used yet: ${showState(key)}`;
  return secret(view, "The key is created", made, warning);
}

/** The list, and the forms that find and make a key. */
export const keyListPages: readonly Page[] = [
  { path: "/keys", needs: "keys.searchKeys", isRead: true, show: list, act: search },
  { path: "/keys/find", needs: "keys.whoami", isRead: true, show: showFind, act: find },
  { path: "/keys/new", needs: "keys.createKey", show: showNew, act: create },
];
