/**
 * Neighbours of the rows of hostile-inputs.json: the same idea from another side, through the public API, on both
 * stores.
 */
import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import type { Store } from "../src/contracts/store.js";
import { createKeyring, createVerifier, type Keyring, memoryStore, type VerifierOptions } from "../src/index.js";
import { sqliteStore } from "../src/stores/sqlite/index.js";
import { faultsOfAnswer } from "./answer-schema.js";
import { failure, limit, NOON } from "./spec/support.js";

const DAY = 86_400_000;
const MAX = Number.MAX_SAFE_INTEGER;
const NOT_FOUND = { valid: false, code: "NOT_FOUND" };
const STORES: readonly (readonly [name: string, open: () => Store])[] = [
  ["memory", memoryStore],
  ["SQLite", () => sqliteStore(":memory:")],
];
const hash = (text: string, algorithm = "sha256") => createHash(algorithm).update(text).digest("hex");
const nested = (levels: number): object => (levels === 1 ? {} : { a: nested(levels - 1) });

describe.each(STORES)("neighbours of hostile rows on the %s store", (_name, open) => {
  async function world(options: VerifierOptions = {}) {
    const store = open();
    const time = { now: NOON };
    const clock = () => time.now;
    const keyring = createKeyring(store, { clock });
    const { verify } = createVerifier(store, { clock, ...options });
    const { apiId } = await keyring.createApi({ name: "documents" });
    const create = (body: Omit<Parameters<Keyring["createKey"]>[0], "apiId"> = {}) =>
      keyring.createKey({ apiId, ...body });
    return { store, keyring, verify, apiId, create, time };
  }

  it("of A007, A065: text that is nearly a key is not the key", async () => {
    const { create, verify } = await world();
    const { key } = await create({ prefix: "sk" });
    const near = [
      `${key}\n`,
      ` ${key}`,
      `${key}\0`,
      `\ufeff${key}`,
      `${key}\u200b`,
      `${key}=`,
      key.slice(0, -1),
      key.slice(3),
      key + key,
    ];
    for (const text of [
      ...near,
      key.toUpperCase(),
      key.toLowerCase(),
      `${key.slice(0, -1)}\u0301`,
      "__proto__",
      "constructor",
      " ",
      "\0",
    ])
      expect(await verify({ key: text }), JSON.stringify(text)).toStrictEqual(NOT_FOUND);
    expect((await verify({ key })).code).toBe("VALID");
  });

  it("of A007: keys that differ only in Unicode form, or beyond Latin-1, are different keys (trap 14)", async () => {
    const { keyring, apiId, verify } = await world();
    const { migrationId } = await keyring.createMigration({ algorithm: "sha256" });
    const texts = ["é", "e\u0301", "Ł", "A", "\u0141A", "😀", "\ud7ff", "\uffff"];
    const { migrated } = await keyring.migrateKeys({
      migrationId,
      apiId,
      keys: texts.map((text) => ({ hash: hash(text) })),
    });
    const found = await Promise.all(texts.map(async (key) => (await verify({ key })).keyId));
    expect(found).toEqual(migrated.map(({ keyId }) => keyId));
    expect(new Set(found).size).toBe(texts.length);
  });

  it("of A009: U+0000 is refused where a store would hold it, and harmless where none does", async () => {
    const { keyring, apiId, create, verify } = await world();
    const { key, keyId } = await create();
    const refused = [
      () => create({ name: "a\0" }),
      () => create({ meta: { a: ["\0"] } }),
      () => create({ meta: { "\0": 1 } }),
      () => keyring.updateKey({ keyId, name: "\0b" }),
      () => keyring.createApi({ name: "abc\0" }),
      () => keyring.createRole({ name: "r\0" }),
      () => keyring.createMigration({ id: "mig\0", algorithm: "sha256" }),
      () => keyring.listRoles({ search: "\0" }),
      () => keyring.migrateKeys({ migrationId: "mig", apiId, keys: [{ hash: "abc\0" }] }),
    ];
    for (const call of refused) expect((await failure(call())).status, String(call)).toBe(400);
    expect(await verify({ key: "\0" })).toStrictEqual(NOT_FOUND);
    expect((await verify({ key, tags: ["\0"] })).code).toBe("VALID");
    expect(await verify({ key: "unknown", migrationId: "\0" })).toStrictEqual(NOT_FOUND);
    expect((await failure(keyring.whoami({ key: "\0" }))).code).toBe("NOT_FOUND");
  });

  it("of A013: names of Object.prototype are plain names of limits, permissions, roles and identities", async () => {
    const { keyring, create, verify } = await world();
    const names = ["__proto__", "constructor", "toString", "hasOwnProperty"];
    for (const name of names) await keyring.createRole({ name, permissions: [`${name}.x`] });
    const { key } = await create({
      permissions: names,
      roles: names,
      externalId: "__proto__",
      ratelimits: [limit("__proto__")],
    });
    const asked = {
      key,
      permissions: "constructor AND __proto__.x",
      ratelimits: [{ name: "constructor", limit: 1, duration: 1_000 }],
    };
    const answer = await verify(asked);
    expect(answer).toMatchObject({ code: "VALID", roles: [...names].sort(), identity: { externalId: "__proto__" } });
    expect(answer.ratelimits?.map(({ name }) => name)).toEqual(["__proto__", "constructor"]);
    expect(faultsOfAnswer(answer, asked)).toEqual([]);
    expect((await verify({ ...asked, permissions: "valueOf" })).code).toBe("INSUFFICIENT_PERMISSIONS");
    expect((await verify(asked)).code).toBe("RATE_LIMITED");
    expect((await failure(verify({ key, ratelimits: [{ name: "valueOf" }] }))).status).toBe(400);
  });

  it("of A015: what was judged is what is charged", async () => {
    const { create, verify } = await world();
    const { key } = await create({ credits: { remaining: 10 }, ratelimits: [limit("minute")] });
    const costs = [3, -1_000_000, 0];
    const shifty = (name: string, values: unknown[]) =>
      Object.defineProperty({}, name, {
        enumerable: true,
        get: () => (values.length > 1 ? values.shift() : values[0]),
      });
    const ratelimits = [Object.assign(shifty("cost", [4, -50, 0]), { name: "minute" })];
    expect(await verify({ key, credits: shifty("cost", costs) as never, ratelimits })).toMatchObject({
      credits: 7,
      ratelimits: [{ remaining: 6 }],
    });
    expect((await verify({ key, credits: { cost: 0 } })).credits).toBe(7);
  });

  it("of A107: nothing that was looked for in vain stays hidden once it is there, also by another way", async () => {
    const { keyring, apiId, verify } = await world();
    const one = await keyring.createMigration({ algorithm: "sha256" });
    const two = await keyring.createMigration({ algorithm: "sha512" });
    const ask = async (key: string, migrationId?: string) =>
      (await verify({ key, ...(migrationId !== undefined && { migrationId }) })).code;
    for (const key of ["plain", "late"]) for (let i = 0; i < 2; i++) expect(await ask(key)).toBe("NOT_FOUND");
    const { migrated } = await keyring.migrateKeys({ ...one, apiId, keys: [{ hash: hash("plain") }] });
    expect(await ask("plain")).toBe("VALID");
    await keyring.migrateKeys({ ...two, apiId, keys: [{ hash: hash("late", "sha512") }] });
    expect([await ask("late"), await ask("late", two.migrationId), await ask("late")]).toEqual([
      "NOT_FOUND",
      "VALID",
      "VALID",
    ]);
    await keyring.deleteKey({ keyId: migrated[0]!.keyId });
    expect(await ask("plain")).toBe("NOT_FOUND");
    expect((await keyring.migrateKeys({ ...one, apiId, keys: [{ hash: hash("plain") }] })).failed).toHaveLength(1);
    await keyring.deleteKey({ keyId: migrated[0]!.keyId, permanent: true });
    expect(await ask("plain")).toBe("NOT_FOUND");
    await keyring.migrateKeys({ ...one, apiId, keys: [{ hash: hash("plain") }] });
    expect(await ask("plain")).toBe("VALID");
    await keyring.deleteApi({ apiId });
    expect([await ask("plain"), await ask("late"), await ask("late", two.migrationId)]).toEqual(
      Array(3).fill("NOT_FOUND"),
    );
  });

  it.each([{ mode: "exact" }, { mode: "leased", firstStep: 250 }] as const)(
    "of A121, ruling A7: at any instant a clock can name, nothing throws, and none of its steps back adds a credit ($mode)",
    async (credits) => {
      const { create, verify, time } = await world({ credits });
      const refill = { interval: "monthly", amount: 1_000, refillDay: 31 } as const;
      const { key } = await create({
        credits: { remaining: 50, refill },
        ratelimits: [limit("minute", { limit: 50 })],
      });
      const instants = [NOON, -8.64e15, -1, 0, 0.5, NOON, NOON - DAY, NOON + 400 * DAY, NOON, 8.64e15, 1, NOON];
      let latest = -Infinity;
      let balance = 50;
      for (const now of instants) {
        time.now = now;
        const answer = await verify({ key });
        expect(faultsOfAnswer(answer), String(now)).toEqual([]);
        expect(answer.code, String(now)).toBe("VALID");
        if (now <= latest) expect(answer.credits, String(now)).toBe(balance - 1);
        balance = answer.credits!;
        latest = Math.max(latest, now);
      }
    },
  );

  it("of A127, A129: sums of costs past 2^53 are refused, and take nothing", async () => {
    const { create, verify } = await world();
    const { key } = await create({ ratelimits: [limit("minute"), limit("wide", { limit: MAX, autoApply: false })] });
    const twice = (name: string, cost: number) => verify({ key, ratelimits: [1, 2].map(() => ({ name, cost })) });
    for (const name of ["minute", "wide"]) expect((await twice(name, MAX)).code).toBe("RATE_LIMITED");
    expect(await twice("minute", 5)).toMatchObject({ code: "VALID", ratelimits: [{ remaining: 0 }, { remaining: 0 }] });
    expect(
      (
        await verify({
          key,
          ratelimits: [
            { name: "minute", cost: 0 },
            { name: "wide", cost: MAX },
          ],
        })
      ).code,
    ).toBe("VALID");
    expect((await verify({ key, ratelimits: [{ name: "minute", cost: 0 }, { name: "wide" }] })).code).toBe(
      "RATE_LIMITED",
    );
  });

  it("of A037, A165: the largest balance spends exactly", async () => {
    const { keyring, create, verify } = await world();
    const { key, keyId } = await create({ credits: { remaining: MAX } });
    expect((await verify({ key, credits: { cost: 10 ** 12 } })).credits).toBe(MAX - 10 ** 12);
    await keyring.updateCredits({ keyId, operation: "increment", value: MAX });
    expect((await verify({ key })).credits).toBe(MAX - 1);
    await keyring.updateCredits({ keyId, operation: "decrement", value: MAX });
    expect(await verify({ key })).toMatchObject({ code: "USAGE_EXCEEDED", credits: 0 });
  });

  it("of A171, ruling G7: meta of 32 levels comes back from every verification; of 33 it is a 400 in every verb", async () => {
    const { keyring, apiId, create, verify } = await world();
    const { key, keyId } = await create({ meta: nested(32) as never, externalId: "u" });
    expect((await verify({ key })).meta).toEqual(nested(32));
    const meta = nested(33) as never;
    const { migrationId } = await keyring.createMigration({ algorithm: "sha256" });
    const verbs = {
      "body.meta": [
        () => create({ meta }),
        () => keyring.updateKey({ keyId, meta }),
        () => keyring.createIdentity({ externalId: "v", meta }),
        () => keyring.updateIdentity({ identity: "u", meta }),
      ],
      "body.keys[0].meta": [() => keyring.migrateKeys({ migrationId, apiId, keys: [{ hash: hash("k"), meta }] })],
    };
    for (const [location, calls] of Object.entries(verbs))
      for (const call of calls)
        expect((await failure(call())).errors.map((problem) => problem.location)).toEqual([location]);
  });

  it("of A181: text that looks like SQL, or like a pattern, is only text in every verb", async () => {
    const { keyring, apiId, verify } = await world();
    const nasty = ["'; DROP TABLE keystile_keys;--", "%", "_%_", "\\", "$1", "?1", ":a", '"', "[a-z]*"];
    const { migrationId } = await keyring.createMigration({ id: "'; --", algorithm: "sha256" });
    for (const text of nasty) {
      await keyring.createRole({ name: text, description: text });
      const keys = [{ hash: hash(text), name: text, externalId: text, roles: [text], meta: { [text]: text } }];
      await keyring.migrateKeys({ migrationId, apiId, keys });
      expect(await verify({ key: text })).toMatchObject({
        name: text,
        meta: { [text]: text },
        identity: { externalId: text },
      });
      expect((await keyring.listKeys({ apiId, externalId: text })).data).toHaveLength(1);
      expect((await keyring.listRoles({ search: text })).data.map(({ name }) => name)).toEqual(
        nasty.slice(0, nasty.indexOf(text) + 1).filter((name) => name.includes(text)),
      );
    }
    expect((await keyring.listKeys({ apiId })).data).toHaveLength(nasty.length);
  });

  it("ruling A4: an address that is none, or is written otherwise than people read it, is in no list", async () => {
    const { create, verify } = await world();
    const { key } = await create({ ipAllowlist: ["10.0.0.1"] });
    const from = async (clientAddress: unknown) => (await verify({ key }, { clientAddress } as object)).code;
    for (const address of ["10.0.0.1", "::ffff:10.0.0.1", "::FFFF:0a00:0001"])
      expect(await from(address), address).toBe("VALID");
    const outside = [
      "",
      "10.0.0.1 ",
      "010.0.0.1",
      "10.0.0.01",
      "10.1",
      "0x0a000001",
      "167772161",
      "10.0.0.1/32",
      "::10.0.0.1",
    ];
    for (const address of [...outside, undefined, null, 167772161, ["10.0.0.1"], { toString: () => "10.0.0.1" }])
      expect(await from(address), JSON.stringify(address)).toBe("FORBIDDEN");
    // Some proxies add the port of the connection.
    expect([await from("10.0.0.1:80"), await from("10.0.0.2:80")]).toEqual(["VALID", "FORBIDDEN"]);
  });
});
