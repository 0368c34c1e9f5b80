/** What several pages show of keys and owners. */
import { badRequest, KeystileError } from "../../contracts/errors.js";
import type { KeyRow } from "../../contracts/store.js";
import type { JsonObject, RatelimitResponse } from "../../contracts/types.js";
import { nextBoundary } from "../../credits/refill-calendar.js";
import type { IncludesDeleted } from "../../keyring/schemas/requests.js";
import type { KeyCredits, KeyResponseData } from "../../keyring/schemas/responses.js";
import type { ListedState } from "../../lib/key-state.js";
import { dated, number, time, window } from "../../view/format.js";
import { confirmField, type Field, form, type Options, unconfirmed } from "../../view/form.js";
import { html, type Html, literal, type Part } from "../../view/html.js";
import { badge, bar, code, facts, link, muted, name, section, table } from "../../view/parts.js";
import type { View } from "../view/view.js";
import { REASON, reasonOf, toNumber, toRefill } from "./key-fields.js";

/** The path of a key's page. */
export const toKey = (keyId: string): string => `/keys/${encodeURIComponent(keyId)}`;
/** The path of an owner's page. */
export const toOwner = (externalId: string): string => `/owners/${encodeURIComponent(externalId)}`;

/** A key with all that administration knows of it. @throws (rejects) KeystileError NOT_FOUND */
export async function readKey(view: View, keyId: string, more: IncludesDeleted = {}): Promise<KeyResponseData> {
  const { keys } = await view.ask("keys.getKeys", { keyIds: [keyId], ...more });
  if (keys[0] === undefined) throw new KeystileError("NOT_FOUND", "the key does not exist, or is not yours to see");
  return keys[0];
}

/** Keys by their ids, at most a hundred, deleted ones too; none for whoever may not read them. */
export async function keysById(view: View, ids: readonly string[]): Promise<ReadonlyMap<string, KeyResponseData>> {
  const keyIds = ids.slice(0, 100);
  if (keyIds.length === 0 || !view.may("keys.getKeys")) return new Map();
  const { keys } = await view.ask("keys.getKeys", { keyIds, includeDeleted: true });
  return new Map(keys.map((key) => [key.keyId, key]));
}

/** The APIs that the caller may read, at most a hundred, by id with their names. */
export async function apiOptions(view: View): Promise<Options> {
  if (!view.may("apis.listApis")) return [];
  const { data } = await view.ask("apis.listApis", { limit: 100 });
  return data.map(({ id, name: called }) => [id, called]);
}

/** To choose an API; whoever may create keys of one that it may not read knows its id. */
export async function apiField(view: View): Promise<Field> {
  const options = await apiOptions(view);
  if (options.length === 0) return { name: "apiId", label: "API", hint: "Its id.", isRequired: true };
  return { name: "apiId", label: "API", type: "select", options, value: view.query.get("apiId") ?? "" };
}

/** A state as a badge; a key that was replaced is so also while it may still be used. */
export function showState({
  state,
  rerolledTo,
  disabledBy,
}: Pick<KeyResponseData, "state" | "rerolledTo" | "disabledBy">): Html {
  const [tone, called] = BADGES[rerolledTo !== undefined && state === "active" ? "replaced" : state];
  return badge(tone, disabledBy === undefined ? called : DISABLED[disabledBy]);
}

const DISABLED = { workspace: "Workspace disabled", api: "API disabled", identity: "Owner disabled" } as const;

const BADGES = {
  active: ["good", "Active"],
  replaced: ["warn", "Replaced, still valid"],
  disabled: ["bad", "Disabled"],
  expired: ["bad", "Expired"],
  rotated: ["bad", "Replaced, ended"],
  forbidden: ["bad", "API or owner disabled"],
  exhausted: ["warn", "No credits"],
  deleted: ["bad", "Deleted"],
} as const satisfies Readonly<Record<ListedState, unknown>>;
/** When a key was deleted, and by whom; nothing where that is not known. */
export const deletion = ({ deletedAt, deletedBy }: Pick<KeyRow, "deletedAt" | "deletedBy">, now: number): Part =>
  deletedAt !== undefined && html`${time(deletedAt, now)}${deletedBy !== undefined && html` by ${code(deletedBy)}`}`;

/** What the list of keys can be filtered by. */
export const STATES: Options = Object.entries(BADGES).map(([state, [, called]]) => [state, called]);

/** The name of a key and below it its start, or the start alone. */
export function keyLink(view: View, { keyId, name: called, start }: KeyResponseData): Html {
  const to = view.path(toKey(keyId));
  const shown = code(`${start.replace(/\.{3}$/, "")}…`);
  return called === undefined ? link(to, shown) : html`${link(to, name(called))}<br> ${muted(shown)}`;
}

export const ownerLink = (view: View, { identity }: KeyResponseData): Part =>
  identity === undefined ? muted("none") : link(view.path(toOwner(identity.externalId)), name(identity.externalId));

/** What can be spent, in a table: of its own credits and those of its owner the least, each with its grants. */
export function creditsLeft({ credits, ownerCredits }: KeyResponseData): Part {
  const [own, owners] = [spendable(credits), spendable(ownerCredits)];
  if (owners < own) return html`${number(owners)} ${muted("owner's")}`;
  return own === Infinity ? muted("unlimited") : number(own);
}

const spendable = ({ remaining, granted = 0 }: Partial<KeyCredits> = {}): number =>
  typeof remaining === "number" ? remaining + granted : Infinity;

const LIMIT_COLUMNS = ["Name", "Limit", "Checked", "Counts calls of", "Left now"];

/** Limits and whose calls they count. @param used how far, by their ids */
export function limitTable(
  limits: readonly (RatelimitResponse & { readonly whose: string })[],
  used: ReadonlyMap<string, { readonly remaining: number }>,
): Html {
  const rows = limits.map(({ id, name: called, limit, duration, autoApply, whose }): Part[] => {
    const left = used.get(id)?.remaining;
    const shown =
      left === undefined ? muted("not available in this console") : bar(left, limit, `${number(left)} left`);
    const checked = autoApply ? "every call" : "where asked for";
    return [name(called), `${number(limit)} per ${window(duration)}`, checked, whose, shown];
  });
  return table("Rate limits", LIMIT_COLUMNS, rows, "No rate limits.");
}

/** A balance: what is left, and what the next refill makes of it. */
export function balance({ remaining, refill, reserved, granted, invalid }: KeyCredits, now: number): Html {
  const stays = Math.min(remaining ?? 0, refill?.rollover ?? Infinity);
  const next =
    refill !== undefined &&
    html`${number(stays + refill.amount)} ${dated(nextBoundary(refill, now), now)}, if nothing is spent until then`;
  return facts([
    ["Left", remaining === null ? muted("unlimited") : html`<strong>${number(remaining)}</strong>`],
    ["Set aside", reserved !== undefined && `${number(reserved)} by verifiers that lease`],
    ["Refill", refill === undefined ? muted("none") : toRefill(refill)],
    ["Balance then", remaining !== null && next],
    ["Grants", granted !== undefined && `${number(granted)} left of them`],
    ["Problem", invalid === true && "Its credits do not add up. Set them anew."],
  ]);
}

const UNLIMITED = "unlimited";
/** What can be done with a balance. */
const CHANGES: Options = [
  ["increment", "Add"],
  ["decrement", "Take away"],
  ["set", "Set to"],
  [UNLIMITED, "No limit"],
];

/** A form that changes the balance of a key or an owner. @param to the page of that key or owner */
export function creditForm(view: View, to: string): Html {
  const fields: readonly Field[] = [
    { name: "operation", label: "Change the balance", type: "select", options: CHANGES },
    { name: "value", label: "Credits", type: "number" },
    { name: REASON.name, label: REASON.label },
    ...confirmField(view),
  ];
  const change = form(view, { to: `${to}/credits`, fields, submit: "Change", tone: "quiet", isInline: true });
  return html`<div class="ks-below">${change}</div>`;
}

/** What that form asks for. @throws KeystileError BAD_REQUEST: no limit, without the tick */
export function creditChange({ form: sent }: View): object {
  const operation = sent.get("operation");
  const reason = reasonOf(sent);
  if (operation !== UNLIMITED) return { operation, value: toNumber(sent.get("value") ?? ""), ...reason };
  const problems = unconfirmed(sent, "confirm", "the limit and the refill");
  if (problems.length > 0) throw badRequest(problems);
  return { operation: "set", value: null, ...reason };
}

/** Free-form data as JSON. */
export function metadata({ meta }: { readonly meta?: JsonObject }): Part {
  if (meta === undefined) return undefined;
  const lines = JSON.stringify(meta, null, 2).split("\n");
  const shown = lines.map((line) => html`<bdi>${line}</bdi>${literal("\n")}`);
  return section("Metadata", html`<pre class="ks-pre" tabindex="0" aria-label="Metadata">${shown}</pre>`);
}
