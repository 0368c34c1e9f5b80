/**
 * The list of keys: searched, ordered and filtered, over all APIs that the caller may read; finding a key by
 * its text, which is in no address; and making one.
 */
import type { KeyResponseData } from "../../keyring/schemas/responses.js";
import { time } from "../../view/format.js";
import { button, type Field, form, type Options } from "../../view/form.js";
import { html, type Html, type Part } from "../../view/html.js";
import { asked, type List, listed, searched, searchField } from "../view/lists.js";
import { code, link, name, section } from "../../view/parts.js";
import type { Content, Done, Page, View } from "../view/view.js";
import { selectBox, selection } from "./stop.js";
import { sparks } from "./usage.js";
import { search } from "./search.js";
import { changesOf, creditFields, creditsOf, fieldsOf } from "./key-fields.js";
import { apiField, apiOptions, creditsLeft, keyLink, ownerLink, showState, STATES, toKey } from "./key-parts.js";
import { secret } from "./key.js";

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
const COLUMNS = ["Key", "State", "Owner", "API", { title: "Credits", isNumber: true }, "Expires", "Last used"];

async function list(view: View): Promise<Content> {
  const filters = asked(view, "search", "apiId", "state", "externalId", "order");
  const field = (at: string, label: string, options?: Options): Field => ({
    ...{ name: at, label, value: filters[at] },
    ...(options && { type: "select", options }),
  });
  const fields = [
    searchField(view, "Name, start, id or owner"),
    field("apiId", "API", [["", "All"], ...(await apiOptions(view))]),
    field("state", "State", [["", "Any"], ...STATES]),
    field("externalId", "Owner"),
    field("order", "Order", ORDERS),
  ];
  const maySelect = filters["state"] !== "deleted" && (view.may("keys.updateKey") || view.may("keys.deleteKey"));
  return {
    title: "Keys",
    actions: html`${view.may("keys.whoami") && button(view, "/keys/find", "Find by its text")}
      ${view.may("keys.createKey") && button(view, "/keys/new", "Create key", "primary")}`,
    body: searched(
      view,
      fields,
      await keyList(view, filters, maySelect ? { box: selectBox } : {}),
      html`${maySelect && selection(view)}${await deletedKeys(view, filters)}`,
    ),
  };
}

/** A few deleted keys that hold a text, which is looked for in all that are not: somebody asks why theirs is gone. */
async function deletedKeys(view: View, filters: Readonly<Record<string, string>>): Promise<Part> {
  if (filters["search"] === undefined || filters["state"] !== undefined || view.query.has("cursor")) return undefined;
  const found = await keyList(view, { ...filters, state: "deleted" }, { limit: DELETED });
  const all = new URLSearchParams({ ...filters, state: "deleted" });
  const note = found.pagination.hasMore && link(`${view.path("/keys")}?${all.toString()}`, "All that are deleted");
  return found.rows.length > 0 && section("Deleted keys", listed(view, { ...found, note, pagination: {} }));
}

/** A page of the keys that fit. */
export const keyTable = async (view: View, filters: Readonly<Record<string, string>>): Promise<Html> =>
  listed(view, await keyList(view, filters));

/** How a list differs from one of 50 rows. */
interface ListShape {
  readonly limit?: number;
  /** First in each row: what selects the key. */
  readonly box?: (key: KeyResponseData) => Html;
}

async function keyList(
  view: View,
  filters: Readonly<Record<string, string>>,
  { limit = PAGE, box }: ListShape = {},
): Promise<List> {
  const apis = new Map(await apiOptions(view));
  const request = { ...filters, limit, ...asked(view, "cursor") };
  const { data, pagination } = await view.ask("keys.searchKeys", request);
  const isPart = pagination.hasMore && data.length < limit;
  const used = await sparks(
    view,
    data.map(({ keyId }) => keyId),
  );
  const columns = [...(box ? ["Select"] : []), ...COLUMNS, ...(used ? ["14 days"] : [])];
  const rows = data.map((key): Part[] => [
    ...(box ? [box(key)] : []),
    ...row(view, key, apis),
    ...(used ? [used.get(key.keyId)] : []),
  ]);
  return {
    ...{ title: "Keys", columns, rows, pagination },
    empty: isPart ? "Nothing is found so far." : "No key is found.",
    ...(isPart && { note: "Some keys are not searched yet; the next page goes on." }),
  };
}

function row(view: View, key: KeyResponseData, apis: ReadonlyMap<string, string>): Part[] {
  const { now } = view;
  const called = apis.get(key.apiId);
  const api = called === undefined ? code(key.apiId) : name(called);
  const { expires, lastUsedAt } = key;
  const times = [time(expires, now), time(lastUsedAt, now)];
  return [
    keyLink(view, key),
    showState(key.state, key.rerolledTo),
    ownerLink(view, key),
    api,
    creditsLeft(key),
    ...times,
  ];
}

async function showFind(view: View): Promise<Content> {
  const fields: readonly Field[] = [{ name: "key", label: "The whole key", type: "password", isRequired: true }];
  const about = "Of a key that leaked, or that a customer sent. It is in no address, and kept nowhere.";
  return { title: "Find a key by its text", about, body: form(view, { fields, submit: "Find", cancel: "/keys" }) };
}

async function find(view: View): Promise<Done> {
  const { keyId } = await view.ask("keys.whoami", { key: view.form.get("key") ?? "", includeDeleted: true });
  return { to: toKey(keyId), notice: "found" };
}

async function showNew(view: View): Promise<Content> {
  const first: readonly Field[] = [
    await apiField(view),
    { name: "prefix", label: "Prefix", hint: "Before the random part, such as sk_live." },
  ];
  const fields = [...first, ...fieldsOf(), ...creditFields(UNLIMITED)];
  const body = form(view, { fields, submit: "Create key", cancel: "/keys" });
  const actions = view.may("apis.createApi") && button(view, "/apis/new", "New API");
  return { title: "Create key", about: "Everything but the API may be left out.", actions, body };
}

async function create(view: View): Promise<Done> {
  const { form: sent } = view;
  const prefix = sent.get("prefix") ?? "";
  const credits = creditsOf(sent);
  const { changes } = changesOf(sent);
  const request = { apiId: sent.get("apiId") ?? "", ...(prefix !== "" && { prefix }), ...changes };
  const made = await view.ask("keys.createKey", { ...request, ...(credits && { credits }) });
  return secret(view, "The key is created", made);
}

/** The list, and the forms that find and make a key. */
export const keyListPages: readonly Page[] = [
  { path: "/keys", needs: "keys.searchKeys", isRead: true, show: list, act: search },
  { path: "/keys/find", needs: "keys.whoami", isRead: true, show: showFind, act: find },
  { path: "/keys/new", needs: "keys.createKey", show: showNew, act: create },
];
