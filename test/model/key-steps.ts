/** Steps that make, change and remove keys. */
import type { V2KeysCreateKeyRequestBody, V2KeysUpdateKeyRequestBody } from "../../src/keyring/schemas/requests.js";
import { big, chosen, fieldsOf, rollExpires, rollFields, rollWish } from "./key-rolls.js";
import { ensureIdentity, ensurePermissions, existingRoles, rollRoles, toLimits } from "./reference-steps.js";
import { learnId, refused, same, type Stage } from "./stage.js";
import { DAY, GRANTS, METAS, NAMES, rollAllowlist, rollLimits, USERS } from "./vocabulary.js";
import { digestOf, setCredits } from "./world.js";
import { createPastKey } from "../as-service.js";

const SOURCES = ["identity", "identity", "none"] as const;
const KEY_ID = /^key_\w{8,}$/;

export async function createKey(stage: Stage): Promise<void> {
  const { world, dice, hand } = stage;
  const workspace = dice.chance(0.75) ? world.workspaces[0] : world.workspaces[1];
  const api = dice.pick(workspace.apis);
  const fields = rollFields(stage);
  const body: V2KeysCreateKeyRequestBody = {
    apiId: api.id,
    ...(dice.chance(0.3) && { prefix: "sk_live" }),
    ...fields,
    ...(fields.credits === undefined && dice.chance(0.2) && { creditsFrom: dice.pick(SOURCES) }),
  };
  stage.note("createKey", body);
  const keyring = hand.keyrings.get(workspace)!;
  if (api.deleted || existingRoles(workspace, body.roles ?? []) === undefined)
    return refused("createKey", createPastKey(keyring, body), "NOT_FOUND");
  const made = await createPastKey(keyring, body);
  stage.note("made", made.keyId);
  if (!made.key.startsWith(body.prefix === undefined ? "" : `${body.prefix}_`))
    throw new Error("createKey: the key lacks its prefix");
  same("createKey", Object.keys(made).sort(), ["key", "keyId"]);
  const credits = body.credits ?? { remaining: null };
  const id = learnId(world, made.keyId, KEY_ID);
  world.keys.push({
    id,
    account: id,
    api,
    deleted: false,
    text: made.key,
    digest: digestOf(made.key),
    imported: undefined,
    ...fieldsOf(stage, api.workspace, body),
    credits: {
      ...{ remaining: big(credits.remaining), refill: credits.refill, counted: world.now },
      isNone: body.credits?.remaining === null || body.creditsFrom === "none",
    },
    since: world.now,
  });
}

export async function updateKey(stage: Stage): Promise<void> {
  const { world, dice } = stage;
  const target = chosen(stage);
  if (target === undefined) return createKey(stage);
  const { key, keyring, absent } = target;
  const { workspace } = key.api;
  const enabled = dice.chance(0.4) ? { enabled: dice.chance(0.9) } : {};
  const body: V2KeysUpdateKeyRequestBody = {
    keyId: key.id,
    ...enabled,
    ...(dice.chance(0.2) && { name: dice.chance(0.3) ? null : dice.pick(NAMES) }),
    ...(dice.chance(0.2) && { meta: dice.chance(0.3) ? null : dice.pick(METAS) }),
    ...(dice.chance(0.25) && { expires: dice.chance(0.8) ? null : rollExpires(dice, world.now) }),
    ...(dice.chance(0.2) && { externalId: dice.chance(0.3) ? null : dice.pick(USERS) }),
    ...(dice.chance(0.2) && { roles: rollRoles(dice) }),
    ...(dice.chance(0.2) && { permissions: dice.some(GRANTS, 0.2) }),
    ...(dice.chance(0.2) && { ratelimits: rollLimits(dice) }),
    ...(dice.chance(0.15) && { ipAllowlist: dice.chance(0.8) ? null : rollAllowlist(dice) }),
    ...(dice.chance(0.2) && (dice.chance(0.6) ? { credits: rollWish(dice) } : { creditsFrom: dice.pick(SOURCES) })),
  };
  stage.note("updateKey", body);
  const roles = existingRoles(workspace, body.roles ?? []);
  if (absent || roles === undefined) return refused("updateKey", keyring.updateKey(body), "NOT_FOUND");
  const end = body.expires === undefined ? 0 : (body.expires ?? Infinity);
  if (key.rotated === true && end > (key.expires ?? Infinity))
    return refused("updateKey", keyring.updateKey(body), "BAD_REQUEST");
  same("updateKey", await keyring.updateKey(body), {});
  if (body.enabled !== undefined) key.enabled = body.enabled;
  if (body.name !== undefined) key.name = body.name ?? undefined;
  if (body.meta !== undefined) key.meta = body.meta ?? undefined;
  if (body.expires !== undefined) key.expires = body.expires ?? undefined;
  if (body.externalId === null) key.identity = undefined;
  else if (body.externalId !== undefined) key.identity = ensureIdentity(world, workspace, body.externalId);
  if (body.roles !== undefined) key.roles = new Set(roles);
  if (body.permissions !== undefined) key.permissions = new Set(ensurePermissions(workspace, body.permissions));
  if (body.ratelimits !== undefined) key.limits = toLimits(body.ratelimits, key.limits);
  if (body.ipAllowlist !== undefined) key.allowlist = body.ipAllowlist ?? [];
  if (body.credits !== undefined) setCredits(world, key, body.credits ?? { remaining: null });
  if (body.creditsFrom === undefined) return;
  // As credits that are null, which drop the refill too.
  if (body.creditsFrom === "none" || key.credits.remaining !== null) setCredits(world, key, { remaining: null });
  key.credits.isNone = body.creditsFrom === "none";
}

export async function deleteKey(stage: Stage): Promise<void> {
  const { world, dice } = stage;
  const target = chosen(stage);
  if (target === undefined) return createKey(stage);
  const { key, keyring, absent, foreign } = target;
  const permanent = dice.chance(0.6);
  const body = { keyId: key.id, ...((permanent || dice.chance(0.5)) && { permanent }) };
  stage.note("deleteKey", body);
  // One that is hidden can still be removed for good.
  const gone = permanent ? foreign || key.api.deleted : absent;
  if (gone) return refused("deleteKey", keyring.deleteKey(body), "NOT_FOUND");
  same("deleteKey", await keyring.deleteKey(body), {});
  if (permanent) world.keys.splice(world.keys.indexOf(key), 1);
  else key.deleted = true;
}

export async function rerollKey(stage: Stage): Promise<void> {
  const { world, dice } = stage;
  const target = chosen(stage);
  if (target === undefined) return createKey(stage);
  const { key, keyring, absent } = target;
  const body = { keyId: key.id, expiration: dice.pick([0, 1_000, 2_000, DAY, 40 * DAY, 400 * DAY]) };
  stage.note("rerollKey", body);
  if (absent) return refused("rerollKey", keyring.rerollKey(body), "NOT_FOUND");
  if (key.rotated === true || (key.expires ?? Infinity) < world.now)
    return refused("rerollKey", keyring.rerollKey(body), "CONFLICT");
  const made = await keyring.rerollKey(body);
  stage.note("made", made.keyId);
  world.keys.push({
    ...key,
    id: learnId(world, made.keyId, KEY_ID),
    text: made.key,
    digest: digestOf(made.key),
    imported: undefined,
    permissions: new Set(key.permissions),
    roles: new Set(key.roles),
    limits: key.limits.map((limit) => ({ ...limit, id: undefined })),
    since: Math.max(key.since, world.now),
  });
  const last = body.expiration === 0 ? Math.max(0, world.now - 1) : world.now + body.expiration;
  key.expires = Math.min(key.expires ?? Infinity, last);
  key.rotated = true;
}
