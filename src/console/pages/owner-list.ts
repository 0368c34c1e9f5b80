/** Owners in lists: that of all, and those that a search for keys finds beside them. */
import type { IdentityData } from "../../keyring/schemas/responses.js";
import { keyState } from "../../lib/key-state.js";
import { html, type Html, type Part } from "../../view/html.js";
import { code, link, muted, name, section } from "../../view/parts.js";
import { ifThere } from "../ask.js";
import { type List, listed } from "../view/lists.js";
import type { View } from "../view/view.js";
import { showState, toOwner } from "./key-parts.js";

/** Owners that a search for keys shows, and milliseconds for which it looks for them. */
const MOST = 5;
const PATIENCE = 60;

type Owner = Omit<IdentityData, "credits">;

/** As that of a key: whether its keys may be used. */
export const ownerState = ({ now }: View, owner: Owner): Html =>
  showState({ state: keyState({ ...owner, enabled: owner.enabled !== false }, now) });

/** A list of owners. */
export function ownerList(view: View, owners: readonly Owner[]): List {
  const rows = owners.map((owner): Part[] => [
    link(view.path(toOwner(owner.externalId)), name(owner.externalId)),
    ownerState(view, owner),
    (owner.ratelimits ?? []).map(({ name: called }) => called).join(", ") || muted("none"),
    code(owner.id),
  ]);
  const columns = ["Owner", "State", "Shared limits", "Id"];
  return { title: "Owners", columns, rows, empty: "No owner is found.", pagination: {} };
}

/**
 * The first owners that hold the text which is looked for in keys, and the one of this very name: no index has parts of
 * names, so that of very many owners some may be found on their own page alone.
 */
export async function ownersFound(view: View, { search, externalId }: Readonly<Record<string, string>>): Promise<Part> {
  const isAsked = search !== undefined && externalId === undefined && !view.query.has("cursor");
  if (!isAsked || !view.may("identities.listIdentities")) return undefined;
  const until = performance.now() + PATIENCE;
  const { data, pagination } = await view.ask("identities.listIdentities", { search, limit: MOST }, { until });
  const exact = view.may("identities.getIdentity")
    ? await ifThere(view.ask("identities.getIdentity", { identity: search }))
    : undefined;
  const others = data.filter(({ id }) => id !== exact?.id);
  const found = exact === undefined ? others : [exact, ...others];
  const all = html`${link(`${view.path("/owners")}?${new URLSearchParams({ search }).toString()}`, "All owners that hold it")}`;
  if (found.length === 0 && performance.now() < until) return undefined;
  const isMore = pagination.hasMore || performance.now() >= until;
  return section("Owners", listed(view, ownerList(view, found)), isMore && all);
}
