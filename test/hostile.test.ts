/**
 * Rows of hostile-inputs.json that no other test names, each on both stores that come along; then neighbours of rows
 * that have tests elsewhere. Callers, headers and tokens are in spec/callers, authenticate, callers/ and http/hostile;
 * Postgres and Redis (A117, A155, A157, A183, A189) have no code here to be tried on.
 */
import { createHash } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { Store } from "../src/contracts/store.js";
import {
  createKeyring,
  createVerifier,
  type Keyring,
  memoryStore,
  type V2KeysVerifyKeyRequestBody,
  type VerifierOptions,
} from "../src/index.js";
import { sqliteStore } from "../src/stores/sqlite/index.js";
import { faultsOfAnswer, faultsOfError } from "./answer-schema.js";
import { hasKeyChecksum } from "./key-checksum.js";
import { dice } from "./model/dice.js";
import { counting, failure, limit, NOON } from "./spec/support.js";
import { createPastKey } from "./as-service.js";

const DAY = 86_400_000;
const NOT_FOUND = { valid: false, code: "NOT_FOUND" };
const STORES: readonly (readonly [name: string, open: () => Store])[] = [
  ["memory", memoryStore],
  ["SQLite", () => sqliteStore(":memory:")],
];
const MODES = [{ mode: "exact" }, { mode: "leased", firstStep: 250 }] as const;
const hash = (text: string) => createHash("sha256").update(text).digest("hex");

async function worldOf(store: Store, options: VerifierOptions = {}) {
  const time = { now: NOON };
  const clock = () => time.now;
  const keyring = createKeyring(store, { clock });
  const verifier = createVerifier(store, { clock, ...options });
  const { apiId } = await keyring.createApi({ name: "documents" });
  const create = (body: Omit<Parameters<Keyring["createKey"]>[0], "apiId"> = {}) =>
    createPastKey(keyring, { apiId, ...body });
  return { store, keyring, verifier, verify: verifier.verify, apiId, create, time, clock };
}

describe.each(STORES)("hostile rows on the %s store", (_name, open) => {
  it("A059: roles hold no roles, so there is no cycle; what is taken from a role, or a role itself, is gone with the next call", async () => {
    const { keyring, create, verify } = await worldOf(open());
    const cycle = await failure(keyring.createRole({ name: "a", roles: ["a"] } as never));
    expect(cycle.errors.map(({ location }) => location)).toEqual(["body.roles"]);
    const { roleId } = await keyring.createRole({ name: "editor", permissions: ["a.read", "a.write"] });
    const { key } = await create({ roles: ["editor"] });
    const may = async (permissions: string) => (await verify({ key, permissions })).code;
    expect([await may("a.read"), await may("a.write")]).toEqual(["VALID", "VALID"]);
    await keyring.setRolePermissions({ roleId, permissions: ["a.read"] });
    expect([await may("a.read"), await may("a.write")]).toEqual(["VALID", "INSUFFICIENT_PERMISSIONS"]);
    await keyring.deletePermission({ permission: "a.read" });
    expect(await may("a.read")).toBe("INSUFFICIENT_PERMISSIONS");
    await keyring.createPermission({ name: "again", slug: "a.read" });
    expect(await may("a.read"), "a permission made anew is another one").toBe("INSUFFICIENT_PERMISSIONS");
    await keyring.setRolePermissions({ roleId, permissions: ["a.read"] });
    expect(await may("a.read")).toBe("VALID");
    await keyring.deleteRole({ role: "editor" });
    expect(await verify({ key, permissions: "a.read" })).toMatchObject({
      code: "INSUFFICIENT_PERMISSIONS",
      permissions: [],
      roles: [],
    });
  });

  it("A061: NOT_FOUND by scope takes no credit and no token of the real key", async () => {
    const { store, create, verify, clock } = await worldOf(open());
    const { key } = await create({ credits: { remaining: 5 }, ratelimits: [limit("minute", { limit: 1 })] });
    const elsewhere = createVerifier(store, { clock, workspaceId: "ws_other" });
    for (let i = 0; i < 3; i++) expect(await elsewhere.verify({ key, permissions: "a" })).toStrictEqual(NOT_FOUND);
    expect(await verify({ key })).toMatchObject({ code: "VALID", credits: 4, ratelimits: [{ remaining: 0 }] });
  });

  it("A067: a wrong checksum and a wrong body look the same, and the checksum is never an authority", async () => {
    const { keyring, apiId, create, verify } = await worldOf(open());
    const { key } = await create({ prefix: "sk" });
    const other = (character: string | undefined) => (character === "2" ? "3" : "2");
    const wrongChecksum = key.slice(0, -1) + other(key.at(-1));
    const wrongBody = key.slice(0, 5) + other(key[5]) + key.slice(6);
    for (const text of [wrongChecksum, wrongBody]) expect(await verify({ key: text })).toStrictEqual(NOT_FOUND);
    const { migrationId } = await keyring.createMigration({ algorithm: "sha256" });
    await keyring.migrateKeys({ migrationId, apiId, keys: [{ hash: hash(wrongChecksum) }] });
    expect(hasKeyChecksum(wrongChecksum)).toBe(false);
    expect((await verify({ key: wrongChecksum })).code).toBe("VALID");
    expect(await verify({ key: wrongBody })).toStrictEqual(NOT_FOUND);
  });

  it("A079, ruling B7: tuple grants, as a key holds them: any id, one id, another id", async () => {
    const { create, verify } = await worldOf(open());
    const may = async (grant: string, permissions: string) =>
      (await verify({ key: (await create({ permissions: [grant] })).key, permissions })).valid;
    expect(await may("api.*.verify_key", "api.api_1.verify_key")).toBe(true);
    expect(await may("api.api_1.verify_key", "api.api_1.verify_key")).toBe(true);
    expect(await may("api.api_1.verify_key", "api.api_2.verify_key")).toBe(false);
    for (const asked of ["api.api_1.create_key", "api.verify_key", "api.a.b.verify_key", "API.api_1.verify_key"])
      expect(await may("api.*.verify_key", asked), asked).toBe(false);
  });

  it.each(MODES)(
    "A151: calls that nobody waits for settle, and each is deducted once or not at all ($mode)",
    async (credits) => {
      const { store, keyring, create, verify, verifier } = await worldOf(open(), { credits });
      const { key, keyId } = await create({ credits: { remaining: 1_000 } });
      const calls = Array.from({ length: 300 }, () => verify({ key }));
      // There is no signal to end a call by: one is refused before anything is taken.
      const aborted = verify({ key }, { signal: AbortSignal.abort() } as object);
      await expect(aborted).rejects.toThrow("context.signal is not an option");
      await Promise.race([...calls, Promise.resolve()]);
      await verifier.close();
      const granted = (await Promise.all(calls)).filter(({ valid }) => valid).length;
      expect(granted).toBe(300);
      expect((await keyring.getKey({ keyId })).credits?.remaining).toBe(1_000 - granted);
      await store.close();
    },
  );

  it.each(MODES)(
    "A191: verify after close is refused, close is idempotent, 1,000 in flight settle ($mode)",
    async (credits) => {
      const { store, keyring, create, verify, verifier } = await worldOf(open(), { credits });
      const { key, keyId } = await create({ credits: { remaining: 600 } });
      const inFlight = Array.from({ length: 1_000 }, () => verify({ key }));
      const closing = [verifier.close(), verifier.close()];
      await expect(verify({ key })).rejects.toMatchObject({ code: "VERIFIER_CLOSED", status: 500 });
      await Promise.all(closing);
      const answers = await Promise.all(inFlight);
      expect(answers.filter(({ valid }) => valid)).toHaveLength(600);
      expect(answers.filter(({ code }) => code === "USAGE_EXCEEDED")).toHaveLength(400);
      expect((await keyring.getKey({ keyId })).credits?.remaining).toBe(0);
      await keyring.updateCredits({ keyId, operation: "set", value: 100 });
      const second = createVerifier(store, { credits });
      expect((await second.verify({ key })).credits).toBe(99);
      await second.close();
      expect((await keyring.getKey({ keyId })).credits?.remaining, "a clean close returns what was leased").toBe(99);
      const third = createVerifier(store, { credits });
      await store.close();
      await store.close();
      await expect(third.verify({ key })).rejects.toMatchObject({ code: "STORE_CLOSED" });
      await expect(keyring.getKey({ keyId })).rejects.toMatchObject({ code: "STORE_CLOSED" });
    },
  );

  it.each(MODES)(
    "A193: every answer of a thousand conforms to the schemas, errors too, and all eight codes are met ($mode)",
    async (credits) => {
      const { keyring, verify, verifier, apiId, time } = await worldOf(open(), { credits });
      const { apiId: off } = await keyring.createApi({ name: "switched off" });
      await keyring.updateApi({ apiId: off, enabled: false });
      await keyring.createRole({ name: "zeta", permissions: ["b.c", "a.b"] });
      await keyring.createRole({ name: "alpha", permissions: ["a.b"] });
      const huge = limit("huge", { limit: 2 ** 53 - 1, duration: 2 ** 53 - 1, autoApply: false });
      await keyring.createIdentity({ externalId: "u", meta: {}, ratelimits: [huge, limit("shared", { limit: 400 })] });
      const roll = dice(193);
      const keys = [{ key: "nobody's" }];
      for (let i = 0; i < 30; i++) {
        const body = {
          apiId: roll.chance(0.1) ? off : apiId,
          ...(roll.chance(0.5) && { name: roll.pick(["x", "Ł", "😀".repeat(255)]) }),
          ...(roll.chance(0.5) && {
            meta: roll.pick([{}, { a: null }, JSON.parse('{"__proto__":[]}') as object]) as never,
          }),
          ...(roll.chance(0.3) && { expires: NOON + roll.pick([-1, 0, 3 * DAY]) }),
          ...(roll.chance(0.7) && { credits: { remaining: roll.pick([0, 3, 2 ** 53 - 1, null]) } }),
          ...(roll.chance(0.5) && {
            permissions: roll.some(["c", "a.*", "a.b", "*"]),
            roles: roll.some(["zeta", "alpha"]),
          }),
          ...(roll.chance(0.5) && { externalId: "u" }),
          ...(roll.chance(0.5) && {
            ratelimits: [limit("tiny", { limit: 2, duration: 1_000 }), limit("named", { autoApply: false })],
          }),
          ...(roll.chance(0.2) && { ipAllowlist: ["192.0.2.0/24"] }),
          enabled: roll.chance(0.9),
        };
        keys.push(await createPastKey(keyring, body));
      }
      const met = new Set<string>();
      for (let i = 0; i < 1_000; i++) {
        if (roll.chance(0.2)) time.now += roll.pick([-1, 1, 500, DAY]);
        const body: V2KeysVerifyKeyRequestBody = {
          key: roll.pick(keys).key,
          ...(roll.chance(0.4) && { permissions: roll.pick(["a.b", "c OR a.x", "(b.c)", "zz", "a.*", "a AND"]) }),
          ...(roll.chance(0.4) && { credits: { cost: roll.pick([0, 1, 10 ** 12]) } }),
          ...(roll.chance(0.3) && {
            ratelimits: roll.some([
              { name: "named", cost: roll.pick([0, 1, 11]) },
              {
                name: "😀".repeat(200),
                limit: roll.pick([0, 1, 2 ** 53 - 1]),
                duration: roll.pick([0, 1, 2 ** 53 - 1]),
              },
              { name: "huge" },
              { name: "tiny", limit: 2 ** 53 - 1 },
            ]),
          }),
        };
        const context = roll.chance(0.5) ? { clientAddress: "192.0.2.7" } : {};
        const outcome = await verify(body, context).catch(() => failure(verify(body, context)));
        const faults = outcome instanceof Error ? faultsOfError(outcome) : faultsOfAnswer(outcome, body);
        expect(faults, JSON.stringify([body, outcome])).toEqual([]);
        met.add(outcome.code);
      }
      await verifier.close();
      expect([...met].sort()).toEqual([
        "BAD_REQUEST",
        "DISABLED",
        "EXPIRED",
        "FORBIDDEN",
        "INSUFFICIENT_PERMISSIONS",
        "NOT_FOUND",
        "PERMISSIONS_QUERY_SYNTAX",
        "RATE_LIMITED",
        "USAGE_EXCEEDED",
        "VALID",
      ]);
    },
  );
});

describe("hostile rows of caches", () => {
  afterEach(() => void vi.useRealTimers());

  it("A115: a revoked key that nobody used for longer than its time to live is refused at its first use", async () => {
    vi.useFakeTimers({ toFake: ["performance"] });
    // A clock of this kind never stands at 0 where a program runs, and lru-cache takes 0 for "no time".
    vi.advanceTimersByTime(1);
    // Tells of nothing, as if all changes came from elsewhere: the bound is the time to live alone.
    const store: Store = { ...memoryStore(), subscribe: () => () => undefined };
    const { keyring, create, verify } = await worldOf(store, { cache: { ttl: 1_000 } });
    const { key, keyId } = await create();
    expect((await verify({ key })).code).toBe("VALID");
    await keyring.updateKey({ keyId, enabled: false });
    vi.advanceTimersByTime(999);
    expect((await verify({ key })).code, "within the bound it is believed").toBe("VALID");
    vi.advanceTimersByTime(3_600_000);
    expect((await verify({ key })).code).toBe("DISABLED");
  });

  it("A119: deductions of another process leave this one's keys remembered", async () => {
    const folder = mkdtempSync(join(tmpdir(), "keystile-hostile-"));
    const file = join(folder, "keys.db");
    const [ours, theirs] = [counting(sqliteStore(file)), sqliteStore(file)];
    const { create, verify } = await worldOf(ours.store);
    const keys = await Promise.all(Array.from({ length: 50 }, () => create({ credits: { remaining: 1_000 } })));
    for (const { key } of keys) await verify({ key });
    ours.calls["findKey"] = 0;
    const spender = createVerifier(theirs);
    for (let round = 0; round < 10; round++) {
      await Promise.all(keys.map(({ key }) => spender.verify({ key })));
      await new Promise(setImmediate);
      for (const { key } of keys) expect((await verify({ key, credits: { cost: 0 } })).credits).toBe(998 - round);
    }
    expect(ours.calls["findKey"]).toBe(0);
    await spender.close();
    for (const store of [ours.store, theirs]) await store.close();
    rmSync(folder, { recursive: true });
  });
});
