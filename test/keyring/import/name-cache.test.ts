import { createHash } from "node:crypto";
import fc from "fast-check";
import { afterEach, describe, expect, it } from "vitest";
import type { Store } from "../../../src/contracts/store.js";
import type { V2KeysMigrateKeyData } from "../../../src/contracts/types.js";
import { createKeyring } from "../../../src/keyring/keyring.js";
import { memoryStore } from "../../../src/stores/memory.js";
import { sqliteStore } from "../../../src/stores/sqlite/index.js";
import { runs } from "../../runs.js";
import { temporaryPaths } from "../../stores/sqlite/support.js";
import { changed, world } from "../support.js";

const path = temporaryPaths();
const opened: Store[] = [];
const open = (file: string): Store => {
  // The longest staleness: an import does not wait for it.
  const store = sqliteStore(file, { durability: "process", staleness: 3_600_000 });
  opened.push(store);
  return store;
};
afterEach(async () => {
  for (const store of opened.splice(0)) await store.close();
});

const hashOf = (n: number, algorithm = "sha256") => createHash(algorithm).update(`key ${n}`).digest("hex");
const keyOf = (n: number, algorithm?: string): V2KeysMigrateKeyData => ({
  hash: hashOf(n, algorithm),
  externalId: `user_${n % 2}`,
  permissions: ["documents.read", `part.${n % 3}`],
});

/** Keys a batch: so many that a store does not tell their digests one by one, which would end belief in every name. */
const BATCH = 20;

/** Imports keys, and does something between the batches. */
async function importing(
  store: Store,
  keys: readonly V2KeysMigrateKeyData[],
  between: (done: number) => unknown,
  algorithm = "sha256",
) {
  const one = await world({ store });
  const { migrationId } = await one.keyring.createMigration({ algorithm });
  let done = 0;
  const answer = await one.keyring.migrateKeys(
    { migrationId, apiId: one.apiId, keys: new Set(keys) },
    { batchSize: BATCH, onProgress: () => between(++done) },
  );
  const shown = [];
  const { data } = await one.keyring.listIdentities();
  for (const { keyId } of answer.migrated) {
    const { identity, permissions } = await one.keyring.getKey({ keyId });
    shown.push({ externalId: identity?.externalId, isListed: data.some(({ id }) => id === identity?.id), permissions });
  }
  return { ...one, ...answer, shown };
}

describe("names of an import, remembered from batch to batch", () => {
  it("are forgotten when there are more than 10,000, and looked up again", async () => {
    // The memory store tells of each new key, upon which all names are forgotten anyway.
    const one = await world({ store: open(path()) });
    const asked: string[] = [];
    const spied = changed(one.store, {
      readNames: (table, workspaceId, names) => {
        asked.push(...names);
        return one.store.readNames(table, workspaceId, names);
      },
    });
    const keyring = createKeyring(spied);
    const { migrationId } = await keyring.createMigration({ algorithm: "sha256" });
    const keys = Array.from({ length: 12_001 }, (_, n) => ({ hash: hashOf(n), externalId: `user_${n % 12_000}` }));
    const { totals } = await keyring.migrateKeys(
      { migrationId, apiId: one.apiId, keys: new Set(keys) },
      { batchSize: 6_000, onBatch: () => undefined },
    );
    expect(totals).toEqual({ migrated: 12_001, failed: 0 });
    expect(
      asked.filter((name) => name === "user_0"),
      "asked, made and read, asked again",
    ).toHaveLength(3);
    expect(asked.filter((name) => name === "user_1")).toHaveLength(2);
  });

  it("are looked up once, not once a batch", async () => {
    const store = open(path());
    const asked: string[] = [];
    const spied = changed(store, {
      readNames: (table, workspaceId, names) => {
        asked.push(...names);
        return store.readNames(table, workspaceId, names);
      },
    });
    const keys = Array.from({ length: 3 * BATCH }, (_, n) => keyOf(n));
    const { keyring, apiId } = await world({ store: spied });
    await keyring.createRole({ name: "reader" });
    const { migrationId } = await keyring.createMigration({ algorithm: "sha256" });
    const roles = ["reader"];
    await keyring.migrateKeys(
      { migrationId, apiId, keys: keys.map((key) => ({ ...key, roles })) },
      { batchSize: BATCH },
    );
    for (const name of ["user_0", "documents.read", "part.2"])
      expect(asked.filter((one) => one === name)).toHaveLength(2);
    expect(asked.filter((one) => one === "reader")).toHaveLength(1);
  });

  for (const algorithm of ["sha256", "sha512"]) {
    it(`port clause 15: an identity that is deleted meanwhile is made anew, whoever deletes it (${algorithm})`, async () => {
      const file = path();
      const there = createKeyring(open(file));
      for (const [store, deleting] of [
        [memoryStore(), undefined],
        [open(path()), undefined],
        [open(file), there],
      ] as const) {
        const keys = Array.from({ length: 3 * BATCH }, (_, n) => keyOf(n, algorithm));
        const deleter = deleting ?? createKeyring(store);
        const { shown, totals } = await importing(
          store,
          keys,
          (done) => done === 2 && deleter.deleteIdentity({ identity: "user_0" }),
          algorithm,
        );
        expect(totals).toEqual({ migrated: 3 * BATCH, failed: 0 });
        // Keys of the first batches lost theirs; those of the last one have a new one.
        const named = shown.map(({ externalId, isListed }) => isListed && externalId);
        expect(named).toEqual(
          keys.map(({ externalId }, n) => (externalId === "user_0" && n < 2 * BATCH ? false : externalId)),
        );
      }
    });
  }

  it("port clause 15: a permission or role that is deleted meanwhile is made anew or unknown", async () => {
    for (const store of [memoryStore(), open(path())]) {
      const keyring = createKeyring(store);
      await keyring.createRole({ name: "reader" });
      const keys = Array.from({ length: 2 * BATCH }, (_, n) => ({
        ...keyOf(0),
        hash: hashOf(n),
        ...(n !== BATCH + 1 && { roles: ["reader"] }),
      }));
      const { shown, failed } = await importing(store, keys, async (done) => {
        if (done !== 1) return;
        await keyring.deletePermission({ permission: "documents.read" });
        await keyring.deleteRole({ role: "reader" });
      });
      expect(failed.map(({ reason }) => reason)).toEqual(Array(BATCH - 1).fill("UNKNOWN_ROLE"));
      expect(shown.map(({ permissions }) => permissions)).toEqual([
        ...Array(BATCH).fill(["part.0"]),
        ["documents.read", "part.0"],
      ]);
    }
  });

  it("a role that is made meanwhile is found: absence is not remembered", async () => {
    const store = open(path());
    const keys = Array.from({ length: 2 * BATCH }, (_, n) => ({ hash: hashOf(n), roles: ["late"] }));
    const { failed } = await importing(
      store,
      keys,
      (done) => done === 1 && createKeyring(store).createRole({ name: "late" }),
    );
    expect(failed.map(({ reason }) => reason)).toEqual(Array(BATCH).fill("UNKNOWN_ROLE"));
  });

  it("whatever is deleted between batches, keys end as they do when each batch looks its names up (property)", async () => {
    const act = fc.constantFrom("nothing", "identity", "permission");
    await fc.assert(
      fc.asyncProperty(fc.array(act, { minLength: 1, maxLength: 4 }), async (acts) => {
        const keys = Array.from({ length: BATCH * (acts.length + 1) }, (_, n) => keyOf(n));
        const seen = [];
        for (const remembers of [true, false]) {
          const store = sqliteStore(":memory:");
          opened.push(store);
          // A store that tells of a change at every batch makes the import forget.
          const listeners = new Set<Parameters<Store["subscribe"]>[0]>();
          const forgetful = changed(store, {
            subscribe: (listener) => {
              listeners.add(listener);
              return store.subscribe(listener);
            },
          });
          const keyring = createKeyring(store);
          const { shown } = await importing(remembers ? store : forgetful, keys, async (done) => {
            if (acts[done - 1] === "identity") await keyring.deleteIdentity({ identity: "user_0" });
            if (acts[done - 1] === "permission") await keyring.deletePermission({ permission: "documents.read" });
            for (const listener of listeners) listener("all");
          });
          seen.push(shown);
        }
        expect(seen[0]).toEqual(seen[1]);
      }),
      { numRuns: runs(20) },
    );
  });
});
