/** One key: why it would be refused, what it may, what is left, and what can be done with it. */
import type { KeyResponseData } from "../../keyring/schemas/responses.js";
import { type OperationName, refuseProblems } from "../ask.js";
import { dated, DAY, duration, time, toDate } from "../../view/format.js";
import { button, editForm, form, requireTyped, requireUnchanged, typedForm } from "../../view/form.js";
import { copyField } from "../../view/copy.js";
import { html, type Html, type Part } from "../../view/html.js";
import { chips, code, facts, link, muted, name, section, some, table } from "../../view/parts.js";
import type { Content, Done, Page, View } from "../view/view.js";
import { recent } from "./audit.js";
import { changesOf, filled, KEY_FIELDS, REASON, reasonOf, toNumber } from "./key-fields.js";
import {
  apiOptions,
  balance,
  deletion,
  keyLink,
  limitTable,
  metadata,
  ownerLink,
  readKey,
  showState,
  toKey,
} from "./key-parts.js";
import { type Holder, planPages, planWays, showAccounts } from "./plans.js";
import { findRefusals, lastRefused, refusalsOf } from "./refusals.js";
import { notShown } from "./rights.js";
import { pace, usageOf } from "./usage.js";
import { askedOf, explainAsked, usedLimits, verdict } from "./verdict.js";

/** How long the old key of a rotation stays valid. */
/** Enter in the form takes the first: no typing ends a key that is in use. */
const OVERLAPS = [DAY / 24, DAY, 7 * DAY, 30 * DAY, 0];

/** What of the page needs which operation. */
const PARTS = [
  ["Usage", "analytics.getVerifications"],
  ["History", "audit.listAudit"],
] as const;

async function showKey(view: View, keyId: string): Promise<Content> {
  const key = await readKey(view, keyId, { includeDeleted: true });
  const isDeleted = key.state === "deleted";
  const refused = await findRefusals(view, { keyId }, key.apiId);
  const asked = askedOf(view, key, refused?.last[0]);
  const found = await explainAsked(view, key, asked);
  const apis = new Map(await apiOptions(view));
  return {
    title: key.name ?? `${key.start}…`,
    about: html`${code(key.keyId)} ${showState(key)} ${muted("of")} ${ownerLink(view, key)}`,
    actions: !isDeleted && actionsOf(view, key),
    body: html`${refused && lastRefused(view, refused)}${section("Permissions and roles", await grants(view, key))}
      ${verdict(view, key, found, asked)}${refused && refusalsOf(view, { keyId }, refused)}
      <div class="ks-grid">${section("Key", aboutKey(view, key, apis))}${section("Credits", await credits(view, key))}</div>
      ${await usageOf(view, { keyId: [keyId] }, key.apiId)}${await rotations(view, key)}
      ${section("Rate limits", limits(key, usedLimits(view, found)))}
      ${metadata(key)}${await recent(view, "History", { id: keyId })}${notShown(view, PARTS)}`,
  };
}

function actionsOf(view: View, { keyId, apiId, enabled, rerolledTo }: KeyResponseData): Part {
  const to = toKey(keyId);
  const way = (needs: OperationName, text: string): Part =>
    view.may(needs) && button(view, `${to}/${text.toLowerCase()}`, text);
  const enable = { to: `${to}/enable`, submit: "Enable", tone: "quiet", isInline: true } as const;
  return html`${view.analyticsOf(apiId) && button(view, `${to}/statement`, "Statement")}
    ${way("keys.updateKey", "Edit")}${rerolledTo === undefined && way("keys.rerollKey", "Rotate")}
    ${enabled ? way("keys.updateKey", "Disable") : view.may("keys.updateKey") && form(view, enable)}${way("keys.deleteKey", "Revoke")}`;
}

function aboutKey(view: View, key: KeyResponseData, apis: ReadonlyMap<string, string>): Html {
  const { apiId, start, createdAt, updatedAt, lastUsedAt, expires, ipAllowlist = [] } = key;
  const { now } = view;
  return facts([
    ["Start", code(`${start}…`)],
    ["API", html`${apis.has(apiId) && html`${name(apis.get(apiId) ?? "")} `}${code(apiId)}`],
    ["Expires", dated(expires, now)],
    ["Last used", time(lastUsedAt, now)],
    ["Created", time(createdAt, now)],
    ["Changed", updatedAt !== undefined && time(updatedAt, now)],
    ["Deleted", deletion(key, now)],
    ["Addresses", ipAllowlist.length === 0 ? muted("any") : some(ipAllowlist)],
  ]);
}

/** Keys of a chain that are shown in each direction. */
const MAX_CHAIN = 10;

/** The chain of rotations that a key is part of, oldest first; those that were removed for good are left out. */
async function rotations(view: View, key: KeyResponseData): Promise<Part> {
  if (key.rerolledFrom === undefined && key.rerolledTo === undefined) return undefined;
  const chain = [key];
  for (const way of ["rerolledFrom", "rerolledTo"] as const)
    for (let id = key[way], i = 0; id !== undefined && i < MAX_CHAIN; i++) {
      const [found] = (await view.ask("keys.getKeys", { keyIds: [id], includeDeleted: true })).keys;
      if (found !== undefined && way === "rerolledFrom") chain.unshift(found);
      if (found !== undefined && way === "rerolledTo") chain.push(found);
      id = found?.[way];
    }
  const rows = chain.map((one): Part[] => [
    one.keyId === key.keyId ? html`${code(one.keyId)} ${muted("this key")}` : keyLink(view, one),
    showState(one),
    time(one.createdAt, view.now),
    time(one.expires, view.now),
    time(one.lastUsedAt, view.now),
  ]);
  return section("Rotations", table("Rotations", ["Key", "State", "Created", "Ends", "Last used"], rows, ""));
}

/** Its own credits, and those of its owner that its calls take. */
async function credits(view: View, key: KeyResponseData): Promise<Html> {
  const { ownerCredits, identity } = key;
  const isDrawn = key.creditsFrom === "identity";
  const whose = isDrawn
    ? html`A call takes the credits of its owner, ${ownerLink(view, key)}; the key has none of its own.`
    : html`A call takes from both: from these, and from those of its owner, ${ownerLink(view, key)}. It is refused when
        either has too few.`;
  const owners = html`<p class="ks-lead ks-below">${whose}</p>${ownerCredits && balance(ownerCredits, view.now)}`;
  const none = isDrawn && identity !== undefined ? owners : muted("Unlimited.");
  if (key.state === "deleted") return html`${key.credits === undefined ? none : balance(key.credits, view.now)}`;
  const spent = key.credits !== undefined && facts([["Spent", await pace(view, key)]]);
  const own = html`${await showAccounts(view, toHolder(key), none)}${spent && html`<div class="ks-below">${spent}</div>`}`;
  return key.credits !== undefined && ownerCredits !== undefined ? html`${own}${owners}` : own;
}

const toHolder = ({ keyId, credits }: KeyResponseData): Holder => ({
  ...{ group: "keys", named: { keyId }, to: toKey(keyId), credits },
});

/** Its own limits, and those that it shares with the other keys of its owner. */
function limits({ ratelimits = [], identity }: KeyResponseData, used: ReturnType<typeof usedLimits>): Html {
  const own = ratelimits.map((limit) => ({ ...limit, whose: "this key" }));
  // Of one name, that of the key is checked.
  const others = (identity?.ratelimits ?? []).filter(({ name: called }) => own.every((limit) => limit.name !== called));
  return limitTable([...own, ...others.map((limit) => ({ ...limit, whose: "all keys of the owner" }))], used);
}

/** Its own permissions, and those of each role. */
async function grants(view: View, { permissions = [], roles = [] }: KeyResponseData): Promise<Html> {
  if (!view.may("permissions.getRole"))
    return facts([
      ["Its own", some(permissions)],
      ["Roles", chips(roles.map(name))],
    ]);
  const found = await Promise.all(roles.slice(0, 20).map((role) => view.ask("permissions.getRole", { role })));
  const ofRoles = found.map(({ id, name: called, permissions: all = [] }): [Part, Part] => [
    html`Role ${link(view.path(`/roles/${encodeURIComponent(id)}`), name(called))}`,
    some(all.map(({ slug }) => slug)),
  ]);
  const rest = roles.length > 20 && chips(roles.slice(20).map(name));
  return facts([["Its own", some(permissions)], ...ofRoles, ["Other roles", rest]]);
}

/** A page with one form about a key. */
const formPage =
  (title: string, body: (view: View, key: KeyResponseData) => Html, actions?: (view: View, holder: Holder) => Part) =>
  async (view: View, keyId: string): Promise<Content> => {
    const key = await readKey(view, keyId);
    return { title, about: keyLink(view, key), actions: actions?.(view, toHolder(key)), body: body(view, key) };
  };

const showEdit = (view: View, key: KeyResponseData): Html =>
  editForm(view, { fields: filled(view, KEY_FIELDS, key), submit: "Save", cancel: toKey(key.keyId) });

async function edit(view: View, keyId: string): Promise<Done> {
  const key = await readKey(view, keyId);
  requireUnchanged(view, filled(view, KEY_FIELDS, key));
  const { changes, problems } = changesOf(view.form, KEY_FIELDS, key);
  refuseProblems(problems, "keys.updateKey", { keyId, ...changes });
  if (Object.keys(changes).length > 0) await view.ask("keys.updateKey", { keyId, ...changes, ...reasonOf(view.form) });
  return { to: toKey(keyId), notice: "changed" };
}

function rotateForm(view: View, key: KeyResponseData): Html {
  const { keyId, expires = Infinity, rerolledTo } = key;
  const about = facts([
    ["Id", code(keyId)],
    ["Owner", ownerLink(view, key)],
    ["Expires", expires === Infinity ? muted("never") : toDate(expires)],
  ]);
  if (rerolledTo !== undefined)
    return html`${about}<p class="ks-lead">It was rotated before, and only the newest key of a chain can be. Its
      successor is ${link(view.path(toKey(rerolledTo)), code(rerolledTo))}. If nobody has the text of that one, rotate
      it, and let it end now.</p>`;
  // The old key ends no later than it would anyway.
  const overlaps = new Set(OVERLAPS.map((ms) => Math.max(0, Math.min(expires - view.now, ms))));
  const options = [...overlaps].map((ms) => {
    const end = ms === 0 ? "now" : `in ${duration(ms)}, ${toDate(view.now + ms)}`;
    return [String(ms), `Rotate; the old key ends ${end}`] as const;
  });
  const choice = { name: "expiration", options };
  return html`${about}<p class="ks-lead ks-below">The new key has another id and text, and all else of this one. Both share
    credits and limits while both are valid. If the old one leaked, let it end as soon as its user can do without it.</p>
    <div class="ks-choices">${form(view, { fields: [REASON], submit: "Rotate", choice, tone: "quiet", cancel: toKey(keyId) })}</div>`;
}

async function rotate(view: View, keyId: string): Promise<Done> {
  const expiration = toNumber(view.form.get("expiration") ?? "");
  // Read before: a failure afterwards would lose the text of the new key.
  const old = await readKey(view, keyId);
  const made = await view.ask("keys.rerollKey", { keyId, expiration, ...reasonOf(view.form) });
  const end = toDate(Math.min(old.expires ?? Infinity, view.now + Number(expiration)));
  const ends = expiration === 0 ? "which has ended" : `which ends ${end}`;
  return { ...secret(view, "The new key", made), about: html`It replaces ${keyLink(view, old)}, ${ends}.` };
}

const COPY = { copy: "Copy", copied: "Copied", byHand: "Press Ctrl+C" };
const lineWith = (key: string): string => `curl -H "Authorization: Bearer ${key}" http://localhost:3000/`;

/** The text of a key, in the answer to the form that made it and nowhere else. */
export function secret(
  view: View,
  title: string,
  made: { readonly key: string; readonly keyId: string },
  warning: Html | false = false,
): Content {
  return {
    title,
    body: html`${warning && html`<p class="ks-alert ks-bad" role="alert">${warning}</p>`}<p class="ks-alert ks-warn" role="status">Copy it now: it is shown only this once, and cannot be read again.</p>
      ${copyField("ks-secret", made.key, { ...COPY, label: "Key" })}
      <div class="ks-below">${copyField("ks-line", lineWith(made.key), { ...COPY, label: "To try it, with the address of your program" })}</div>
      <p class="ks-below">${link(view.path(toKey(made.keyId)), "Go to the key")}</p>`,
  };
}

/** What is typed to revoke a key: its owner, or without one its start. */
const confirmation = ({ identity, start }: KeyResponseData): string => identity?.externalId ?? start;

function revokeForm(view: View, key: KeyResponseData): Html {
  const label = "Remove its row too, so that its hash may be imported again";
  const permanent = { name: "permanent", label, type: "checkbox" } as const;
  const shape = { fields: [REASON, permanent], submit: "Revoke", cancel: toKey(key.keyId) };
  const what = key.identity === undefined ? "the start of the key" : "its owner";
  return html`<p class="ks-lead">The key stops working at once, and it cannot be brought back. To stop it for a while,
    disable it.</p>${typedForm(view, shape, what, confirmation(key))}`;
}

async function revoke(view: View, keyId: string): Promise<Done> {
  requireTyped(view, confirmation(await readKey(view, keyId)));
  await view.ask("keys.deleteKey", { keyId, permanent: view.form.has("permanent"), ...reasonOf(view.form) });
  return { to: "/keys", notice: "revoked" };
}

const disableForm = (view: View, { keyId }: KeyResponseData): Html =>
  html`<p class="ks-lead">Its calls are refused from then on, until it is enabled again.</p>${form(view, { fields: [REASON], submit: "Disable", tone: "danger", cancel: toKey(keyId) })}`;

const setEnabled =
  (enabled: boolean) =>
  async (view: View, keyId: string): Promise<Done> => {
    await view.ask("keys.updateKey", { keyId, enabled, ...reasonOf(view.form) });
    return { to: toKey(keyId), notice: enabled ? "enabled" : "disabled" };
  };

/** The pages of one key. */
export const keyPages: readonly Page[] = [
  { path: "/keys/:id", needs: "keys.getKeys", show: showKey },
  { path: "/keys/:id/edit", needs: "keys.updateKey", show: formPage("Edit key", showEdit, planWays), act: edit },
  { path: "/keys/:id/rotate", needs: "keys.rerollKey", show: formPage("Rotate key", rotateForm), act: rotate },
  { path: "/keys/:id/revoke", needs: "keys.deleteKey", show: formPage("Revoke key", revokeForm), act: revoke },
  { path: "/keys/:id/enable", needs: "keys.updateKey", show: showKey, act: setEnabled(true) },
  {
    path: "/keys/:id/disable",
    needs: "keys.updateKey",
    show: formPage("Disable key", disableForm),
    act: setEnabled(false),
  },
  ...planPages("/keys/:id", "keys", showKey, async (view, keyId) => toHolder(await readKey(view, keyId))),
];
