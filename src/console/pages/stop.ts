/**
 * Stopping many keys at once: those that were selected in the list, or all of an owner. They are disabled or revoked a
 * hundred at a time, each hundred in one step with one entry of the audit trail.
 */
import { badRequest } from "../../contracts/errors.js";
import type { KeyResponseData } from "../../keyring/schemas/responses.js";
import { count, number, time } from "../../view/format.js";
import { button, form, requireTyped, typedForm } from "../../view/form.js";
import { html, type Html, type Part } from "../../view/html.js";
import { code, link, name, section, table } from "../../view/parts.js";
import type { Content, Done, Page, View } from "../view/view.js";
import { REASON, reasonOf } from "./key-fields.js";
import { keyLink, ownerLink, showState, toOwner } from "./key-parts.js";

/** Keys that are stopped in one step: so many can be selected. */
const MAX_SELECTED = 100;
/** Keys of an owner that are stopped from here; for more there is the command line. */
const MAX_OF_OWNER = 10_000;
/** Rows of the list of what will be stopped. */
const MAX_SHOWN = 1_000;
const PATH = "/keys/stop";
/** Of the form that selects, whose boxes stand in the rows of a list. */
const SELECTION = "ks-stop";

/** The box that selects a key of a list. */
export const selectBox = ({ keyId, name: called, start }: KeyResponseData): Html =>
  html`<input type="checkbox" name="key" value="${keyId}" form="${SELECTION}" aria-label="Select ${called ?? start}">`;

/** The form of these boxes. */
export const selection = (view: View): Html =>
  html`<form id="${SELECTION}" method="get" action="${view.path(PATH)}" class="ks-buttons ks-below">
    <button class="ks-button ks-quiet">Stop the selected keys</button></form>`;

/** The address that stops all keys of an owner. */
export const toStop = (externalId: string): string => `${PATH}?owner=${encodeURIComponent(externalId)}`;

/** Whom the page is about. */
interface Asked {
  /** Absent: those that were selected. */
  readonly owner: string | undefined;
  readonly keys: readonly KeyResponseData[];
}

/** The keys that the address, or the form, names, those of them that there are. */
async function find({ ask, query, form: sent }: View): Promise<Asked> {
  const owner = sent.get("owner") ?? query.get("owner") ?? undefined;
  if (owner !== undefined) return { owner, keys: await keysOf(ask, owner) };
  const given = sent.get("keys")?.split(" ") ?? query.getAll("key");
  const keyIds = [...new Set(given)].filter((id) => id !== "").slice(0, MAX_SELECTED);
  return { owner, keys: keyIds.length === 0 ? [] : (await ask("keys.getKeys", { keyIds })).keys };
}

async function keysOf(ask: View["ask"], externalId: string): Promise<readonly KeyResponseData[]> {
  const found: KeyResponseData[] = [];
  for (let cursor: string | undefined; ;) {
    const request = { externalId, limit: 100, ...(cursor !== undefined && { cursor }) };
    const { data, pagination } = await ask("keys.searchKeys", request);
    found.push(...data);
    cursor = pagination.cursor;
    if (cursor === undefined || found.length > MAX_OF_OWNER) return found;
  }
}

async function show(view: View): Promise<Content> {
  const { owner, keys } = await find(view);
  const [all, some] = [count(keys.length, "key"), keys.filter(({ enabled }) => enabled).length];
  const ofOwner = keys.length === 1 ? `Stop ${owner}'s only key` : `Stop all ${all} of ${owner}`;
  const title = owner === undefined ? `Stop ${all}` : ofOwner;
  const about = owner !== undefined && link(view.path(toOwner(owner)), name(owner));
  if (keys.length === 0) return { title: "Stop keys", about, body: nothing(view) };
  if (owner !== undefined && keys.length > MAX_OF_OWNER) return { title: "Stop all keys", about, body: tooMany(owner) };
  const hidden = {
    count: String(keys.length),
    ...(owner === undefined ? { keys: keys.map(({ keyId }) => keyId).join(" ") } : { owner }),
  };
  const way = (to: string, submit: string) => ({
    to: `${PATH}/${to}`,
    fields: [{ ...REASON, id: `why-${to}` }],
    hidden,
    submit,
    cancel: owner === undefined ? "/keys" : toOwner(owner),
  });
  const rows = keys
    .slice(0, MAX_SHOWN)
    .map((key): Part[] => [keyLink(view, key), showState(key), ownerLink(view, key), time(key.lastUsedAt, view.now)]);
  const shown = keys.length > MAX_SHOWN ? `The first ${number(MAX_SHOWN)} of them` : "Keys";
  // Whatever is done, it is done by the operation that changes many keys.
  const mayChange = view.may("keys.changeKeys");
  return {
    title,
    about,
    body: html`${
      owner !== undefined &&
      view.may("identities.updateIdentity") &&
      html`<p class="ks-lead">Keys that are made for ${name(owner)} later work, unless the owner is disabled. ${link(view.path(`${toOwner(owner)}/disable`), "Disable the owner")} to stop all of its keys, also new ones.</p>`
    }${
      mayChange &&
      section(
        "Disable",
        html`<p class="ks-lead">Their calls are refused from then on. Each can be enabled again. Enabled now: ${number(some)}.</p>${form(view, { ...way("disable", `Disable ${all}`), tone: "danger" })}`,
      )
    }${
      mayChange &&
      view.may("keys.deleteKey") &&
      section(
        "Revoke",
        html`<p class="ks-lead">They cannot be brought back.</p>
        ${typedForm(view, way("revoke", `Revoke ${all}`), "how many keys these are", String(keys.length))}`,
      )
    }${section(shown, table("Keys", ["Key", "State", "Owner", "Last used"], rows, ""))}`,
  };
}

const nothing = (view: View): Html =>
  html`<p class="ks-empty">No key is selected.</p><p class="ks-buttons ks-below">${button(view, "/keys", "Back to the keys")}</p>`;

const tooMany = (owner: string): Html =>
  html`<p class="ks-empty">This owner has more than ${number(MAX_OF_OWNER)} keys. ${code("keystile keys disable --external-id")} stops all of ${name(owner)}.</p>`;

/** Stops the keys that were counted, and no others. */
const stop =
  (done: string, action: "disable" | "delete") =>
  async (view: View): Promise<Done> => {
    const { owner, keys } = await find(view);
    if (view.form.get("count") !== String(keys.length) || keys.length > MAX_OF_OWNER)
      throw badRequest([
        { location: "body", message: `there are ${count(keys.length, "key")} by now; look at them again` },
      ]);
    const ids = keys.map(({ keyId }) => keyId);
    const failed: Part[][] = [];
    for (let start = 0; start < ids.length; start += MAX_SELECTED) {
      const request = { keyIds: ids.slice(start, start + MAX_SELECTED), action, ...reasonOf(view.form) };
      const { data } = await view.ask("keys.changeKeys", request);
      for (const { keyId, outcome } of data)
        if (outcome === "notFound") failed.push([code(keyId), "It is gone, or not yours to change."]);
    }
    const rest = failed.length > 0 && section("Not stopped", table("Not stopped", ["Key", "Why"], failed, ""));
    const went = keys.length - failed.length;
    return {
      title: `${count(went, "key is", "keys are")} ${done}`,
      about: html`Their calls are refused from now on.${owner !== undefined && html` Keys that are made for ${name(owner)} later work, unless the owner is disabled too.`}`,
      body: html`<p class="ks-buttons">${owner === undefined ? button(view, "/keys", "Back to the keys") : button(view, toOwner(owner), "To the owner")}</p>
        ${rest}`,
    };
  };

const disable = stop("disabled", "disable");
const remove = stop("revoked", "delete");

/** The pages that stop many keys. */
export const stopPages: readonly Page[] = [
  { path: PATH, needs: "keys.getKeys", show },
  { path: `${PATH}/disable`, needs: "keys.changeKeys", show, act: disable },
  {
    path: `${PATH}/revoke`,
    needs: "keys.changeKeys",
    show,
    async act(view) {
      requireTyped(view, view.form.get("count") ?? "");
      return remove(view);
    },
  },
];
