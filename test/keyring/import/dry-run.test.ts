/** A dry run says what the import would do, and does nothing. */
import { createHash } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, it, vi } from "vitest";
import type { Store } from "../../../src/contracts/store.js";
import { createKeyring, type Keyring } from "../../../src/keyring/keyring.js";
import type { ImportedKeyData, MigrateKeysOptions } from "../../../src/keyring/schemas/migration-requests.js";
import { memoryStore } from "../../../src/stores/memory.js";
import { sqliteStore } from "../../../src/stores/sqlite/index.js";
import { runs } from "../../runs.js";
import { pglite } from "../../stores/postgres/support.js";
import { fault } from "../support.js";

const FOLDER = mkdtempSync(join(tmpdir(), "keystile-dry-"));
afterAll(() => rmSync(FOLDER, { recursive: true }));
const postgres = pglite();
let files = 0;

const STORES: Readonly<Record<string, () => Promise<Store>>> = {
  memory: async () => memoryStore(),
  "SQLite file": async () => sqliteStore(join(FOLDER, `${++files}.db`)),
  PostgreSQL: async () => (await postgres.open(1))[0] as Store,
};

const hashOf = (text: string, algorithm = "sha256", encoding: "hex" | "base64" | "base64url" = "hex") =>
  createHash(algorithm).update(text).digest(encoding);

/** Changes that {@link filled} makes. */
const SET_UP = 8;

/** A keyring with a migration, a role, keys that are there and one that was deleted. */
async function filled(store: Store) {
  const audit: string[] = [];
  const keyring = createKeyring(store, { onAudit: ({ operation }) => void audit.push(operation) });
  const { apiId } = await keyring.createApi({ name: "docs" });
  await keyring.createMigration({ id: "old", algorithm: "sha256" });
  await keyring.createMigration({ id: "other", algorithm: "sha256" });
  await keyring.createRole({ name: "admin" });
  const { identityId } = await keyring.createIdentity({ externalId: "owner" });
  const given = await keyring.migrateKeys({
    migrationId: "other",
    apiId,
    keys: [{ hash: hashOf("there") }, { hash: hashOf("deleted") }],
  });
  await keyring.deleteKey({ keyId: given.migrated[1]?.keyId as string });
  const { key } = await keyring.createKey({ apiId });
  return { keyring, apiId, audit, identityId, made: hashOf(key), there: given.migrated[0]?.keyId as string };
}

/** All that a keyring shows, and what the store keeps of names. */
async function contents(keyring: Keyring, store: Store) {
  return {
    keys: (await keyring.searchKeys()).data,
    roles: await keyring.listRoles(),
    permissions: await keyring.listPermissions(),
    identities: await keyring.listIdentities(),
    migrations: await store.list("migrations", { workspaceId: "ws_default", limit: 100 }),
    apis: await keyring.listApis(),
    audit: store.powers.audit === true ? await keyring.listAudit() : [],
  };
}

type World = Awaited<ReturnType<typeof filled>>;

/** By batch; what reading refuses, apart: the batch that is read ahead may be told of with the one before. */
async function results({ keyring, apiId }: World, keys: readonly unknown[], options: MigrateKeysOptions) {
  const rows: unknown[] = [];
  const invalid: unknown[] = [];
  const reading = (async function* () {
    yield* keys as readonly ImportedKeyData[];
  })();
  const { totals } = await keyring.migrateKeys(
    { migrationId: "old", apiId, keys: reading },
    {
      ...options,
      onBatch({ migrated, failed }) {
        const isInvalid = ({ reason }: (typeof failed)[number]) => reason === "INVALID_KEY";
        invalid.push(...failed.filter(isInvalid));
        rows.push([migrated.map(({ hash }) => hash), failed.filter((one) => !isInvalid(one))]);
      },
    },
  );
  return { rows, invalid, totals };
}

/** The first, which is right, nine times of ten: a row with one mistake hides no other. */
const mostly = <T>(right: T, ...others: T[]) =>
  fc.oneof({ weight: 9, arbitrary: fc.constant(right) }, { weight: 1, arbitrary: fc.constantFrom(...others) });

/** Rows of a file, as careless as files are. */
const rowsOf = ({ identityId, made, there }: World) => {
  const text = fc.constantFrom("a", "b", "c", "there", "deleted");
  const hash = fc.oneof(
    fc
      .tuple(text, fc.constantFrom("hex", "base64", "base64url"))
      .map(([of, how]) => hashOf(of, "sha256", how as "hex")),
    fc.constantFrom(made, hashOf("a", "sha512"), `\\x${hashOf("a")}`, "$2b$12$abcdefghijklmnopqrstuv", "sk_live_text"),
  );
  return fc.array(
    fc.record(
      {
        hash: fc.oneof({ weight: 9, arbitrary: hash }, { weight: 1, arbitrary: fc.constant(7) }),
        name: mostly<string | null>("one", "", null),
        roles: mostly(["admin"], ["unknown"], ["admin", "unknown"], []),
        permissions: mostly(["a.read"], ["perm_1111111111111111111111"], ["new.one", "new.two"]),
        externalId: mostly("owner", "somebody new", identityId),
        expires: mostly<unknown>(4_000_000_000_000, "soon"),
        keyId: fc.constantFrom("key_of_theirs", "key_1111111111111111111111", "key_another", there, "short"),
        identity: mostly<object>(
          { meta: { plan: "pro" } },
          { ratelimits: [{ name: "shared", limit: 1, duration: 1 }] },
        ),
      },
      { requiredKeys: ["hash"] },
    ),
    { maxLength: 14 },
  );
};

describe.each(Object.entries(STORES))("a dry run of an import: %s", (_, open) => {
  it("says of every row what the import then does of it, with the same reason (property)", async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 9 }), fc.infiniteStream(fc.nat()), async (batchSize, seeds) => {
        const store = await open();
        try {
          const world = await filled(store);
          const keys = fc.sample(rowsOf(world), { numRuns: 1, seed: seeds.next().value as number })[0] as unknown[];
          const before = await contents(world.keyring, store);
          const dry = await results(world, keys, { batchSize, dryRun: true });
          expect(await contents(world.keyring, store)).toEqual(before);
          await vi.waitFor(() => expect(world.audit).toHaveLength(SET_UP), 20_000);
          expect(dry).toEqual(await results(world, keys, { batchSize }));
        } finally {
          await store.close();
        }
      }),
      { numRuns: runs(25) },
    );
  });

  it("finds what cannot go in: keys that are there or deleted, repeats, other hashes, unknown roles", async () => {
    const store = await open();
    const world = await filled(store);
    const fine = hashOf("fine");
    const again = Buffer.from(fine, "hex").toString("base64url");
    const hashes = [fine, again, hashOf("there"), hashOf("deleted"), world.made, "sk_live_text", `\\x${fine}`];
    const keys = [...hashes.map((hash) => ({ hash })), { hash: hashOf("role"), roles: ["nobody"] }];
    const { migrated, failed } = await world.keyring.migrateKeys(
      { migrationId: "old", apiId: world.apiId, keys },
      { dryRun: true, batchSize: 1 },
    );
    expect(migrated).toEqual([{ hash: fine, keyId: "" }]);
    expect(failed.map(({ reason }) => reason)).toEqual([
      ...["ALREADY_EXISTS", "ALREADY_EXISTS", "ALREADY_EXISTS", "ALREADY_EXISTS"],
      ...["INVALID_HASH", "INVALID_HASH", "UNKNOWN_ROLE"],
    ]);
    for (const wrong of [{ migrationId: "none" }, { apiId: "api_none" }])
      expect(
        await fault(
          world.keyring.migrateKeys(
            { migrationId: "old", apiId: world.apiId, keys: [{ hash: fine }], ...wrong },
            { dryRun: true },
          ),
        ),
      ).toBe("NOT_FOUND 404");
    await store.close();
  });
});

it("a dry run needs a store that finds keys by their hashes", async () => {
  const { findKeyIds: _, ...store } = memoryStore();
  const { keyring, apiId } = await filled({ ...store });
  const body = { migrationId: "old", apiId, keys: [{ hash: hashOf("a") }] };
  expect(await fault(keyring.migrateKeys(body, { dryRun: true }))).toBe("STORE_POWER_MISSING 500");
});
