/** What steps about keys have in common: which key, with which fields, and what the model makes of them. */
import type { KeyCreditsData, RatelimitRequest, V2KeysMigrateKeyData } from "../../src/contracts/types.js";
import type { Dice } from "./dice.js";
import { ensureIdentity, ensurePermissions, existingRoles, rollRoles, toLimits } from "./reference-steps.js";
import type { Stage } from "./stage.js";
import { DAY, GRANTS, METAS, NAMES, rollLimits, rollRefill, rollRemaining, USERS } from "./vocabulary.js";
import { isHidden, type ModelKey } from "./world.js";

const LAST_TIME = 4_102_444_800_000;

/** What createKey and migrateKeys have in common. */
export function rollFields({ world, dice }: Stage) {
  return {
    ...(dice.chance(0.3) && { name: dice.pick(NAMES) }),
    ...(dice.chance(0.3) && { meta: dice.pick(METAS) }),
    ...(dice.chance(0.4) && { externalId: dice.pick(USERS) }),
    ...(dice.chance(0.4) && { roles: rollRoles(dice) }),
    ...(dice.chance(0.6) && { permissions: dice.some(GRANTS, 0.2) }),
    ...(dice.chance(0.15) && { expires: rollExpires(dice, world.now) }),
    ...(dice.chance(0.15) && { enabled: dice.chance(0.7) }),
    ...(dice.chance(0.7) && { credits: rollCredits(dice) }),
    ...(dice.chance(0.4) && { ratelimits: rollLimits(dice) }),
  };
}

type V2KeysMigrateKeyFields = Omit<V2KeysMigrateKeyData, "hash" | "ratelimits"> & {
  ratelimits?: readonly RatelimitRequest[];
};

/** The model's side of {@link rollFields}; makes permissions and identities that do not exist. */
export function fieldsOf(
  stage: Stage,
  workspace: ModelKey["api"]["workspace"],
  body: V2KeysMigrateKeyFields & { ipAllowlist?: readonly string[] },
) {
  return {
    name: body.name,
    meta: body.meta,
    expires: body.expires,
    enabled: body.enabled ?? true,
    permissions: new Set(ensurePermissions(workspace, body.permissions ?? [])),
    roles: new Set(existingRoles(workspace, body.roles ?? [])),
    identity: body.externalId === undefined ? undefined : ensureIdentity(stage.world, workspace, body.externalId),
    limits: toLimits(body.ratelimits ?? []),
    allowlist: body.ipAllowlist ?? [],
  };
}

/** A key, hidden ones included; now and then asked for through the other workspace, which sees nothing of it. */
export function chosen({ world, dice, hand }: Stage) {
  if (world.keys.length === 0) return undefined;
  const key = dice.pick(world.keys);
  const own = key.api.workspace;
  const workspace = dice.chance(0.95) ? own : world.workspaces.find((other) => other !== own)!;
  return {
    key,
    keyring: hand.keyrings.get(workspace)!,
    absent: isHidden(key) || workspace !== own,
    foreign: workspace !== own,
  };
}

/** A wish about credits. */
export function rollWish(dice: Dice) {
  if (dice.chance(0.15)) return null;
  return {
    ...(dice.chance(0.5) && { remaining: rollRemaining(dice) }),
    ...(dice.chance(0.5) && { refill: dice.chance(0.4) ? null : rollRefill(dice) }),
  };
}

export function rollCredits(dice: Dice): KeyCreditsData {
  return { remaining: rollRemaining(dice), ...(dice.chance(0.5) && { refill: rollRefill(dice) }) };
}

export function rollExpires(dice: Dice, now: number): number {
  return Math.min(LAST_TIME, Math.max(0, now + dice.pick([-1, 0, 1, 1_000, DAY, 40 * DAY, 400 * DAY, 4_000 * DAY])));
}

export const big = (value: number | null): bigint | null => (value === null ? null : BigInt(value));
