/** Owners in lists: that of all, and those that a search for keys finds beside them. */
import type { IdentityData, KeyCredits, ListedIdentity } from "../../keyring/schemas/responses.js";
import { keyState } from "../../lib/key-state.js";
import { html, type Html, type Part } from "../../view/html.js";
import { number } from "../../view/format.js";
import { bar, link, muted, name, section } from "../../view/parts.js";
import { ifThere } from "../ask.js";
import { type List, listed } from "../view/lists.js";
import type { View } from "../view/view.js";
import { showState, toOwner } from "./key-parts.js";
import { callsOf } from "./usage.js";

/** Owners that a search for keys shows, and milliseconds for which it looks for them. */
const MOST = 5;
const PATIENCE = 60;

/** As that of a key: whether its keys may be used. */
export const ownerState = ({ now }: View, owner: Omit<IdentityData, "credits">): Html =>
  showState({ state: keyState({ ...owner, enabled: owner.enabled !== false }, now) });

/** A list of owners, with how many keys they have, how often those were used, and what is left. */
export async function ownerList(view: View, owners: readonly ListedIdentity[]): Promise<List> {
  const externalIds = owners.map(({ externalId }) => externalId);
  const calls = await callsOf(view, externalIds);
  const rows = owners.map((owner): Part[] => {
    const { externalId, credits, keyCount, hasMoreKeys = false, ratelimits = [] } = owner;
    return [
      link(view.path(toOwner(externalId)), name(externalId)),
      ownerState(view, owner),
      keyCount === undefined ? muted("not counted") : `${number(keyCount)}${hasMoreKeys ? "+" : ""}`,
      ...(calls ? [number(calls.get(externalId) ?? 0)] : []),
      left(credits),
      ratelimits.map(({ name: called }) => called).join(", ") || muted("none"),
    ];
  });
  const counts = ["Keys", ...(calls ? ["Calls in 30 days"] : [])].map((title) => ({ title, isNumber: true }));
  const columns = ["Owner", "State", ...counts, "Credits left", "Shared limits"];
  return { title: "Owners", columns, rows, empty: "No owner is found.", pagination: {} };
}

/** What is left of the plan, and of grants beside it. */
function left({ remaining = null, refill, granted = 0 }: Partial<KeyCredits> = {}): Part {
  if (remaining === null) return muted("no plan");
  const text = refill === undefined ? number(remaining) : `${number(remaining)} of ${number(refill.amount)}`;
  const balance = refill === undefined ? text : bar(remaining, refill.amount, text);
  return granted === 0 ? balance : html`${balance} ${muted(`and ${number(granted)} granted`)}`;
}

/**
 * The first owners that hold the text which is looked for in keys, and the one of this very name: no index has parts of
 * names, so that of very many owners some may be found on their own page alone.
 */
export async function ownersFound(view: View, { search, externalId }: Readonly<Record<string, string>>): Promise<Part> {
  const isAsked = search !== undefined && externalId === undefined && !view.query.has("cursor");
  if (!isAsked || !view.may("identities.listIdentities")) return undefined;
  const until = performance.now() + PATIENCE;
  const request = { search, limit: MOST, details: true };
  const { data, pagination } = await view.ask("identities.listIdentities", request, { until });
  const exact = view.may("identities.getIdentity")
    ? await ifThere(view.ask("identities.getIdentity", { identity: search }))
    : undefined;
  // Its keys are counted where the list has it.
  const first = data.find(({ id }) => id === exact?.id) ?? exact;
  const found = first === undefined ? data : [first, ...data.filter((one) => one !== first)];
  const all = link(`${view.path("/owners")}?${new URLSearchParams({ search }).toString()}`, "All owners that hold it");
  if (found.length === 0 && performance.now() < until) return undefined;
  const isMore = pagination.hasMore || performance.now() >= until;
  return section("Owners", listed(view, await ownerList(view, found)), isMore && all);
}
