/**
 * Rulings E and contract 4.2 through keyring and verifier: imported hashes, on-demand migration, failures one by one.
 */
import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { createKeyring, createVerifier, KeystileError } from "../../src/index.js";
import { failure, NOON, world } from "./support.js";

const hash = (text: string, encoding: "hex" | "base64" | "base64url" = "hex", algorithm = "sha256") =>
  createHash(algorithm).update(text).digest(encoding);

async function migrating(algorithm: string, options: Parameters<typeof world>[0] = {}) {
  const made = await world(options);
  const { migrationAlgorithms } = options;
  const keyring = migrationAlgorithms
    ? createKeyring(made.store, { clock: made.clock, migrationAlgorithms })
    : made.keyring;
  const { migrationId } = await keyring.createMigration({ id: "mig_old", algorithm });
  const migrate = (...keys: object[]) => keyring.migrateKeys({ migrationId, apiId: made.apiId, keys: keys as never });
  return { ...made, keyring, migrationId, migrate };
}

describe("contract 4.2: migrateKeys", () => {
  it("contract 4.2-3: the plaintext key keeps verifying, with all that was imported", async () => {
    const { migrate, verify, keyring, apiId } = await migrating("sha256");
    await keyring.createRole({ name: "editor", permissions: ["documents.write"] });
    const { migrated, failed } = await migrate({
      hash: hash("old-key"),
      name: "old",
      externalId: "user_1",
      meta: { a: 1 },
      roles: ["editor"],
      permissions: ["documents.*"],
      expires: NOON + 5,
      credits: { remaining: 3, refill: { interval: "monthly", amount: 1, refillDay: 31 } },
      ratelimits: [{ name: "requests", limit: 5, duration: 1_000, autoApply: true }],
    });
    expect(failed).toEqual([]);
    expect(migrated).toEqual([{ hash: hash("old-key"), keyId: expect.any(String) }]);
    expect(await verify({ key: "old-key", permissions: "documents.a.b" })).toMatchObject({
      valid: true,
      keyId: migrated[0]?.keyId,
      name: "old",
      meta: { a: 1 },
      identity: { externalId: "user_1" },
      roles: ["editor"],
      permissions: ["documents.*", "documents.write"],
      expires: NOON + 5,
      credits: 2,
      ratelimits: [{ name: "requests", remaining: 4 }],
    });
    expect((await keyring.listKeys({ apiId })).data).toHaveLength(1);
  });

  it.each(["hex", "base64", "base64url"] as const)(
    "ruling E4: a SHA-256 in %s verifies without migrationId",
    async (encoding) => {
      const { migrate, verify } = await migrating("sha256");
      await migrate({ hash: hash("k~?>", encoding) });
      expect((await verify({ key: "k~?>" })).code).toBe("VALID");
    },
  );

  it("contract 2.3: enabled false imports as DISABLED", async () => {
    const { migrate, verify } = await migrating("sha256");
    await migrate({ hash: hash("k"), enabled: false });
    expect((await verify({ key: "k" })).code).toBe("DISABLED");
  });

  it("contract 4.2-1, 4.2-2, ruling E2, A167, A169: hashes fail alone, and each says why", async () => {
    const { migrate, verify } = await migrating("sha256");
    await migrate({ hash: hash("old") });
    const { migrated, failed } = await migrate(
      { hash: hash("a") },
      { hash: hash("old", "base64") },
      { hash: hash("b") },
      { hash: hash("a", "base64url") },
      { hash: hash("c"), roles: ["nobody"] },
      { hash: "abc" },
    );
    expect(migrated.map(({ hash }) => hash)).toEqual([hash("a"), hash("b")]);
    expect(failed.map(({ hash }) => hash)).toEqual([hash("old", "base64"), hash("a", "base64url"), hash("c"), "abc"]);
    expect(new Set(failed.map(({ reason }) => reason)).size).toBeGreaterThanOrEqual(3);
    for (const key of ["old", "a", "b"]) expect((await verify({ key })).code).toBe("VALID");
    expect((await verify({ key: "c" })).code).toBe("NOT_FOUND");
  });

  it("ruling E2: a hash that repeats an earlier one fails, also when the earlier one failed for another reason", async () => {
    const { migrate } = await migrating("sha256");
    const { migrated, failed } = await migrate({ hash: hash("a"), roles: ["nobody"] }, { hash: hash("a", "base64") });
    expect(migrated).toEqual([]);
    expect(failed.map(({ reason }) => reason)).toEqual(["UNKNOWN_ROLE", "ALREADY_EXISTS"]);
  });

  it("ruling E2: a key object that breaks the schema is a 400 for the whole request at its path", async () => {
    const { migrate, verify } = await migrating("sha256");
    const error = await failure(
      migrate(
        { hash: hash("a") },
        { hash: hash("b"), credits: { remaining: 1, refill: { interval: "monthly", amount: 1 } } },
        { hash: "ab" },
      ),
    );
    expect(error.status).toBe(400);
    expect(error.errors.map(({ location }) => location).sort()).toEqual([
      "body.keys[1].credits.refill.refillDay",
      "body.keys[2].hash",
    ]);
    expect((await verify({ key: "a" })).code).toBe("NOT_FOUND");
  });

  it("ruling E3, A173: salted hashes are refused when the migration is created", async () => {
    const { keyring } = await world();
    for (const algorithm of ["bcrypt", "argon2id", "scrypt"]) {
      const error = await failure(keyring.createMigration({ algorithm }));
      expect(error.errors[0]).toMatchObject({ location: "body.algorithm", message: expect.stringContaining("salted") });
    }
  });
});

describe("ruling E4: on-demand migration", () => {
  it("sha512: pending until it comes by with its migrationId, then native", async () => {
    const { migrate, verify, migrationId, calls } = await migrating("sha512");
    await migrate({ hash: hash("k", "hex", "sha512") });
    expect((await verify({ key: "k" })).code).toBe("NOT_FOUND");
    expect((await verify({ key: "k", migrationId })).code).toBe("VALID");
    expect((await verify({ key: "k" })).code).toBe("VALID");
    expect((await verify({ key: "k", migrationId })).code).toBe("VALID");
    expect(calls["adoptDigest"]).toBe(1);
  });

  it("once, under concurrency too, and every caller is answered", async () => {
    const { migrate, verify, migrationId } = await migrating("sha512");
    await migrate({ hash: hash("k", "hex", "sha512"), credits: { remaining: 30 } });
    const answers = await Promise.all(Array.from({ length: 50 }, () => verify({ key: "k", migrationId })));
    expect(answers.filter(({ valid }) => valid)).toHaveLength(30);
    expect(new Set(answers.map(({ keyId }) => keyId)).size).toBe(1);
  });

  it("trap 10: where the old scheme hashed a part, the true key is not locked out by a presented variant", async () => {
    const { migrate, verify, migrationId } = await migrating("prefixed-api-key");
    await migrate({ hash: hash("long") });
    expect((await verify({ key: "app_WRONG_long", migrationId })).code).toBe("VALID");
    expect((await verify({ key: "app_short_long", migrationId })).code).toBe("VALID");
    expect((await verify({ key: "app_short_long" })).code).toBe("NOT_FOUND");
    expect((await verify({ key: "app_WRONG_long" })).code).toBe("VALID");
    expect((await verify({ key: "long", migrationId })).code).toBe("NOT_FOUND");
  });

  it("A065: a stored hash or an id is not a key", async () => {
    const { migrate, verify, migrationId, create } = await migrating("sha256");
    await migrate({ hash: hash("k") });
    const { keyId } = await create();
    for (const key of [hash("k"), hash("k", "base64"), hash("k", "base64url"), keyId]) {
      expect((await verify({ key })).code).toBe("NOT_FOUND");
      expect((await verify({ key, migrationId })).code).toBe("NOT_FOUND");
    }
  });

  it("A179: an unknown migrationId, and one of another workspace, are NOT_FOUND", async () => {
    const { migrate, verify, store, clock } = await migrating("sha512");
    await migrate({ hash: hash("k", "hex", "sha512") });
    expect((await verify({ key: "k", migrationId: "m".repeat(256) })).code).toBe("NOT_FOUND");
    expect((await verify({ key: "k", migrationId: "" })).code).toBe("NOT_FOUND");
    const elsewhere = createVerifier(store, { clock, workspaceId: "ws_other" });
    expect((await elsewhere.verify({ key: "k", migrationId: "mig_old" })).code).toBe("NOT_FOUND");
    expect((await verify({ key: "k" })).code).toBe("NOT_FOUND");
    expect((await verify({ key: "k", migrationId: "mig_old" })).code).toBe("VALID");
    expect((await elsewhere.verify({ key: "k" })).code).toBe("NOT_FOUND");
  });

  it("ruling E3: an algorithm of the program's own serves, also one that answers late", async () => {
    const migrationAlgorithms = { md5: async (key: string) => createHash("md5").update(key).digest("hex") };
    const { migrate, verify, migrationId, store, clock } = await migrating("md5", { migrationAlgorithms });
    await migrate({ hash: hash("k", "hex", "md5") });
    expect((await verify({ key: "k", migrationId })).code).toBe("VALID");
    expect((await verify({ key: "k" })).code).toBe("VALID");
    const unaware = createVerifier(store, { clock });
    await expect(unaware.verify({ key: "other", migrationId })).rejects.toThrow(
      /options\.migrationAlgorithms lacks "md5"/,
    );
  });

  it("A185: in a store that cannot be written a pending key still verifies, and stays pending", async () => {
    const { migrate, migrationId, store, clock, verify } = await migrating("sha512");
    await migrate({ hash: hash("k", "hex", "sha512") });
    const readOnly = (): never => {
      throw new KeystileError("STORE_READ_ONLY", "read-only");
    };
    const reader = createVerifier({ ...store, adoptDigest: readOnly }, { clock });
    expect((await reader.verify({ key: "k", migrationId })).code).toBe("VALID");
    expect((await verify({ key: "k" })).code).toBe("NOT_FOUND");
    const broken = createVerifier({ ...store, adoptDigest: () => Promise.reject(new Error("disk")) }, { clock });
    await expect(broken.verify({ key: "k", migrationId })).rejects.toThrow("disk");
  });

  it("a deleted key gains nothing", async () => {
    const { migrate, verify, migrationId, keyring, calls } = await migrating("sha512");
    const { migrated } = await migrate({ hash: hash("k", "hex", "sha512") });
    await keyring.deleteKey({ keyId: migrated[0]!.keyId });
    expect((await verify({ key: "k", migrationId })).code).toBe("NOT_FOUND");
    expect(calls["adoptDigest"]).toBeUndefined();
  });
});
