/** Owners: identities, what they share, and their keys. */
import type { Identity } from "../../contracts/types.js";
import type { IdentityData } from "../../keyring/schemas/responses.js";
import { ifAble, refuseProblems } from "../ask.js";
import { button, editForm, type Field, form, requireTyped, requireUnchanged, typedForm } from "../../view/form.js";
import { html, type Html } from "../../view/html.js";
import { asked, searched, searchField } from "../view/lists.js";
import { dated } from "../../view/format.js";
import { code, facts, link, muted, name, section } from "../../view/parts.js";
import type { Content, Done, Page, View } from "../view/view.js";
import { search } from "./search.js";
import { changesOf, creditFields, creditsOf, filled, OWNER_FIELDS, REASON, reasonOf } from "./key-fields.js";
import { limitTable, metadata, toOwner } from "./key-parts.js";
import { ownerList, ownerState } from "./owner-list.js";
import { type Holder, planPages, planWays, showAccounts } from "./plans.js";
import { keyTable } from "./keys.js";
import { notShown } from "./rights.js";
import { findRefusals, refusalsOf } from "./refusals.js";
import { toStop } from "./stop.js";
import { burnDownOf, ownerUsage, refusedKeys } from "./usage.js";
import { explainAsked, usedLimits } from "./verdict.js";

/** What an empty balance of a new owner means. */
const NONE = "Empty: none that its keys share.";
const NOT_SHARED = "None: each of its keys has credits of its own, or is unlimited.";

async function list(view: View): Promise<Content> {
  const request = { limit: 50, details: true, ...asked(view, "search", "cursor") };
  const { data, pagination } = await view.ask("identities.listIdentities", request);
  return {
    title: "Owners",
    about: "The customers who own keys. The keys of an owner share limits and credits.",
    actions: view.may("identities.createIdentity") && button(view, "/owners/new", "New owner", "primary"),
    body: searched(view, [searchField(view, "Id or external id")], { ...(await ownerList(view, data)), pagination }),
  };
}

async function show(view: View, externalId: string): Promise<Content> {
  const owner = await view.ask("identities.getIdentity", { identity: externalId });
  const to = toOwner(owner.externalId);
  const enable = { to: `${to}/enable`, submit: "Enable", tone: "quiet", isInline: true } as const;
  const toggle =
    owner.enabled === false ? form(view, enable) : button(view, `${to}/disable`, "Disable the owner and all keys");
  const keys = view.may("keys.searchKeys") && (await ifAble(keyTable(view, { externalId: owner.externalId })));
  const shared = (owner.ratelimits ?? []).map((limit) => ({ ...limit, whose: "all its keys" }));
  const limits = limitTable(shared, await used(view, owner));
  const of = { externalId: owner.externalId };
  const refused = await findRefusals(view, of);
  return {
    title: owner.externalId,
    about: code(owner.id),
    actions: html`${view.analyticsOf() && button(view, `${to}/statement`, "Statement")}
      ${keys && view.may("keys.changeKeys") && button(view, toStop(owner.externalId), "Stop only the keys it has now")}
      ${view.may("identities.updateIdentity") && html`${button(view, `${to}/edit`, "Edit")} ${toggle}`}`,
    body: html`${facts([
      ["State", ownerState(view, owner)],
      ["Expires", dated(owner.expires, view.now)],
    ])}${refused && refusalsOf(view, of, refused, await refusedKeys(view, owner.externalId, refused.hours[0]?.time))}
      ${keys && section("Keys", keys)}
      ${section("Shared credits", await showAccounts(view, toHolder(owner), muted(NOT_SHARED)))}
      ${await burnDownOf(view, owner.externalId, owner.credits !== undefined)}${await ownerUsage(view, owner.externalId)}
      ${section("Shared limits", limits)}${metadata(owner)}${notShown(view, PARTS)}`,
  };
}

/** What of the page of an owner needs which operation. */
const PARTS = [
  ["Usage", "analytics.getVerifications"],
  ["Keys", "keys.searchKeys"],
] as const;

const toHolder = ({ externalId, credits }: IdentityData): Holder => ({
  ...{ group: "identities", named: { identity: externalId }, to: toOwner(externalId), credits },
});

/** How far shared limits are used, as a verification of one of the keys finds them. */
async function used(view: View, { externalId, ratelimits = [] }: Identity): Promise<ReturnType<typeof usedLimits>> {
  if (ratelimits.length === 0 || !view.seesLimits || !view.may("keys.searchKeys")) return new Map();
  const found = await ifAble(view.ask("keys.searchKeys", { externalId, limit: 20 }));
  // A limit of its own takes the place of a shared one.
  const key = found?.data.find((one) => one.ratelimits === undefined);
  return key === undefined ? new Map() : usedLimits(view, await explainAsked(view, key));
}

async function showNew(view: View): Promise<Content> {
  const hint = "Your own id of the customer.";
  const id: Field = { name: "externalId", label: "External id", hint, isRequired: true };
  const fields = [id, ...OWNER_FIELDS.map(({ field }) => field), ...creditFields(NONE)];
  return { title: "New owner", body: form(view, { fields, submit: "Create", cancel: "/owners" }) };
}

async function create(view: View): Promise<Done> {
  const externalId = view.form.get("externalId") ?? "";
  const credits = creditsOf(view.form);
  const { changes } = changesOf(view.form, OWNER_FIELDS);
  await view.ask("identities.createIdentity", { externalId, ...changes, ...(credits && { credits }) });
  return { to: toOwner(externalId), notice: "created" };
}

async function showEdit(view: View, externalId: string): Promise<Content> {
  const to = toOwner(externalId);
  const owner = await view.ask("identities.getIdentity", { identity: externalId });
  const fields = filled(view, OWNER_FIELDS, owner);
  return {
    title: "Edit owner",
    about: link(view.path(to), name(externalId)),
    actions: planWays(view, toHolder(owner)),
    body: html`${editForm(view, { to: `${to}/edit`, fields, submit: "Save", cancel: to })}
      ${view.may("identities.deleteIdentity") && deletion(view, externalId)}`,
  };
}

const deletion = (view: View, externalId: string): Html =>
  section(
    "Delete",
    html`<p class="ks-lead">All its keys are disabled, those with credits of their own too, and stay without an owner.</p>
    ${typedForm(view, { to: `${toOwner(externalId)}/delete`, fields: [{ ...REASON, id: "why" }], submit: "Delete" }, "its external id", externalId)}`,
  );

async function edit(view: View, externalId: string): Promise<Done> {
  const owner = await view.ask("identities.getIdentity", { identity: externalId });
  requireUnchanged(view, filled(view, OWNER_FIELDS, owner));
  const { changes, problems } = changesOf(view.form, OWNER_FIELDS, owner);
  const body = { identity: externalId, ...changes };
  refuseProblems(problems, "identities.updateIdentity", body);
  if (Object.keys(changes).length > 0) await view.ask("identities.updateIdentity", { ...body, ...reasonOf(view.form) });
  return { to: toOwner(externalId), notice: "changed" };
}

const showDisable = async (view: View, externalId: string): Promise<Content> => {
  const to = toOwner(externalId);
  const body = html`<p class="ks-lead">Every key of ${name(externalId)}, also those that are made later, is refused at once.
    You can enable the owner again. To stop or revoke its keys alone, ${link(view.path(toStop(externalId)), "stop its keys")}.</p>
    ${form(view, { fields: [REASON], submit: `Disable ${externalId}`, tone: "danger", cancel: to })}`;
  return { title: `Disable ${externalId}?`, about: link(view.path(to), name(externalId)), body };
};

const setEnabled =
  (enabled: boolean) =>
  async (view: View, externalId: string): Promise<Done> => {
    await view.ask("identities.updateIdentity", { identity: externalId, enabled, ...reasonOf(view.form) });
    return { to: toOwner(externalId), notice: enabled ? "enabled" : "ownerDisabled" };
  };

async function remove(view: View, externalId: string): Promise<Done> {
  requireTyped(view, externalId);
  await view.ask("identities.deleteIdentity", { identity: externalId, keys: "disable", ...reasonOf(view.form) });
  return { to: "/owners", notice: "deleted" };
}

/** The pages of owners. */
export const ownerPages: readonly Page[] = [
  { path: "/owners", needs: "identities.listIdentities", isRead: true, show: list, act: search },
  { path: "/owners/new", needs: "identities.createIdentity", show: showNew, act: create },
  { path: "/owners/:id", needs: "identities.getIdentity", show },
  { path: "/owners/:id/edit", needs: "identities.updateIdentity", show: showEdit, act: edit },
  { path: "/owners/:id/enable", needs: "identities.updateIdentity", show, act: setEnabled(true) },
  { path: "/owners/:id/disable", needs: "identities.updateIdentity", show: showDisable, act: setEnabled(false) },
  ...planPages("/owners/:id", "identities", show, async (view, externalId) =>
    toHolder(await view.ask("identities.getIdentity", { identity: externalId })),
  ),
  { path: "/owners/:id/delete", needs: "identities.deleteIdentity", show: showEdit, act: remove },
];
