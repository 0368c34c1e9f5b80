/** Steps that administer what keys refer to: APIs, permissions, roles, identities, the workspace itself. */
import type { RatelimitRequest } from "../../src/contracts/types.js";
import type { Dice } from "./dice.js";
import type { Keyring } from "../../src/keyring/keyring.js";
import type { UpdateIdentityCreditsRequestBody } from "../../src/keyring/schemas/requests.js";
import { rollCredits, rollExpires, rollWish } from "./key-rolls.js";
import { add, set } from "./naive-credits.js";
import { showIdentity, showLimits } from "./naive-verify.js";
import { showCredits } from "./read-steps.js";
import { learnId, learnLimits, refused, same, type Stage } from "./stage.js";
import { GRANTS, METAS, NAMES, rollAllowlist, rollLimits, rollRemaining, ROLES, USERS } from "./vocabulary.js";
import {
  type ModelIdentity,
  type ModelLimit,
  type ModelPermission,
  type ModelRole,
  type ModelWorkspace,
  isHidden,
  named,
  ownerOf,
  type World,
} from "./world.js";

/** Mostly roles that exist in most histories, now and then one that never does. */
export const rollRoles = (dice: Dice): string[] => dice.some([...ROLES, "nobody"], 0.2);

/** `undefined`: one of them does not exist. */
export function existingRoles(workspace: ModelWorkspace, names: readonly string[]): ModelRole[] | undefined {
  const rows = names.map((name) => named(workspace.roles, (role) => role.name === name));
  return rows.includes(undefined) ? undefined : (rows as ModelRole[]);
}

/** The same of permissions. */
export function existingPermissions(
  workspace: ModelWorkspace,
  slugs: readonly string[],
): ModelPermission[] | undefined {
  const rows = slugs.map((slug) => named(workspace.permissions, (permission) => permission.slug === slug));
  return rows.includes(undefined) ? undefined : (rows as ModelPermission[]);
}

export function ensurePermissions(workspace: ModelWorkspace, slugs: readonly string[]): ModelPermission[] {
  return slugs.map((slug) => {
    const found = named(workspace.permissions, (permission) => permission.slug === slug);
    if (found !== undefined) return found;
    const made = { slug, deleted: false };
    workspace.permissions.push(made);
    return made;
  });
}

export function ensureIdentity(world: World, workspace: ModelWorkspace, externalId: string): ModelIdentity {
  const found = named(workspace.identities, (identity) => identity.externalId === externalId);
  if (found !== undefined) return found;
  const owner = `${workspace.id} identity ${workspace.identities.length} of ${world.now}`;
  const credits = { remaining: null, refill: undefined, counted: 0 };
  const made: ModelIdentity = {
    ...{ id: undefined, externalId, meta: undefined, limits: [], owner, deleted: false },
    ...{ enabled: true, expires: undefined },
    ...{ credits, since: 0 },
  };
  workspace.identities.push(made);
  return made;
}

/** A limit whose name stays keeps its id. */
export function toLimits(given: readonly RatelimitRequest[], before: readonly ModelLimit[] = []): ModelLimit[] {
  return given.map(({ name, limit, duration, autoApply = false }) => ({
    id: before.find((one) => one.name === name)?.id,
    name,
    limit,
    duration,
    autoApply,
  }));
}

function place({ world, dice, hand }: Stage) {
  const workspace = dice.chance(0.75) ? world.workspaces[0] : world.workspaces[1];
  return { workspace, keyring: hand.keyrings.get(workspace)! };
}

export async function createApi(stage: Stage, workspace: ModelWorkspace = place(stage).workspace): Promise<void> {
  stage.note("createApi", workspace.id);
  const { apiId } = await stage.hand.keyrings
    .get(workspace)!
    .createApi({ name: stage.dice.pick(["docs", "billing", "ф-3"]) });
  workspace.apis.push({
    id: learnId(stage.world, apiId, /^api_\w{8,}$/),
    workspace,
    enabled: true,
    allowlist: [],
    deleted: false,
  });
}

export async function changeApi(stage: Stage): Promise<void> {
  const { dice, world } = stage;
  const { workspace, keyring } = place(stage);
  const api = dice.pick(dice.chance(0.95) ? workspace.apis : world.workspaces.flatMap(({ apis }) => apis));
  const absent = api.deleted || api.workspace !== workspace;
  if (dice.chance(0.05)) {
    stage.note("deleteApi", api.id);
    if (absent) return refused("deleteApi", keyring.deleteApi({ apiId: api.id }), "NOT_FOUND");
    same("deleteApi", await keyring.deleteApi({ apiId: api.id }), {});
    api.deleted = true;
    return createApi(stage, workspace);
  }
  // Off for a while only: refusals that all look alike test little.
  const body = {
    apiId: api.id,
    ...(dice.chance(0.7) && { enabled: !api.enabled || dice.chance(0.8) }),
    ...(dice.chance(0.4) && { ipAllowlist: dice.chance(0.85) ? null : rollAllowlist(dice) }),
  };
  stage.note("updateApi", body);
  if (absent) return refused("updateApi", keyring.updateApi(body), "NOT_FOUND");
  same("updateApi", await keyring.updateApi(body), {});
  if (body.enabled !== undefined) api.enabled = body.enabled;
  if (body.ipAllowlist !== undefined) api.allowlist = body.ipAllowlist ?? [];
  const shown = await keyring.getApi({ apiId: api.id });
  same(
    "getApi",
    { enabled: shown.enabled, ipAllowlist: shown.ipAllowlist },
    { enabled: api.enabled, ipAllowlist: api.allowlist },
  );
}

export async function changeWorkspace(stage: Stage): Promise<void> {
  const { workspace, keyring } = place(stage);
  const enabled = !workspace.enabled || stage.dice.chance(0.8);
  stage.note("updateWorkspace", workspace.id, enabled);
  same("updateWorkspace", await keyring.updateWorkspace({ enabled }), {});
  workspace.enabled = enabled;
  same("getWorkspace", await keyring.getWorkspace(), { id: workspace.id, enabled });
}

export async function changePermission(stage: Stage): Promise<void> {
  const { dice, world } = stage;
  const { workspace, keyring } = place(stage);
  const slug = dice.pick(GRANTS);
  const row = named(workspace.permissions, (permission) => permission.slug === slug);
  if (dice.chance(0.5)) {
    stage.note("createPermission", slug);
    const call = keyring.createPermission({ name: dice.pick(NAMES), slug });
    if (row !== undefined) return refused("createPermission", call, "CONFLICT");
    learnId(world, (await call).permissionId, /^perm_\w{6,}$/);
    workspace.permissions.push({ slug, deleted: false });
    return;
  }
  stage.note("deletePermission", slug);
  const call = keyring.deletePermission({ permission: slug });
  if (row === undefined) return refused("deletePermission", call, "NOT_FOUND");
  same("deletePermission", await call, {});
  row.deleted = true;
}

export async function changeRole(stage: Stage): Promise<void> {
  const { dice, world } = stage;
  const { workspace, keyring } = place(stage);
  const name = dice.pick(ROLES);
  const row = named(workspace.roles, (role) => role.name === name);
  const slugs = dice.some(GRANTS, 0.25);
  const kind = dice.below(10);
  if (row === undefined || kind === 0) {
    stage.note("createRole", name, slugs);
    const call = keyring.createRole({ name, permissions: slugs });
    if (row !== undefined) {
      // A role that is refused makes no permission either.
      return refused("createRole", call, "CONFLICT");
    }
    const id = learnId(world, (await call).roleId, /^role_\w{6,}$/);
    workspace.roles.push({ id, name, permissions: new Set(ensurePermissions(workspace, slugs)), deleted: false });
    return;
  }
  if (kind < 3) {
    stage.note("deleteRole", name);
    same("deleteRole", await keyring.deleteRole({ role: name }), {});
    row.deleted = true;
    return;
  }
  stage.note("setRolePermissions", name, slugs);
  const answer = await keyring.setRolePermissions({ roleId: row.id, permissions: slugs });
  row.permissions = new Set(ensurePermissions(workspace, slugs));
  same(
    "setRolePermissions",
    answer.map(({ slug }) => slug),
    [...row.permissions].map(({ slug }) => slug).sort(),
  );
}

export async function changeIdentity(stage: Stage): Promise<void> {
  const { dice, world } = stage;
  const { workspace, keyring } = place(stage);
  const externalId = dice.pick(USERS);
  const row = named(workspace.identities, (identity) => identity.externalId === externalId);
  const fields = {
    ...(dice.chance(0.5) && { meta: dice.pick(METAS) }),
    ...(dice.chance(0.7) && { ratelimits: rollLimits(dice) }),
  };
  const kind = dice.below(14);
  if (row === undefined || kind === 0) {
    const given = dice.chance(0.6) ? { credits: rollCredits(dice) } : {};
    stage.note("createIdentity", externalId, fields, given);
    const call = keyring.createIdentity({ externalId, ...fields, ...given });
    if (row !== undefined) return refused("createIdentity", call, "CONFLICT");
    const made = ensureIdentity(world, workspace, externalId);
    made.id = learnId(world, (await call).identityId, /^id_\w{6,}$/);
    made.meta = fields.meta;
    made.limits = toLimits(fields.ratelimits ?? []);
    if ((given.credits?.remaining ?? null) !== null) setShared(made, given.credits!, world.now);
    return;
  }
  if (kind === 1) return deleteIdentity(stage, keyring, row);
  if (kind < 6) return changeShared(stage, keyring, row);
  const body = {
    identity: dice.chance(0.5) ? (row.id ?? externalId) : externalId,
    ...fields,
    ...(dice.chance(0.1) && { meta: null }),
    ...(dice.chance(0.2) && { credits: rollWish(dice) }),
    // Off for a while only, as an API.
    ...(dice.chance(0.5) && { enabled: !row.enabled || dice.chance(0.8) }),
    ...(dice.chance(0.4) && { expires: dice.chance(0.7) ? null : rollExpires(dice, world.now) }),
  };
  stage.note("updateIdentity", body);
  const answer = await keyring.updateIdentity(body);
  if (body.credits !== undefined) setShared(row, body.credits ?? { remaining: null }, world.now);
  if (body.meta !== undefined) row.meta = body.meta ?? undefined;
  if (body.enabled !== undefined) row.enabled = body.enabled;
  if (body.expires !== undefined) row.expires = body.expires ?? undefined;
  if (body.ratelimits !== undefined) row.limits = toLimits(body.ratelimits, row.limits);
  row.id ??= learnId(world, answer.id, /^id_\w{6,}$/);
  learnLimits(world, row.limits, answer.ratelimits);
  const due = {
    ...showIdentity(row),
    ...(!row.enabled && { enabled: false }),
    ...(row.expires !== undefined && { expires: row.expires }),
  };
  // Administration shows limits as they are, a verification within the bounds of the specification.
  same("updateIdentity", answer, row.limits.length > 0 ? { ...due, ratelimits: showLimits(row.limits) } : due);
}

/** Changes the credits of an identity. */
function setShared(row: ModelIdentity, wish: Parameters<typeof set>[1], now: number): void {
  row.since = set(row.credits, wish, now, row.since) ?? row.since;
}

/**
 * Ruling D11: no key becomes unlimited by a deletion, nor leaves the shared limits of an owner whose keys are to end.
 */
async function deleteIdentity({ world, dice, note }: Stage, keyring: Keyring, row: ModelIdentity): Promise<void> {
  const body = { identity: row.id ?? row.externalId, ...(dice.chance(0.4) && { keys: "disable" as const }) };
  note("deleteIdentity", body);
  const keys = world.keys.filter((key) => key.identity === row && !isHidden(key));
  const drawing = keys.filter((key) => ownerOf(key) !== undefined);
  const call = keyring.deleteIdentity(body);
  if (drawing.length > 0 && body.keys === undefined) return refused("deleteIdentity", call, "CONFLICT");
  same("deleteIdentity", await call, {});
  for (const key of body.keys === undefined ? [] : keys) key.enabled = false;
  row.deleted = true;
}

/** Sets, raises, lowers or reads the balance that the keys of an identity share. */
async function changeShared({ world, dice, note }: Stage, keyring: Keyring, row: ModelIdentity): Promise<void> {
  const identity = row.id ?? row.externalId;
  const operation = dice.pick(["set", "set", "increment", "decrement", "read"] as const);
  if (operation === "read") {
    note("getIdentity", identity);
    const { credits } = await keyring.getIdentity({ identity });
    return same(
      "getIdentity",
      credits,
      row.credits.remaining === null ? undefined : showCredits(row.credits, world.now),
    );
  }
  const value = operation === "set" ? rollRemaining(dice) : dice.pick([0, 1, 3, 100, Number.MAX_SAFE_INTEGER]);
  const body = { identity, operation, value } as UpdateIdentityCreditsRequestBody;
  note("updateIdentityCredits", body);
  const call = keyring.updateIdentityCredits(body);
  if (operation !== "set" && row.credits.remaining === null)
    return refused("updateIdentityCredits", call, "BAD_REQUEST", ["body.operation"]);
  const answer = await call;
  if (operation === "set") setShared(row, { remaining: value }, world.now);
  else add(row.credits, operation === "increment" ? value! : -value!, world.now);
  same("updateIdentityCredits", answer, showCredits(row.credits, world.now));
}
