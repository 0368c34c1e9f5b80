/** Steps that read: one key whole, all keys of an API page by page. */
import type { KeyCreditsData } from "../../src/contracts/types.js";
import type { DisabledParent, KeyState } from "../../src/lib/key-state.js";
import type { KeyResponseData } from "../../src/keyring/schemas/responses.js";
import { chosen } from "./key-rolls.js";
import { createKey } from "./key-steps.js";
import { balanceAt, leastAt, type ModelCredits } from "./naive-credits.js";
import { showIdentity, showLimits } from "./naive-verify.js";
import { learnId, learnLimits, refused, same, show, type Stage } from "./stage.js";
import { digestOf, drawnOn, type ModelKey, named, ownerOf, sourceOf } from "./world.js";

/** What administration shows of a key, whole. */
export async function readKey(stage: Stage): Promise<void> {
  const { world, dice } = stage;
  const target = chosen(stage);
  if (target === undefined) return createKey(stage);
  const { key, keyring, absent } = target;
  const byText = key.text !== undefined && key.digest === digestOf(key.text) && dice.chance(0.4);
  stage.note("readKey", key.id, byText);
  const call = byText ? keyring.whoami({ key: key.text! }) : keyring.getKey({ keyId: key.id });
  if (absent) return refused("readKey", call, "NOT_FOUND");
  const { start, createdAt, updatedAt, rerolledFrom, rerolledTo, lastUsedAt = 0, accounts, ...shown } = await call;
  if (!Number.isSafeInteger(createdAt) || (key.text !== undefined && start !== "..." && !key.text.startsWith(start))) {
    throw new Error(`readKey: ${show({ start, createdAt, updatedAt })}`);
  }
  same(
    "readKey: accounts",
    accounts?.map(({ remaining }) => remaining),
    sourceOf(key) === "both" ? drawnOn(key).map((one) => Number(balanceAt(one, world.now))) : undefined,
  );
  // Of a chain with keys that are gone the model knows no more than this; the minute is written in the background.
  same("readKey: links of no successor", rerolledFrom !== undefined && key.account === key.id, false);
  for (const link of [rerolledFrom, rerolledTo])
    same("readKey: links", link === undefined || world.ids.has(link), true);
  // The clock of a history may step back behind the use.
  same("readKey: lastUsedAt is a minute", lastUsedAt % 60_000, 0);
  learnLimits(world, key.limits, shown.ratelimits);
  const identity = key.identity?.deleted === false ? key.identity : undefined;
  if (identity !== undefined) {
    identity.id ??= shown.identity && learnId(world, shown.identity.id, /^id_\w{6,}$/);
    learnLimits(world, identity.limits, shown.identity?.ratelimits);
  }
  const permissions = slugsOf(key);
  const roles = rolesOf(key);
  const owner = ownerOf(key);
  const state = stateOf(key, world.now, rerolledTo !== undefined);
  const due: Omit<KeyResponseData, "start" | "createdAt"> = {
    keyId: key.id,
    apiId: key.api.id,
    state,
    ...(state === "forbidden" && { disabledBy: disabledParent(key) }),
    creditsFrom: sourceOf(key),
    enabled: key.enabled,
    ...(key.name !== undefined && { name: key.name }),
    ...(key.meta !== undefined && { meta: key.meta }),
    ...(key.expires !== undefined && { expires: key.expires }),
    ...(permissions.length > 0 && { permissions }),
    ...(roles.length > 0 && { roles }),
    ...((key.credits.remaining !== null || key.credits.refill !== undefined) && {
      credits: showCredits(key.credits, world.now),
    }),
    ...(owner !== undefined && { ownerCredits: showCredits(owner[0], world.now) }),
    ...(identity !== undefined && { identity: showIdentity(identity) }),
    ...(key.limits.length > 0 && { ratelimits: showLimits(key.limits) }),
    ...(key.allowlist.length > 0 && { ipAllowlist: key.allowlist }),
  };
  same("readKey", shown, due);
}

function disabledParent({ api }: ModelKey): DisabledParent {
  if (!api.workspace.enabled) return "workspace";
  return api.enabled ? "identity" : "api";
}

/** What `verify` of the model would say of a key that is there, in the words of administration. */
function stateOf(key: ModelKey, now: number, isReplaced: boolean): KeyState {
  if (!key.enabled) return "disabled";
  if (key.expires !== undefined && now > key.expires) return isReplaced ? "rotated" : "expired";
  const owner = key.identity?.deleted === false ? key.identity : undefined;
  if (owner?.expires !== undefined && now > owner.expires) return "expired";
  if (!key.api.enabled || !key.api.workspace.enabled || owner?.enabled === false) return "forbidden";
  return leastAt(drawnOn(key), now) === 0n ? "exhausted" : "active";
}

/** All keys of an API, page by page. */
export async function listKeys(stage: Stage): Promise<void> {
  const { world, dice, hand } = stage;
  const workspace = dice.pick(world.workspaces);
  const api = dice.pick(workspace.apis);
  const keyring = hand.keyrings.get(workspace)!;
  const user = named(workspace.identities, () => dice.chance(0.3));
  const query = { apiId: api.id, limit: 1 + dice.below(4), ...(user !== undefined && { externalId: user.externalId }) };
  stage.note("listKeys", query);
  if (api.deleted) return refused("listKeys", keyring.listKeys(query), "NOT_FOUND");
  const ids: string[] = [];
  for (let cursor: string | undefined; ;) {
    const page = await keyring.listKeys({ ...query, ...(cursor !== undefined && { cursor }) });
    ids.push(...page.data.map(({ keyId }) => keyId));
    cursor = page.pagination.cursor;
    same("listKeys: hasMore", page.pagination.hasMore, cursor !== undefined);
    if (cursor === undefined) break;
  }
  const due = world.keys.filter(
    (key) => key.api === api && !key.deleted && (user === undefined || key.identity === user),
  );
  same("listKeys", ids, due.map(({ id }) => id).sort());
}

export function showCredits(credits: ModelCredits, now: number): KeyCreditsData {
  const balance = balanceAt(credits, now);
  const remaining = balance === null ? null : Number(balance);
  return credits.refill === undefined ? { remaining } : { remaining, refill: credits.refill };
}

export function slugsOf(key: ModelKey): string[] {
  return [...key.permissions]
    .filter((row) => !row.deleted)
    .map(({ slug }) => slug)
    .sort();
}

export function rolesOf(key: ModelKey): string[] {
  return [...key.roles]
    .filter((row) => !row.deleted)
    .map(({ name }) => name)
    .sort();
}
