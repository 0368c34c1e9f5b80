import { createHash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Store } from "../../../src/contracts/store.js";
import type { V2KeysMigrateKeyData } from "../../../src/contracts/types.js";
import { explainAlgorithm } from "../../../src/keyring/import/imported-hash.js";
import type { ImportOptions } from "../../../src/keyring/import/migrate-keys.js";
import { createRefused } from "../../../src/keyring/import/store-batch.js";
import { createKeyring } from "../../../src/keyring/keyring.js";
import { memoryStore } from "../../../src/stores/memory.js";
import { sqliteStore } from "../../../src/stores/sqlite/index.js";
import { createVerifier } from "../../../src/verify/verifier.js";
import { runs } from "../../runs.js";
import { changed, failure, fault, limit, problems, world } from "../support.js";
import { importWithin } from "../../as-service.js";

const sha256 = (text: string, encoding: "hex" | "base64" | "base64url" = "hex") =>
  createHash("sha256").update(text).digest(encoding);
const keysOf = (count: number, first = 0): V2KeysMigrateKeyData[] =>
  Array.from({ length: count }, (_, i) => ({ hash: sha256(`key ${first + i}`) }));

async function migrating(options: Parameters<typeof world>[0] = {}, algorithm = "sha256") {
  const one = await world(options);
  const { migrationId } = await one.keyring.createMigration({ algorithm });
  const migrate = (
    keys: Iterable<unknown> | AsyncIterable<unknown>,
    importing?: Parameters<typeof one.keyring.migrateKeys>[1],
  ) => one.keyring.migrateKeys({ migrationId, apiId: one.apiId, keys: keys as V2KeysMigrateKeyData[] }, importing);
  const within = (keys: V2KeysMigrateKeyData[], options: ImportOptions) =>
    importWithin(one.keyring, { migrationId, apiId: one.apiId, keys }, options);
  return { ...one, migrationId, migrate, within };
}

async function* stream<T>(items: Iterable<T>): AsyncIterable<T> {
  for (const item of items) {
    await Promise.resolve();
    yield item;
  }
}

/** A store that answers when the event loop has turned, as one with a thread or a server does. */
const late = (store = memoryStore()) =>
  changed(store, {
    insertKeys: async (keys) => {
      await new Promise(setImmediate);
      return store.insertKeys(keys);
    },
  });

describe("createMigration: how the keys were hashed", () => {
  it("takes an id or makes one; one that exists is a 409", async () => {
    const { keyring } = await world();
    expect(await keyring.createMigration({ id: "legacy/2024 ünï", algorithm: "sha512" })).toEqual({
      migrationId: "legacy/2024 ünï",
    });
    expect(await fault(keyring.createMigration({ id: "legacy/2024 ünï", algorithm: "sha256" }))).toBe("CONFLICT 409");
    const { migrationId } = await keyring.createMigration({ algorithm: "prefixed-api-key" });
    expect(migrationId).toMatch(/^mig_/);
  });

  it("ruling E3, hostile A173, A175: slow salted hashes are refused with a sentence that says why", async () => {
    const { keyring } = await world();
    for (const algorithm of ["bcrypt", "argon2id", "scrypt", "pbkdf2-sha256"]) {
      const { errors } = await failure(keyring.createMigration({ algorithm }));
      expect(errors[0]).toMatchObject({ location: "body.algorithm", message: expect.stringMatching(/salted/) });
    }
  });

  it("hostile A177: MD5, SHA-1 and unknown names are refused unless the program registers them; all problems at once", async () => {
    const { keyring } = await world();
    for (const algorithm of ["md5", "sha1", "SHA256"])
      expect(await problems(keyring.createMigration({ algorithm }))).toEqual(["body.algorithm"]);
    expect(await problems(keyring.createMigration({ id: "x", algorithm: "md5" }))).toEqual([
      "body.id",
      "body.algorithm",
    ]);
    for (const algorithm of ["", "a".repeat(256), "\0", "\ud800", 5])
      expect(await problems(keyring.createMigration({ algorithm: algorithm as string }))).toEqual(["body.algorithm"]);
    const own = createKeyring(memoryStore(), {
      migrationAlgorithms: { md5: (key) => createHash("md5").update(key).digest("hex") },
    });
    expect(await own.createMigration({ id: "old", algorithm: "md5" })).toEqual({ migrationId: "old" });
  });

  it("a fault of the algorithms that is no caller's fault rises", () => {
    const algorithms = {
      knows() {
        throw new RangeError("broken");
      },
    };
    expect(() => explainAlgorithm(algorithms as never, "sha256")).toThrow(RangeError);
  });
});

describe("migrateKeys: each key goes in or fails by itself", () => {
  it("contract 2.3: every field of a key comes back as it was given", async () => {
    const { keyring, store, migrate, migrationId, time } = await migrating();
    await keyring.createRole({ name: "reader" });
    const meta = JSON.parse('{"plan":"pro","__proto__":{"admin":true}}') as Record<string, never>;
    const hash = sha256("one", "base64url");
    const { migrated, failed, totals } = await migrate([
      {
        hash,
        name: "one",
        externalId: "user 1/ü",
        meta,
        roles: ["reader"],
        permissions: ["documents.*", "a"],
        expires: 5,
        enabled: false,
        credits: { remaining: 7, refill: { interval: "monthly", amount: 3, refillDay: 31 } },
        ratelimits: [limit("requests", { autoApply: true })],
      },
    ]);
    expect({ failed, totals }).toEqual({ failed: [], totals: { migrated: 1, failed: 0 } });
    expect(migrated).toEqual([{ hash, keyId: expect.stringMatching(/^key_/) }]);
    const { keyId } = migrated[0]!;
    expect(await keyring.getKey({ keyId })).toEqual({
      keyId,
      state: "disabled",
      creditsFrom: "key",
      apiId: expect.stringMatching(/^api_/),
      start: "...",
      name: "one",
      meta,
      enabled: false,
      createdAt: time.now,
      expires: 5,
      roles: ["reader"],
      permissions: ["a", "documents.*"],
      credits: { remaining: 7, refill: { interval: "monthly", amount: 3, refillDay: 31 } },
      identity: { id: expect.any(String), externalId: "user 1/ü" },
      ratelimits: [{ id: expect.stringMatching(/^rl_/), ...limit("requests"), autoApply: true }],
    });
    // Contract 4.2-3: the stored hash is the supplied one. Ruling E4: a SHA-256 of the whole key is known by its text
    // at once.
    expect((await store.readMany("keys", [keyId]))[0]).toMatchObject({
      hash,
      migrationId,
      digest: sha256("one", "base64"),
      foreignDigest: sha256("one", "base64"),
    });
    expect((await keyring.whoami({ key: "one" })).keyId).toBe(keyId);
  });

  it("hostile A167, A169, ruling E2: duplicates of the store and of the request and unknown roles fail alone, with reasons, in order", async () => {
    const { keyring, create, migrate, elsewhere } = await migrating();
    const { key } = await create();
    await keyring.createRole({ name: "reader" });
    await elsewhere.createRole({ name: "theirs" });
    const { migrated, failed } = await migrate([
      { hash: sha256("a"), roles: ["reader"] },
      { hash: sha256(key) },
      { hash: sha256("a", "base64") },
      { hash: sha256("b"), roles: ["reader", "nobody"], permissions: ["never.made"], externalId: "never" },
      { hash: "not a hash" },
      { hash: sha256("c"), roles: ["theirs"] },
      { hash: sha256("d"), permissions: ["documents.*"] },
    ]);
    expect(migrated.map(({ hash }) => hash)).toEqual([sha256("a"), sha256("d")]);
    expect(failed.map(({ hash, reason }) => [hash, reason])).toEqual([
      [sha256(key), "ALREADY_EXISTS"],
      [sha256("a", "base64"), "ALREADY_EXISTS"],
      [sha256("b"), "UNKNOWN_ROLE"],
      ["not a hash", "INVALID_HASH"],
      [sha256("c"), "UNKNOWN_ROLE"],
    ]);
    for (const { message } of failed) expect(message).toMatch(/^[a-z].{20,}/);
    for (const search of ["never"]) {
      expect((await keyring.listPermissions({ search })).data).toEqual([]);
      expect((await keyring.listIdentities({ search })).data).toEqual([]);
    }
    expect((await keyring.listPermissions()).data).toMatchObject([{ slug: "documents.*" }]);
  });

  it("keys of a batch that name the same grants have the same grants, and others theirs", async () => {
    const { keyring, migrate } = await migrating();
    for (const name of ["reader", "writer", "reader, writer"]) await keyring.createRole({ name });
    const grants = [
      { roles: ["reader", "writer"], permissions: ["a", "b"] },
      { roles: ["reader, writer"], permissions: ["a"] },
      { roles: ["reader", "writer"], permissions: ["a", "b"] },
      { permissions: ["b", "b"] },
    ];
    const { migrated } = await migrate(grants.map((grant, i) => ({ ...keysOf(1, i)[0]!, ...grant })));
    const shown = [];
    for (const { keyId } of migrated) shown.push(await keyring.getKey({ keyId }));
    expect(shown.map(({ roles, permissions }) => [roles, permissions])).toEqual([
      [
        ["reader", "writer"],
        ["a", "b"],
      ],
      [["reader, writer"], ["a"]],
      [
        ["reader", "writer"],
        ["a", "b"],
      ],
      [undefined, ["b"]],
    ]);
  });

  it("ruling E2: a hash that another workspace imported exists already", async () => {
    const { store, migrate, elsewhere } = await migrating();
    const { apiId } = await elsewhere.createApi({ name: "theirs" });
    const { migrationId } = await elsewhere.createMigration({ algorithm: "sha256" });
    await elsewhere.migrateKeys({ migrationId, apiId, keys: keysOf(1) });
    expect((await migrate(keysOf(2))).failed).toMatchObject([{ reason: "ALREADY_EXISTS" }]);
    expect(await store.list("keys", { workspaceId: "ws_default", limit: 10 })).toHaveLength(1);
  });

  it("a batch of which nothing is left asks the store to insert nothing", async () => {
    const store = memoryStore();
    const { migrate } = await migrating({
      store: changed(store, {
        insertKeys: () => {
          throw new Error("asked");
        },
      }),
    });
    expect((await migrate([{ hash: "not a hash" }])).totals).toEqual({ migrated: 0, failed: 1 });
  });

  it("hostile A037, A039, A171: a key that breaks the schema is a 400 for the whole array at its path, and nothing is stored", async () => {
    const { keyring, apiId, migrate } = await migrating();
    const nested = JSON.parse('{"a":'.repeat(10_000) + "1" + "}".repeat(10_000)) as unknown;
    const parts: [part: object, location: string][] = [
      [{ hash: "ab" }, ".hash"],
      [{ hash: undefined }, ".hash"],
      [{ credits: { remaining: -1 } }, ".credits.remaining"],
      [{ credits: { remaining: 1.5 } }, ".credits.remaining"],
      [{ credits: { remaining: "5" } }, ".credits.remaining"],
      [{ credits: { remaining: 2 ** 53 } }, ".credits.remaining"],
      [{ credits: { remaining: 1e400 } }, ".credits.remaining"],
      [{ credits: {} }, ".credits.remaining"],
      [{ credits: { remaining: 1, refill: { interval: "monthly", amount: 1 } } }, ".credits.refill.refillDay"],
      [{ expires: -1 }, ".expires"],
      [{ expires: 8.64e15 + 1 }, ".expires"],
      [{ expires: 1e16 }, ".expires"],
      [{ expires: NaN }, ".expires"],
      [{ meta: nested }, ".meta"],
      [{ meta: { note: "\0" } }, ".meta"],
      [{ name: "a\0" }, ".name"],
      [{ externalId: "a\0" }, ".externalId"],
      [{ permissions: ["a b"] }, ".permissions[0]"],
      [{ ratelimits: [limit("one", { autoApply: true }), limit("one", { autoApply: true })] }, ".ratelimits[1].name"],
      [{ ratelimits: [limit("one")] }, ".ratelimits[0].autoApply"],
      [{ plaintext: "x" }, ".plaintext"],
    ];
    for (const [part, location] of parts) {
      const keys = [...keysOf(3), { ...keysOf(1, 9)[0], ...part }, ...keysOf(3, 20)];
      expect(await problems(migrate(keys)), JSON.stringify(Object.keys(part))).toEqual([`body.keys[3]${location}`]);
    }
    expect(await problems(migrate([null, 1, "x", []]))).toEqual([0, 1, 2, 3].map((i) => `body.keys[${i}]`));
    expect((await keyring.listKeys({ apiId })).data).toEqual([]);
  });

  it("hostile A037, A039: null is unlimited, times up to the bound and in seconds go in", async () => {
    const { keyring, migrate } = await migrating();
    const { migrated } = await migrate([
      { hash: sha256("a"), credits: { remaining: null }, expires: 1_700_000_000 },
      { hash: sha256("b"), expires: 0, credits: { remaining: Number.MAX_SAFE_INTEGER } },
      { hash: sha256("c"), expires: 8.64e15 },
    ]);
    const records = await Promise.all(migrated.map(({ keyId }) => keyring.getKey({ keyId })));
    expect(records.map(({ expires }) => expires)).toEqual([1_700_000_000, 0, 8.64e15]);
    expect(records.map(({ credits }) => credits?.remaining)).toEqual([undefined, Number.MAX_SAFE_INTEGER, undefined]);
  });

  it("the frame and the keys of an array are judged together; what is no list is a 400 at body.keys", async () => {
    const { keyring, apiId } = await migrating();
    const body = { migrationId: "ab", apiId: "a", keys: [{ hash: "x" }], extra: 1 };
    expect(await problems(keyring.migrateKeys(body as never))).toEqual([
      "body.migrationId",
      "body.apiId",
      "body.extra",
      "body.keys[0].hash",
    ]);
    for (const keys of [[], null, undefined, "abc", {}, 5]) {
      expect(await problems(keyring.migrateKeys({ migrationId: "mig", apiId, keys } as never))).toEqual(["body.keys"]);
    }
    for (const bad of [null, undefined, [], 5])
      expect(await problems(keyring.migrateKeys(bad as never))).toEqual(["body"]);
  });

  it("hostile A179: unknown migrations, unknown APIs and those of another workspace are 404", async () => {
    const { keyring, elsewhere, apiId, migrationId } = await migrating();
    const theirs = await elsewhere.createMigration({ algorithm: "sha256" });
    const { apiId: theirApi } = await elsewhere.createApi({ name: "theirs" });
    const keys = keysOf(1);
    for (const body of [
      { migrationId: "unknown", apiId, keys },
      { migrationId: theirs.migrationId, apiId, keys },
      { migrationId, apiId: "api_unknown", keys },
      { migrationId, apiId: theirApi, keys },
    ]) {
      expect(await fault(keyring.migrateKeys(body))).toBe("NOT_FOUND 404");
    }
    expect(await problems(keyring.migrateKeys({ migrationId: "x".repeat(256), apiId, keys }))).toEqual([
      "body.migrationId",
    ]);
  });

  it("ruling E3: a migration whose algorithm is not registered here is a 400 that says so, not a million invalid hashes", async () => {
    const store = memoryStore();
    const registered = createKeyring(store, {
      migrationAlgorithms: { reversed: (key) => key.split("_").reverse().join("_") },
    });
    const { migrationId } = await registered.createMigration({ algorithm: "reversed" });
    const { keyring, apiId } = await world({ store });
    const keys = [{ hash: "b_a" }];
    const { errors } = await failure(keyring.migrateKeys({ migrationId, apiId, keys }));
    expect(errors).toMatchObject([{ location: "body.migrationId", fix: "register it in options.migrationAlgorithms" }]);
    expect((await registered.migrateKeys({ migrationId, apiId, keys })).migrated).toHaveLength(1);
  });

  it("ruling E4: an imported key verifies, whichever way its hash was written", async () => {
    const { store, migrate, time } = await migrating();
    await migrate([{ hash: sha256("a") }, { hash: sha256("b", "base64") }, { hash: sha256("c", "base64url") }]);
    const verifier = createVerifier(store, { clock: () => time.now });
    for (const key of ["a", "b", "c"]) expect((await verifier.verify({ key })).code).toBe("VALID");
    await verifier.close();
  });
});

describe("migrateKeys: batches, progress, iterables", () => {
  it("a key that cannot be read fails alone in an iterable; in an array it is a problem", async () => {
    const { migrate } = await migrating();
    const fail = (): never => {
      throw new Error("secret");
    };
    const bad = [
      {
        get hash() {
          return fail();
        },
      },
      {
        hash: sha256("lazy"),
        meta: {
          get plan() {
            return fail();
          },
        },
      },
      new Proxy({}, { ownKeys: fail }),
    ];
    const result = await migrate(stream([...keysOf(1), ...bad, ...keysOf(1, 1)]));
    expect(result.totals).toEqual({ migrated: 2, failed: 3 });
    expect(result.failed).toEqual(
      [1, 2, 3].map((index) => {
        return { hash: "", index, reason: "INVALID_KEY", message: `body.keys[${index}]: cannot be read` };
      }),
    );
    expect(await problems(migrate([...keysOf(1, 2), bad[0]]))).toEqual(["body.keys[1]"]);
  });

  it("ruling E6: an iterable is read a batch at a time, and its results are handed over", async () => {
    const { keyring, apiId, migrate } = await migrating();
    let read = 0;
    let stored = 0;
    let ahead = 0;
    function* source() {
      for (const key of keysOf(2_500)) {
        read++;
        ahead = Math.max(ahead, read - stored);
        yield key;
      }
    }
    const batches: number[] = [];
    const progress: object[] = [];
    const answer = await migrate(source(), {
      onBatch: async ({ migrated, failed }) => {
        await Promise.resolve();
        stored += migrated.length + failed.length;
        batches.push(migrated.length);
      },
      onProgress: (totals) => void progress.push(totals),
    });
    expect(answer).toEqual({ migrated: [], failed: [], totals: { migrated: 2_500, failed: 0 } });
    expect(batches).toEqual([1_000, 1_000, 500]);
    expect(progress).toEqual([1_000, 2_000, 2_500].map((migrated) => ({ migrated, failed: 0 })));
    expect(ahead).toBeLessThanOrEqual(1_001);
    expect((await keyring.listKeys({ apiId })).pagination.hasMore).toBe(true);
  });

  it("ruling E6: while a late store works on a batch one more is read, and stored once the results of the first were taken", async () => {
    const inner = memoryStore();
    const store = late(inner);
    const { keyring, apiId, migrate } = await migrating({ store });
    let [read, told, ahead] = [0, 0, 0];
    const readWhileStoring: number[] = [];
    const insertKeys = store.insertKeys.bind(store);
    store.insertKeys = async (keys) => {
      const answer = await insertKeys(keys);
      readWhileStoring.push(read);
      return answer;
    };
    function* source() {
      for (const key of keysOf(10)) {
        read++;
        ahead = Math.max(ahead, read - told);
        yield key;
      }
    }
    const seen: number[] = [];
    await migrate(source(), {
      batchSize: 3,
      onBatch: async ({ migrated }) => {
        await new Promise((resolve) => setTimeout(resolve, 5));
        told += migrated.length;
        seen.push((await keyring.listKeys({ apiId })).data.length);
      },
    });
    expect(seen).toEqual([3, 6, 9, 10]);
    expect(readWhileStoring).toEqual([6, 9, 10, 10]);
    // Two batches in hand, and not one key more.
    expect(ahead).toBe(6);
  });

  it("ruling E2: what is wrong with the batch that was read ahead is thrown after the one before was stored and told", async () => {
    const { keyring, apiId, migrate } = await migrating({ store: late() });
    const told: number[] = [];
    function* source() {
      yield* keysOf(4);
      throw new Error("connection lost");
    }
    const importing = migrate(source(), { batchSize: 4, onBatch: ({ migrated }) => void told.push(migrated.length) });
    await expect(importing).rejects.toThrow("connection lost");
    expect(told).toEqual([4]);
    expect((await keyring.listKeys({ apiId })).data).toHaveLength(4);
  });

  it("a batch that was read ahead and is not stored leaves nothing behind; its source is closed, and not waited for", async () => {
    for (const isStuck of [false, true]) {
      const { keyring, migrate } = await migrating({ store: late() });
      let closed = 0;
      async function* source() {
        try {
          yield* stream(keysOf(2));
          if (isStuck) await new Promise(() => undefined);
          yield* keysOf(9, 5).map((key) => ({ ...key, externalId: "never", permissions: ["never.made"] }));
        } finally {
          closed++;
        }
      }
      const onBatch = () => Promise.reject(new Error("stop"));
      await expect(migrate(source(), { batchSize: 2, onBatch })).rejects.toThrow("stop");
      expect(closed).toBe(isStuck ? 0 : 1);
      expect((await keyring.listIdentities()).data).toEqual([]);
      expect((await keyring.listPermissions()).data).toEqual([]);
    }
  });

  it("onBatch is waited for: the next batch is not stored while the last is being taken", async () => {
    const { keyring, apiId, migrate } = await migrating();
    const seen: number[] = [];
    await migrate(keysOf(6), {
      batchSize: 2,
      onBatch: async () => {
        await new Promise((resolve) => setTimeout(resolve, 20));
        seen.push((await keyring.listKeys({ apiId })).data.length);
      },
    });
    expect(seen).toEqual([2, 4, 6]);
  });

  it("onProgress is waited for too: what it rejects with ends the import", async () => {
    const { keyring, apiId, migrate } = await migrating();
    const told: number[] = [];
    const onProgress = async ({ migrated }: { migrated: number }) => {
      await Promise.resolve();
      told.push(migrated);
      if (migrated === 4) throw new Error("the terminal is gone");
    };
    await expect(migrate(keysOf(6), { batchSize: 2, onProgress })).rejects.toThrow("the terminal is gone");
    expect(told).toEqual([2, 4]);
    expect((await keyring.listKeys({ apiId })).data).toHaveLength(4);
  });

  it("without onBatch the answer lists everything, from arrays, iterables and async iterables alike", async () => {
    for (const make of [
      (keys: unknown[]) => keys,
      (keys: unknown[]) => new Set(keys),
      (keys: unknown[]) => stream(keys),
    ]) {
      const { migrate } = await migrating();
      const keys = [...keysOf(7), ...keysOf(2)];
      const { migrated, failed, totals } = await migrate(make(keys), { batchSize: 3 });
      expect(migrated.map(({ hash }) => hash)).toEqual(keysOf(7).map(({ hash }) => hash));
      expect(failed.map(({ hash, reason }) => [hash, reason])).toEqual(
        keysOf(2).map(({ hash }) => [hash, "ALREADY_EXISTS"]),
      );
      expect(totals).toEqual({ migrated: 7, failed: 2 });
    }
  });

  it("an empty iterable is no fault: there was nothing to import", async () => {
    const { migrate } = await migrating();
    expect(await migrate(stream([]))).toEqual({ migrated: [], failed: [], totals: { migrated: 0, failed: 0 } });
  });

  it("in an iterable a key that breaks the schema fails alone, with its index and what is wrong", async () => {
    const { keyring, apiId, migrate } = await migrating();
    const keys = [
      ...keysOf(5),
      { hash: 1 },
      ...keysOf(1, 6),
      { hash: "x", a: 1 },
      null,
      ...keysOf(11, 9),
      { name: "" },
    ];
    for (const batchSize of [1, 4, 100]) {
      const { failed, totals } = await migrate(stream(keys), { batchSize });
      expect(failed.filter(({ reason }) => reason === "INVALID_KEY")).toEqual([
        {
          hash: "",
          index: 5,
          reason: "INVALID_KEY",
          message: expect.stringMatching(/^body\.keys\[5\]\.hash: must be/),
        },
        { hash: "x", index: 7, reason: "INVALID_KEY", message: expect.stringMatching(/\[7\]\.hash: .*; .*\[7\]\.a: /) },
        { hash: "", index: 8, reason: "INVALID_KEY", message: expect.stringMatching(/^body\.keys\[8\]: /) },
        { hash: "", index: 20, reason: "INVALID_KEY", message: expect.stringMatching(/hash: .*name: /) },
      ]);
      const isFirst = batchSize === 1;
      expect(totals).toEqual(isFirst ? { migrated: 17, failed: 4 } : { migrated: 0, failed: 21 });
    }
    expect((await keyring.listKeys({ apiId })).data).toHaveLength(17);
  });

  it("of a key with many problems the first five are listed, and how many there are beyond", async () => {
    const { migrate } = await migrating();
    const unknown = Object.fromEntries(["a", "b", "c", "d", "e", "f"].map((name) => [name, 1]));
    const { failed } = await migrate(stream([{ ...keysOf(1)[0], ...unknown, hash: 1 }]));
    const listed = failed[0]!.message.split("; ");
    expect(listed).toHaveLength(6);
    expect(listed.at(-1)).toBe("2 more");
    for (const problem of listed.slice(0, 5)) expect(problem).toMatch(/^body\.keys\[0\]\.(hash|[a-f]): /);
  });

  it("of an array a hundred problems are listed, where the last of them is one of a key with more, too", async () => {
    const { migrate } = await migrating();
    const key = { hash: 1, enabled: 1, name: 1 };
    const locations = await problems(migrate(Array.from({ length: 40 }, () => key)));
    expect(locations).toHaveLength(100);
    expect(new Set(locations).size).toBe(100);
    expect(locations.at(-1)).toMatch(/^body\.keys\[33\]\./);
  });

  it("createdAt and a display prefix may be given; refills count from the import on", async () => {
    const { keyring, migrate, within } = await migrating();
    const [key] = keysOf(1);
    const refill = { interval: "daily", amount: 10 } as const;
    const given = { ...key!, createdAt: 1_500_000_000_000, prefix: "sk_live", credits: { remaining: 5, refill } };
    const { migrated } = await migrate([given]);
    expect(await keyring.getKey({ keyId: migrated[0]!.keyId })).toMatchObject({
      createdAt: 1_500_000_000_000,
      start: "sk_live_...",
      credits: { remaining: 5 },
    });
    await keyring.updateCredits({ keyId: migrated[0]!.keyId, operation: "increment", value: 1 });
    expect((await keyring.getKey({ keyId: migrated[0]!.keyId })).credits).toMatchObject({ remaining: 6 });
    expect(await problems(migrate([{ ...key!, createdAt: -1, prefix: "a b" }]))).toEqual([
      "body.keys[0].createdAt",
      "body.keys[0].prefix",
    ]);
    expect(await problems(within([given], { specifiedFieldsOnly: true }))).toEqual([
      "body.keys[0].createdAt",
      "body.keys[0].prefix",
    ]);
  });

  it("a key keeps its id, unless a key of any workspace has it, and its new owner gets metadata and limits", async () => {
    const { keyring, store, migrate, within } = await migrating();
    const shared = { name: "shared", limit: 2, duration: 60_000, autoApply: true };
    const identity = { meta: { plan: "pro" }, ratelimits: [shared] };
    const [one, two, three, four] = keysOf(4);
    const { migrated, failed } = await migrate([
      { ...one!, keyId: "key_theirs1", externalId: "new", identity },
      { ...two!, keyId: "key_theirs1" },
      { ...three!, keyId: "key_theirs2", externalId: "new", identity: { meta: { plan: "other" } } },
      { ...four!, externalId: "bare", identity: {} },
    ]);
    expect(migrated.map(({ keyId }) => keyId).slice(0, 2)).toEqual(["key_theirs1", "key_theirs2"]);
    expect(failed).toMatchObject([{ hash: two!.hash, reason: "ALREADY_EXISTS" }]);
    expect(await keyring.getIdentity({ identity: "new" })).toMatchObject({
      meta: { plan: "pro" },
      ratelimits: [{ ...shared, id: expect.stringMatching(/^rl_/) }],
    });
    const bare = await keyring.getIdentity({ identity: "bare" });
    expect([bare.meta, bare.ratelimits]).toEqual([undefined, undefined]);
    const elsewhere = createKeyring(store, { workspaceId: "ws_other" });
    const { apiId } = await elsewhere.createApi({ name: "theirs" });
    await elsewhere.createMigration({ id: "theirs", algorithm: "sha256" });
    const body = { migrationId: "theirs", apiId, keys: [{ hash: sha256("elsewhere"), keyId: "key_theirs1" }] };
    for (const dryRun of [true, false])
      expect((await elsewhere.migrateKeys(body, { dryRun })).failed).toMatchObject([{ reason: "ALREADY_EXISTS" }]);
    const wrong = { ...two!, keyId: "key-1", identity: { ratelimits: [{ ...shared, limit: 0 }] } };
    const places = ["body.keys[0].keyId", "body.keys[0].identity.ratelimits[0].limit"];
    expect(await problems(migrate([wrong]))).toEqual(places);
    const more = { ...two!, keyId: "key_theirs3", identity };
    const refused = await problems(within([more], { specifiedFieldsOnly: true }));
    expect(refused).toEqual(["body.keys[0].keyId", "body.keys[0].identity"]);
  });

  it("the first characters that another system kept are shown until the key verifies, and a rotation keeps its prefix", async () => {
    const { keyring, store, migrate } = await migrating();
    const text = "sk_live_zPZOpChjhvsAPVEHJtveVvty";
    const { migrated } = await migrate([{ hash: sha256(text), start: "sk_live_z" }]);
    const { keyId } = migrated[0]!;
    expect((await keyring.getKey({ keyId })).start).toBe("sk_live_z...");
    const verifier = createVerifier(store);
    expect((await verifier.verify({ key: text })).code).toBe("VALID");
    await verifier.close();
    expect((await keyring.getKey({ keyId })).start).toBe("sk_live_zPZO");
    for (const start of ["zPZO", "sk_live_", "sk_live_z"]) {
      const [one] = (await migrate([{ hash: sha256(`${start} unseen`), start }])).migrated;
      const { key } = await keyring.rerollKey({ keyId: one!.keyId, expiration: 1_000 });
      expect(key.startsWith("sk_live_")).toBe(start !== "zPZO");
    }
    expect(await problems(migrate([{ hash: sha256(text), start: "é" }]))).toEqual(["body.keys[0].start"]);
  });

  it("a hash of any length is no fault of the form", async () => {
    const { migrate } = await migrating();
    const hash = "a".repeat(100_000);
    expect((await migrate([{ hash }])).failed).toMatchObject([{ hash, reason: "INVALID_HASH" }]);
  });

  it.each([
    ["memory", () => memoryStore()],
    ["SQLite", () => sqliteStore(":memory:")],
  ])("a hash longer than 1,024 bytes fails alone, whatever the algorithm; on %s", async (_, open: () => Store) => {
    const store = open();
    const { migrate } = await migrating({ store, migrationAlgorithms: { same: (key) => key } }, "same");
    const [longest, longer] = ["x".repeat(1_024), "x".repeat(1_025)] as const;
    const wide = "\u20ac".repeat(342);
    const { migrated, failed } = await migrate([{ hash: longer }, { hash: longest }, { hash: wide }, { hash: "xyz" }]);
    expect(migrated.map(({ hash }) => hash)).toEqual([longest, "xyz"]);
    expect(failed).toMatchObject([longer, wide].map((hash) => ({ hash, reason: "INVALID_HASH" })));
    await store.close();
  });

  it.each([
    ["memory", () => memoryStore()],
    ["SQLite", () => sqliteStore(":memory:")],
  ])("an API that is deleted meanwhile ends the import, and keys not stored yet stay free; on %s", async (_, open) => {
    const store: Store = open();
    const { keyring, apiId, migrationId, migrate } = await migrating({ store });
    const keys = keysOf(30);
    async function* deleting() {
      for (const [i, key] of keys.entries()) {
        if (i === 10) await keyring.deleteApi({ apiId });
        yield await Promise.resolve(key);
      }
    }
    const batches: number[] = [];
    const onBatch = ({ migrated }: { migrated: readonly object[] }) => void batches.push(migrated.length);
    expect(await fault(migrate(deleting(), { batchSize: 5, onBatch }))).toBe("NOT_FOUND 404");
    // While the second batch is written the third may have been read.
    expect(batches.reduce((sum, count) => sum + count, 0)).toBeLessThanOrEqual(10);
    const other = (await keyring.createApi({ name: "other" })).apiId;
    const rest = keys.slice(10);
    const again = await keyring.migrateKeys({ migrationId, apiId: other, keys: rest });
    expect([again.migrated.length, again.failed.length]).toEqual([20, 0]);
    await store.close();
  });

  it("ruling E6: an import that was interrupted ends where it is run again", async () => {
    const { keyring, apiId, migrate } = await migrating();
    let closed = false;
    async function* broken() {
      try {
        yield* stream(keysOf(5));
        throw new Error("connection lost");
      } finally {
        closed = true;
      }
    }
    await expect(migrate(broken(), { batchSize: 2 })).rejects.toThrow("connection lost");
    expect((await keyring.listKeys({ apiId })).data).toHaveLength(4);
    const stopping = migrate(
      (async function* () {
        try {
          yield* stream(keysOf(100, 50));
        } finally {
          closed = true;
        }
      })(),
      {
        batchSize: 2,
        onBatch: () => {
          throw new Error("stop");
        },
      },
    );
    closed = false;
    await expect(stopping).rejects.toThrow("stop");
    expect(closed).toBe(true);
    expect((await migrate(keysOf(10))).totals).toEqual({ migrated: 6, failed: 4 });
  });

  it("the event loop turns between batches, also over a synchronous store, and over one whose promises wait for nothing", async () => {
    const inner = memoryStore();
    const hasty = {
      ...inner,
      insertKeys: async (keys: Parameters<typeof inner.insertKeys>[0]) => inner.insertKeys(keys),
    };
    for (const store of [inner, hasty]) {
      const { migrate } = await migrating({ store });
      let turns = 0;
      const count = (): void => void (turns++, (next = setImmediate(count)));
      let next = setImmediate(count);
      await migrate(keysOf(50, store === inner ? 0 : 50), { batchSize: 5 });
      clearImmediate(next);
      expect(turns).toBeGreaterThanOrEqual(9);
    }
  });

  it("options are judged: unknown ones and wrong ones are the programmer's mistakes", async () => {
    const { migrate } = await migrating();
    await expect(migrate(keysOf(1), { size: 1 } as never)).rejects.toThrow(/options\.size is not an option/);
    await expect(migrate(keysOf(1), { batchSize: 0 })).rejects.toThrow(RangeError);
    await expect(migrate(keysOf(1), { batchSize: 10_001 })).rejects.toThrow(RangeError);
    await expect(migrate(keysOf(1), { onProgress: 1 } as never)).rejects.toThrow(/options\.onProgress/);
    await expect(migrate(keysOf(1), { onBatch: {} } as never)).rejects.toThrow(/options\.onBatch/);
  });

  it("makes no more permissions than the call allows, and then stores nothing; a thousand at a time", async () => {
    const { within, keyring, store } = await migrating();
    const named = (from: number, to: number) =>
      keysOf(30, from).map((key, n) => ({
        ...key,
        permissions: Array.from({ length: to - from }, (_, i) => `p.${n}.${from + i}`),
      }));
    const { errors } = await failure(within(named(0, 100), { maxNewPermissions: 2_999 }));
    expect(errors.map(({ location }) => location)).toEqual(["body.keys"]);
    expect((await keyring.listPermissions()).data).toEqual([]);
    const sizes: number[] = [];
    const write = store.write.bind(store);
    store.write = (writes) => (sizes.push(writes.length), write(writes));
    expect((await within(named(0, 100), { maxNewPermissions: 3_000 })).migrated).toHaveLength(30);
    expect(sizes).toEqual([1_000, 1_000, 1_000]);
    // What exists is not counted.
    const again = named(0, 100).map((key, n) => ({ ...key, hash: sha256(`again ${n}`) }));
    expect((await within(again, { maxNewPermissions: 0 })).migrated).toHaveLength(30);
  });

  it("counts each new permission once, also where counting takes several turns of the event loop", async () => {
    const { within, keyring } = await migrating();
    // Each of 4,500 twice.
    const keys = keysOf(90).map((key, n) => ({
      ...key,
      permissions: Array.from({ length: 100 }, (_, i) => `p.${n % 45}.${i}`),
    }));
    const { errors } = await failure(within(keys, { maxNewPermissions: 4_499 }));
    expect(errors.map(({ location }) => location)).toEqual(["body.keys"]);
    expect((await keyring.listPermissions()).data).toEqual([]);
    expect((await within(keys, { maxNewPermissions: 4_500 })).migrated).toHaveLength(90);
  });

  it("ruling E2: what is there, what repeats, what has no role or no hash: nothing depends on how an import is cut (property)", async () => {
    const kind = fc.constantFrom("plain", "plain", "role", "garbage", "named");
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.nat(9), kind), { minLength: 1, maxLength: 30 }),
        fc.integer({ min: 1, max: 9 }),
        fc.boolean(),
        fc.boolean(),
        async (picks, batchSize, lazy, isLate) => {
          const { migrate, keyring } = await migrating({ store: isLate ? late() : memoryStore() });
          await migrate(keysOf(3));
          const keys = picks.map(([number, how], i) => ({
            hash: how === "garbage" ? `garbage ${number}` : sha256(`key ${number}`),
            ...(how === "role" && { roles: ["nobody"] }),
            ...(how === "named" && { externalId: `user_${i}`, permissions: [`p${i}`] }),
          }));
          const { migrated, failed } = await migrate(lazy ? stream(keys) : keys, { batchSize });
          const outcome = new Map<string, string>();
          const due = picks.map(([number, how]) => {
            if (how === "garbage") return "INVALID_HASH";
            if (how === "role") return outcome.set(`${number}`, "refused") && "UNKNOWN_ROLE";
            const taken = number < 3 || outcome.has(`${number}`);
            outcome.set(`${number}`, outcome.get(`${number}`) ?? "in");
            return taken ? "ALREADY_EXISTS" : "in";
          });
          const refused = new Set<number>();
          const named = picks.flatMap(([number, how], i) => {
            if (how === "role") refused.add(number);
            return how === "named" && !refused.has(number) ? [`user_${i}`] : [];
          });
          expect(migrated.map(({ hash }) => hash)).toEqual(
            keys.flatMap(({ hash }, i) => (due[i] === "in" ? [hash] : [])),
          );
          expect(failed.map(({ hash, reason }) => [hash, reason])).toEqual(
            keys.flatMap(({ hash }, i) => (due[i] === "in" ? [] : [[hash, due[i]]])),
          );
          const { data } = await keyring.listIdentities();
          expect(data.map(({ externalId }) => externalId).sort()).toEqual(named.sort());
        },
      ),
      { numRuns: runs(120) },
    );
  });

  it("ruling E6: of hashes whose roles are unknown the last are remembered, so that memory stays bounded", () => {
    const refused = createRefused(3);
    for (const digest of ["a", "b", "c", "a", "d"]) refused.add(digest);
    expect(["a", "b", "c", "d"].map(refused.has)).toEqual([false, true, true, true]);
  });
});
