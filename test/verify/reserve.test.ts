/** Reservations: calls that take the most they may cost, and settle what they did. */
import { describe, expect, it } from "vitest";
import {
  createAnalytics,
  createKeyring,
  createVerifier,
  memoryStore,
  type OutcomeEvent,
  type Store,
  type VerifierOptions,
} from "../../src/index.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { temporaryPaths } from "../stores/sqlite/support.js";

const path = temporaryPaths();
const NOON = Date.UTC(2026, 2, 10, 12);
const MINUTE = 60_000;
const DAY = 86_400_000;
const BEDS: readonly (readonly [name: string, open: () => Store, credits: VerifierOptions["credits"]])[] = [
  ["memory", memoryStore, { mode: "exact" }],
  ["sqlite", () => sqliteStore(path()), { mode: "exact" }],
  ["sqlite, leased", () => sqliteStore(path()), { mode: "leased", size: 100, step: 50, firstStep: 50 }],
];

async function world(store: Store, options: VerifierOptions = {}) {
  const time = { now: NOON };
  const clock = () => time.now;
  const keyring = createKeyring(store, { clock });
  const { apiId } = await keyring.createApi({ name: "models" });
  const create = (remaining?: number, more = {}) =>
    keyring.createKey({ apiId, ...(remaining !== undefined && { credits: { remaining } }), ...more });
  const events: OutcomeEvent[] = [];
  const verifier = createVerifier(store, { clock, onOutcome: (event) => events.push(event), ...options });
  /** Reserves, and is VALID. */
  const hold = async (key: string, cost: number, context = {}) => {
    const call = await verifier.reserve({ key, credits: { cost } }, context);
    if (!call.valid) throw new Error(`refused: ${call.code}`);
    return call;
  };
  const creditsOf = async (keyId: string) => (await keyring.getKey({ keyId })).credits;
  return { time, keyring, create, verifier, hold, creditsOf, events };
}

const late = (reason: string) => ({ settled: false, reason });

describe.each(BEDS)("reserve: %s", (_, open, credits) => {
  it("takes the cost, shows it as reserved, and settles once with what was spent", async () => {
    const { create, hold, creditsOf, verifier } = await world(open(), { credits });
    const { key, keyId } = await create(100);
    const call = await hold(key, 70);
    expect(call).toMatchObject({ valid: true, code: "VALID", keyId, credits: 30 });
    expect(await creditsOf(keyId)).toMatchObject({ remaining: 30, reserved: 70 });
    expect(await verifier.reserve({ key, credits: { cost: 31 } })).toMatchObject({
      code: "USAGE_EXCEEDED",
      credits: 30,
    });
    expect(await call.commit(12)).toEqual({ settled: true, spent: 12 });
    for (const again of [() => call.commit(12), call.release, () => verifier.settle(call.id, 70)])
      expect(await again()).toEqual(late("settled"));
    expect(await creditsOf(keyId)).toMatchObject({ remaining: 88 });
    expect(await (await hold(key, 88)).release()).toEqual({ settled: true, spent: 0 });
    expect(await creditsOf(keyId)).toMatchObject({ remaining: 88 });
    expect(verifier.counters().settlementsLate).toBe(0);
    await verifier.close();
  });

  it("unsettled it returns at its time-out, before the next spend; a late settlement takes nothing, and is counted", async () => {
    const { time, create, hold, verifier, creditsOf } = await world(open(), { credits });
    const { key, keyId } = await create(100);
    const [short, usual, long] = [
      await hold(key, 10, { timeout: 1_000 }),
      await hold(key, 20),
      await hold(key, 30, { timeout: DAY }),
    ];
    const left = async () => ((await verifier.verify({ key, credits: { cost: 0 } })) as { credits?: number }).credits;
    expect(await left()).toBe(40);
    time.now += 1_000;
    expect(await left()).toBe(50);
    time.now = NOON + 5 * MINUTE - 1;
    expect(await left()).toBe(50);
    time.now++;
    expect(await verifier.verify({ key, credits: { cost: 70 } })).toMatchObject({ valid: true, credits: 0 });
    expect(await short.commit(10)).toEqual(late("expired"));
    expect(await usual.release()).toEqual(late("expired"));
    time.now = NOON + DAY - 1;
    expect(await long.commit(5)).toEqual({ settled: true, spent: 5 });
    expect(verifier.counters().settlementsLate).toBe(2);
    await verifier.close();
    expect(await creditsOf(keyId)).toMatchObject({ remaining: 25 });
  });

  it("a reservation of nothing is settled with nothing, with an idempotency key too", async () => {
    const { create, hold, verifier, creditsOf } = await world(open(), { credits });
    const { key, keyId } = await create(100);
    for (const once of [{}, { idempotencyKey: "none" }])
      expect(await (await hold(key, 0, once)).commit(0)).toEqual({ settled: true, spent: 0 });
    await verifier.close();
    expect(await creditsOf(keyId)).toMatchObject({ remaining: 100 });
  });

  it("setting the balance voids it", async () => {
    const { create, hold, keyring, verifier, creditsOf } = await world(open(), { credits });
    const { key, keyId } = await create(100);
    const call = await hold(key, 60);
    await keyring.updateCredits({ keyId, operation: "set", value: 10 });
    expect(await call.commit(60)).toEqual(late("voided"));
    expect(verifier.counters().settlementsLate).toBe(1);
    expect(await creditsOf(keyId)).toMatchObject({ remaining: 10 });
    await verifier.close();
  });

  it("takes of an identity's credits, and is settled by its id through another verifier", async () => {
    const store = open();
    const { create, hold, keyring, verifier } = await world(store, { credits });
    await keyring.createIdentity({ externalId: "customer", credits: { remaining: 100 } });
    const { key } = await create(undefined, { externalId: "customer" });
    const { id } = await hold(key, 60);
    await verifier.close();
    const other = createVerifier(store, { clock: () => NOON });
    await expect(verifier.settle(id, 1)).rejects.toMatchObject({ code: "VERIFIER_CLOSED" });
    await expect(verifier.reserve({ key })).rejects.toMatchObject({ code: "VERIFIER_CLOSED" });
    expect(await other.settle(id, 25)).toEqual({ settled: true, spent: 25 });
    expect(await other.verify({ key, credits: { cost: 0 } })).toMatchObject({ credits: 75 });
    await other.close();
  });

  it("is settled by no verifier of another workspace, and by one of all", async () => {
    const store = open();
    const { create, hold, verifier } = await world(store, { credits });
    const { key } = await create(100);
    const ids = [(await hold(key, 60)).id, (await hold(key, 0)).id];
    await verifier.close();
    const [stranger, own, all] = [{ workspaceId: "ws_other" }, { workspaceId: "ws_default" }, {}].map((options) =>
      createVerifier(store, { clock: () => NOON, ...options }),
    ) as [typeof verifier, typeof verifier, typeof verifier];
    for (const id of ids) {
      expect(await stranger.settle(id, 0)).toEqual(late("unknown"));
      expect(await stranger.settle(id.replace("ws_default", "ws_other"), 0)).toEqual(late("unknown"));
    }
    expect(await own.settle(ids[0]!, 20)).toEqual({ settled: true, spent: 20 });
    expect(await all.settle(ids[1]!, 0)).toEqual({ settled: true, spent: 0 });
    for (const one of [stranger, own, all]) await one.close();
  });

  it("all other checks run in the same call, and a refusal has no handle", async () => {
    const { create, verifier, keyring, creditsOf } = await world(open(), { credits });
    const ratelimits = [{ name: "requests", limit: 1, duration: MINUTE, autoApply: true }];
    const { key, keyId } = await create(100, { ratelimits });
    const refused = await verifier.reserve({ key, credits: { cost: 1 }, permissions: "docs.read" });
    expect(refused).toMatchObject({ valid: false, code: "INSUFFICIENT_PERMISSIONS" });
    expect(refused).not.toHaveProperty("id");
    expect(await verifier.reserve({ key, credits: { cost: 5 } })).toMatchObject({ code: "VALID", credits: 95 });
    expect(await verifier.reserve({ key, credits: { cost: 5 } })).toMatchObject({ code: "RATE_LIMITED", credits: 95 });
    await keyring.updateKey({ keyId, enabled: false });
    expect(await verifier.reserve({ key })).toMatchObject({ code: "DISABLED" });
    expect(await verifier.reserve({ key: "unknown" })).toEqual({ valid: false, code: "NOT_FOUND" });
    expect(await creditsOf(keyId)).toMatchObject({ remaining: 95 });
    await verifier.close();
  });

  it("with an idempotency key a repeat gets the same reservation; a spend under it is a mismatch", async () => {
    const { time, create, hold, verifier, creditsOf } = await world(open(), { credits, idempotency: { ttl: 1_000 } });
    const { key, keyId } = await create(100);
    const once = { idempotencyKey: "job-1" };
    const [one, two] = [await hold(key, 40, once), await hold(key, 40, once)];
    expect([two.id, two.credits]).toEqual([one.id, 60]);
    await expect(verifier.verify({ key, credits: { cost: 40 } }, once)).rejects.toMatchObject({
      code: "IDEMPOTENCY_MISMATCH",
    });
    expect(await two.commit(15)).toEqual({ settled: true, spent: 15 });
    expect(await one.commit(15)).toEqual(late("settled"));
    // The record of the call is over, its reservation is not.
    await hold(key, 10, { idempotencyKey: "job-2" });
    time.now += 1_000;
    await expect(hold(key, 10, { idempotencyKey: "job-2" })).rejects.toMatchObject({ code: "IDEMPOTENCY_IN_FLIGHT" });
    expect(await creditsOf(keyId)).toMatchObject({ remaining: 75 });
    await verifier.close();
  });
});

describe("reserve", () => {
  it("leased: what this node has in hand is returned where the balance alone is too low", async () => {
    const credits = { mode: "leased", size: 100, step: 50, firstStep: 50 } as const;
    const { create, hold, verifier } = await world(sqliteStore(path()), { credits });
    const { key } = await create(100);
    expect(await verifier.verify({ key })).toMatchObject({ credits: 99 });
    const call = await hold(key, 99);
    expect(call.credits).toBe(0);
    expect(await verifier.reserve({ key, credits: { cost: 1 } })).toMatchObject({ code: "USAGE_EXCEEDED" });
    expect(await call.commit(98)).toEqual({ settled: true, spent: 98 });
    expect(await verifier.verify({ key })).toMatchObject({ valid: true, credits: 0 });
    await verifier.close();
  });

  it("of unlimited credits, and of a cost of 0, takes nothing", async () => {
    const { create, hold, verifier, creditsOf, keyring } = await world(memoryStore());
    const free = await create();
    const counted = await create(10);
    for (const call of [await hold(free.key, 50), await hold(counted.key, 0)])
      for (let i = 0; i < 2; i++) expect(await call.commit(0)).toEqual({ settled: true, spent: 0 });
    expect(await (await hold(free.key, 5, { idempotencyKey: "a" })).commit(3)).toEqual({ settled: true, spent: 0 });
    await keyring.updateCredits({ keyId: counted.keyId, operation: "set", value: null });
    expect(await (await hold(counted.key, 5)).commit(3)).toEqual({ settled: true, spent: 0 });
    expect(await creditsOf(counted.keyId)).toBeUndefined();
    await verifier.close();
  });

  it("more than 1,000 that are open are RESERVATIONS_FULL, and take nothing", async () => {
    const { create, hold, verifier, creditsOf } = await world(memoryStore());
    const { key, keyId } = await create(2_000);
    const calls = await Promise.all(Array.from({ length: 1_000 }, () => hold(key, 1)));
    await expect(hold(key, 1)).rejects.toMatchObject({ code: "RESERVATIONS_FULL", status: 503 });
    expect(await creditsOf(keyId)).toMatchObject({ remaining: 1_000, reserved: 1_000 });
    await calls[0]!.release();
    await hold(key, 1);
    await verifier.close();
  });

  it("more than was reserved is a RangeError, and it stays open; ids that are none are unknown", async () => {
    const { create, hold, verifier } = await world(memoryStore());
    const { key, keyId } = await create(100);
    const call = await hold(key, 40);
    for (const spent of [41, -1, 1.5, NaN, 2 ** 53]) await expect(call.commit(spent)).rejects.toThrow(RangeError);
    for (const id of [
      "",
      "res_",
      `res_1.n${"9".repeat(20)}`,
      "node_1.1",
      `x${call.id}`,
      `res_1.s${"k".repeat(20_000)}`,
    ])
      expect(await verifier.settle(id, 0)).toEqual(late("unknown"));
    for (const id of [`res_other.s${keyId}`, "res_1.n7", "res_1.skey_gone", "res_1", "res_1.ws_default"])
      expect(await verifier.settle(id, 0)).toEqual(late("unknown"));
    // Cut short at any place, and with any part of another handle.
    const free = await hold(key, 0);
    for (const { id } of [call, free])
      for (let length = 0; length < id.length; length++)
        expect(await verifier.settle(id.slice(0, length), 0)).toEqual(late("unknown"));
    const [parts, others] = [call.id.split("."), (await hold(key, 1)).id.split(".")];
    for (const place of [0, 2, 3]) {
      const mixed = parts.map((part, i) => (i === place ? others[i] : part)).join(".");
      expect(await verifier.settle(mixed, 0)).toEqual(late("unknown"));
    }
    expect(await verifier.settle([parts[0], parts[1], parts[3]].join("."), 0)).toEqual(late("unknown"));
    await expect(verifier.settle(7 as never, 0)).rejects.toThrow(new TypeError("id must be the id of a reservation"));
    // Also where there is nothing to settle.
    for (const spent of [-1, 1.5, NaN])
      await expect(verifier.settle("res_other", spent)).rejects.toThrow("spent must be an integer from 0 to 2^53 - 1");
    await expect(call.commit(41)).rejects.toThrow("at most what was reserved; the reservation stays open");
    expect(await call.commit(40)).toEqual({ settled: true, spent: 40 });
    await verifier.close();
  });

  it("an option of the context that is none, or a time-out out of bounds, ends the call before anything is taken", async () => {
    const { create, verifier, creditsOf } = await world(memoryStore());
    const { key, keyId } = await create(100);
    for (const timeout of [999, DAY + 1, 1.5, "1000"])
      await expect(verifier.reserve({ key }, { timeout: timeout as number })).rejects.toThrow("context.timeout");
    for (const context of [{ timeOut: 5 }, null, 7])
      await expect(verifier.reserve({ key }, context as never)).rejects.toThrow(TypeError);
    await expect(verifier.verify({ key }, { timeout: 1_000 } as never)).rejects.toThrow("timeout");
    await expect(verifier.reserve({ key: "" })).rejects.toMatchObject({ code: "BAD_REQUEST" });
    expect(await creditsOf(keyId)).toMatchObject({ remaining: 100 });
    await verifier.close();
  });

  it("the outcome event says what was reserved, and that nothing is spent yet", async () => {
    const { create, hold, verifier, events } = await world(memoryStore());
    await hold((await create(100)).key, 40);
    await hold((await create()).key, 40);
    await verifier.close();
    expect(events.map(({ spent, reserved }) => [spent, reserved])).toEqual([
      [0, 40],
      [0, undefined],
    ]);
  });
});

describe.each(BEDS)("settlements are counted: %s", (_, open, credits) => {
  const TODAY = { from: NOON - DAY, to: NOON + DAY } as const;

  it("under the key, the owner and the tags of the reservation, by whoever settles, once", async () => {
    const store = open();
    const { keyring, create, verifier, time } = await world(store, { credits, analytics: true });
    const clock = () => time.now;
    await keyring.createIdentity({ externalId: "ann", credits: { remaining: 1_000 } });
    const shared = await create(undefined, { externalId: "ann" });
    const own = await create(100);
    const elsewhere = createVerifier(store, { clock, credits, analytics: true });
    const reserve = async (key: string, cost: number, tags: readonly string[]) => {
      const call = await verifier.reserve({ key, credits: { cost }, tags });
      if (!call.valid) throw new Error(call.code);
      return call;
    };
    const one = await reserve(shared.key, 400, ["model=large", `key ${shared.key}`]);
    const two = await reserve(own.key, 50, []);
    const released = await reserve(own.key, 30, []);
    const late = await reserve(own.key, 5, []);
    expect(await elsewhere.settle(one.id, 123)).toEqual({ settled: true, spent: 123 });
    expect(await verifier.settle(one.id, 123)).toMatchObject({ settled: false });
    expect(await two.commit(7)).toMatchObject({ settled: true });
    await released.release();
    time.now += 10 * MINUTE;
    expect(await late.commit(5)).toMatchObject({ settled: false, reason: "expired" });
    expect([verifier.counters().creditsSpent, elsewhere.counters().creditsSpent]).toEqual([7, 123]);
    expect(elsewhere.counters().verifications).toMatchObject({ VALID: 0 });
    await verifier.close();
    await elsewhere.close();
    const analytics = createAnalytics(store, { clock });
    const rows = async (by: "keyId" | "externalId" | "tag" | "outcome") =>
      (await analytics.query({ ...TODAY, by: [by] })).rows.map(({ count, spent, ...of }) => [of[by], count, spent]);
    expect(await rows("keyId")).toEqual(
      expect.arrayContaining([
        [shared.keyId, 1, 123],
        [own.keyId, 3, 7],
      ]),
    );
    expect(await rows("externalId")).toContainEqual(["ann", 1, 123]);
    expect(await rows("tag")).toEqual(
      expect.arrayContaining([
        ["model=large", 1, 123],
        ["key [key]", 1, 123],
      ]),
    );
    expect(await rows("outcome")).toEqual([["VALID", 4, 130]]);
    for (const of of [{ externalId: "ann" }, { keyId: own.keyId }])
      expect(await analytics.statement(of, "2026-03")).toMatchObject({ unattributed: 0 });
    expect(await analytics.statement({ externalId: "ann" }, "2026-03")).toMatchObject({ spent: 123, closing: 877 });
    await store.close();
  });

  it("in the day of the settlement", async () => {
    const store = open();
    const { create, verifier, time } = await world(store, { credits, analytics: true });
    const { key, keyId } = await create(100);
    time.now = NOON + 12 * 60 * MINUTE - 1;
    const call = await verifier.reserve({ key, credits: { cost: 40 } });
    time.now += MINUTE;
    if (call.valid) await call.commit(9);
    await verifier.close();
    const analytics = createAnalytics(store, { clock: () => time.now });
    const { rows } = await analytics.query({ ...TODAY, to: NOON + 2 * DAY, by: ["day", "outcome"] });
    expect(rows.map(({ count, spent }) => [count, spent])).toEqual([
      [1, 0],
      [0, 9],
    ]);
    expect((await analytics.statement({ keyId }, "2026-03")).unattributed).toBe(0);
    await store.close();
  });

  it("without their tags where tags are not counted", async () => {
    const store = open();
    const { create, verifier, time } = await world(store, { credits, analytics: { tags: false } });
    const { key } = await create(100);
    const call = await verifier.reserve({ key, credits: { cost: 40 }, tags: ["model=large"] });
    if (call.valid) await call.commit(9);
    await verifier.close();
    const analytics = createAnalytics(store, { clock: () => time.now });
    expect((await analytics.query({ ...TODAY, by: ["tag"] })).rows).toEqual([]);
    expect((await analytics.query({ ...TODAY, by: ["outcome"] })).rows).toMatchObject([{ count: 1, spent: 9 }]);
    await store.close();
  });

  it("of more tags than a handle holds, as (other)", async () => {
    const store = open();
    const { create, verifier, time } = await world(store, { credits, analytics: true });
    const { key } = await create(100);
    const tags = Array.from({ length: 20 }, (_, i) => `${i}`.padEnd(400, "x"));
    const call = await verifier.reserve({ key, credits: { cost: 40 }, tags });
    if (call.valid) expect(await verifier.settle(call.id, 9)).toMatchObject({ settled: true });
    await verifier.close();
    const { rows } = await createAnalytics(store, { clock: () => time.now }).query({ ...TODAY, by: ["tag"] });
    expect(rows).toContainEqual({ tag: "(other)", count: 0, spent: 9 });
    await store.close();
  });
});
