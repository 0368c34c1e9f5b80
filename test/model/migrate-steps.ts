/** Steps that import: migrations and keys by their hashes. Rulings E1–E4. */
import { createHash } from "node:crypto";
import type { V2KeysMigrateKeyData } from "../../src/contracts/types.js";
import type { Dice } from "./dice.js";
import { big, fieldsOf, rollFields } from "./key-rolls.js";
import { ensureIdentity, ensurePermissions, existingRoles } from "./reference-steps.js";
import { learnId, refused, same, type Stage } from "./stage.js";
import { FOREIGN, MIGRATIONS } from "./vocabulary.js";
import { digestOf, type ModelMigration } from "./world.js";

export async function createMigration(stage: Stage): Promise<void> {
  const { world, dice, hand } = stage;
  const workspace = dice.chance(0.85) ? world.workspaces[0] : world.workspaces[1];
  const { id, algorithm } = dice.pick(MIGRATIONS);
  const keyring = hand.keyrings.get(workspace)!;
  if (dice.chance(0.1)) {
    stage.note("createMigration", "bcrypt");
    return refused("createMigration", keyring.createMigration({ algorithm: "bcrypt" }), "BAD_REQUEST", [
      "body.algorithm",
    ]);
  }
  stage.note("createMigration", id, workspace.id);
  const call = keyring.createMigration({ id, algorithm });
  if (world.migrations.some((migration) => migration.id === id)) return refused("createMigration", call, "CONFLICT");
  same("createMigration", await call, { migrationId: id });
  world.migrations.push({ id, algorithm, workspace });
}

/** A key that breaks the schema refuses the whole import, and nothing of it goes in (ruling E2). */
export async function migrateBadly(stage: Stage): Promise<void> {
  const { world, dice, hand } = stage;
  if (world.migrations.length === 0) return createMigration(stage);
  const migration = dice.pick(world.migrations);
  const keys: object[] = [rollImport(stage, migration), rollImport(stage, migration)].map(({ data }) => data);
  const [wrong, location] = dice.pick<[object, string]>([
    [{ hash: "xy" }, "hash"],
    [{ ratelimits: [{ name: "requests", limit: 1, duration: 1_000 }] }, "ratelimits[0].autoApply"],
    [{ credits: { remaining: 1, refill: { interval: "monthly", amount: 1 } } }, "credits.refill.refillDay"],
    [{ credits: { remaining: -1 } }, "credits.remaining"],
    [{ surprise: 1 }, "surprise"],
  ]);
  keys[1] = { ...keys[1], ...wrong };
  stage.note("migrateBadly", keys[1]);
  const body = {
    migrationId: migration.id,
    apiId: dice.pick(migration.workspace.apis).id,
    keys: keys as V2KeysMigrateKeyData[],
  };
  await refused("migrateBadly", hand.keyrings.get(migration.workspace)!.migrateKeys(body), "BAD_REQUEST", [
    `body.keys[1].${location}`,
  ]);
}

export async function migrateKeys(stage: Stage): Promise<void> {
  const { world, dice, hand } = stage;
  if (world.migrations.length === 0) return createMigration(stage);
  const migration = dice.pick(world.migrations);
  const workspace = dice.chance(0.95) ? migration.workspace : dice.pick(world.workspaces);
  const api = dice.pick(workspace.apis);
  const imports = Array.from({ length: 1 + dice.below(4) }, () => rollImport(stage, migration));
  const body = { migrationId: migration.id, apiId: api.id, keys: imports.map(({ data }) => data) };
  stage.note("migrateKeys", body);
  const call = hand.keyrings.get(workspace)!.migrateKeys(body, dice.chance(0.5) ? { batchSize: 2 } : {});
  if (api.deleted || workspace !== migration.workspace) return refused("migrateKeys", call, "NOT_FOUND");
  const answer = await call;
  const due = { migrated: [] as string[], failed: [] as string[] };
  for (const [i, { data, text, form }] of imports.entries()) {
    const before = imports.slice(0, i).filter((earlier) => form !== undefined && earlier.form === form);
    const isRepeat = before.some((earlier) => existingRoles(workspace, earlier.data.roles ?? []) === undefined);
    const reason = fault(stage, migration, data, form) ?? (before.length > 0 ? "ALREADY_EXISTS" : undefined);
    if (reason !== undefined) {
      due.failed.push(`${data.hash} ${reason}`);
      // Names are made for every key that could go in as far as its import tells.
      if (reason === "ALREADY_EXISTS" && !isRepeat) {
        ensurePermissions(workspace, data.permissions ?? []);
        if (data.externalId !== undefined) ensureIdentity(world, workspace, data.externalId);
      }
      continue;
    }
    const made = answer.migrated[due.migrated.length];
    due.migrated.push(data.hash);
    const credits = data.credits ?? { remaining: null };
    const id = learnId(world, made?.keyId, /^key_\w{8,}$/);
    world.keys.push({
      id,
      account: id,
      api,
      deleted: false,
      text,
      digest: migration.algorithm === "sha256" ? form : undefined,
      imported: { migration, form: form! },
      ...fieldsOf(stage, workspace, data),
      credits: {
        ...{ remaining: big(credits.remaining), refill: credits.refill, counted: world.now },
        isNone: data.credits?.remaining === null,
      },
      since: world.now,
    });
  }
  const { migrated, failed, totals } = answer;
  same(
    "migrateKeys: migrated",
    migrated.map(({ hash }) => hash),
    due.migrated,
  );
  same(
    "migrateKeys: failed",
    failed.map(({ hash, reason }) => `${hash} ${reason}`),
    due.failed,
  );
  same("migrateKeys: totals", totals, { migrated: migrated.length, failed: failed.length });
}

/** Why a key does not go in (ruling E2). */
function fault(
  { world }: Stage,
  { workspace, algorithm }: ModelMigration,
  data: V2KeysMigrateKeyData,
  form: string | undefined,
): string | undefined {
  if (form === undefined) return "INVALID_HASH";
  if (existingRoles(workspace, data.roles ?? []) === undefined) return "UNKNOWN_ROLE";
  const isNative = algorithm === "sha256";
  const taken = world.keys.some((key) => key.imported?.form === form || (isNative && key.digest === form));
  return taken ? "ALREADY_EXISTS" : undefined;
}

function rollImport(
  stage: Stage,
  { algorithm }: ModelMigration,
): { data: V2KeysMigrateKeyData; text: string; form: string | undefined } {
  const { dice } = stage;
  const text = dice.pick(FOREIGN);
  const { ratelimits, ...rest } = rollFields(stage);
  // An import says whether a limit applies by itself (contract 2.3).
  const fields = {
    ...rest,
    ...(ratelimits && { ratelimits: ratelimits.map((limit) => ({ autoApply: false, ...limit })) }),
  };
  if (dice.chance(0.1)) return { data: { ...fields, hash: "$2b$10$not-a-hash" }, text, form: undefined };
  const hashed = algorithm === "prefixed-api-key" ? text.split("_").at(-1)! : text;
  const digest = createHash(algorithm === "sha512" ? "sha512" : "sha256").update(hashed, "utf8");
  const bytes = digest.digest();
  const form = bytes.toString("base64");
  return {
    data: { ...fields, hash: algorithm === "prefixed-api-key" ? hex(dice, bytes) : spell(dice, bytes) },
    text,
    form: algorithm === "sha256" ? digestOf(text) : form,
  };
}

function spell(dice: Dice, bytes: Buffer): string {
  return dice.chance(0.3) ? hex(dice, bytes) : bytes.toString(dice.pick(["base64", "base64url"] as const));
}

const hex = (dice: Dice, bytes: Buffer): string =>
  dice.chance(0.8) ? bytes.toString("hex") : bytes.toString("hex").toUpperCase();
