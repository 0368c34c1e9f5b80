/** The manifest of a store's powers: validated where a store is given, and asked for by what needs one. */
import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import type { Store, StorePowers } from "../../../src/contracts/store.js";
import { createAuthenticator } from "../../../src/access/authenticate.js";
import { cachedStore } from "../../cache/cached-store.js";
import { createKeyring, createRatelimits, createVerifier, memoryStore } from "../../../src/index.js";
import { guardStore } from "../../../src/lib/guards/guard-store.js";
import {
  readPowers,
  requirePower,
  withoutIdempotency,
  withoutLeases,
  withoutReservations,
} from "../../../src/lib/guards/powers.js";
import { sqliteStore } from "../../../src/stores/sqlite/index.js";
import { temporaryPaths } from "../../stores/sqlite/support.js";

const POWERS: StorePowers = {
  leases: true,
  reserves: true,
  idempotency: true,
  usage: true,
  changes: "polled",
  durability: "power",
};
const withPowers = (over: object): Store => ({ ...memoryStore(), powers: { ...POWERS, ...over } });

describe("readPowers", () => {
  it("copies a manifest once, frozen, without what it does not know", () => {
    let reads = 0;
    const given = {
      ...POWERS,
      extra: 1,
      get leases() {
        return reads++ === 0;
      },
    };
    const powers = readPowers(given);
    expect(powers).toStrictEqual(POWERS);
    expect([reads, Object.isFrozen(powers)]).toEqual([1, true]);
    for (const on of [true, false])
      for (const optional of [{ audit: on }, { analytics: on }])
        expect(readPowers({ ...POWERS, ...optional })).toStrictEqual({ ...POWERS, ...optional });
  });

  it.each<[string, unknown]>([
    ["store.powers must be an object", undefined],
    ["store.powers must be an object", null],
    ["store.powers must be an object", "all"],
    ["store.powers.leases must be true or false", { ...POWERS, leases: "yes" }],
    ["store.powers.reserves must be true or false", { leases: true, changes: "own", durability: "none" }],
    ["store.powers.leases must be true or false", Object.create(POWERS)],
    ["store.powers.changes must be one of: own, polled, pushed", { ...POWERS, changes: "told" }],
    ["store.powers.durability must be one of: none, process, power", { ...POWERS, durability: true }],
    ["store.powers.audit must be true or false", { ...POWERS, audit: 1 }],
    ["store.powers.reservations must be true or false", { ...POWERS, reservations: "no" }],
    ["store.powers.analytics must be true or false", { ...POWERS, analytics: 1 }],
    ["store.powers.reserves must be false without leases", { ...POWERS, leases: false }],
  ])("%s", (message, powers) => {
    expect(() => readPowers(powers)).toThrow(new TypeError(message));
    const store = { ...memoryStore(), powers: powers as StorePowers };
    const creates: ((given: Store) => unknown)[] = [
      createVerifier,
      (given) => createKeyring(given),
      createRatelimits,
      createAuthenticator,
    ];
    for (const create of creates) expect(() => create(store)).toThrow(new TypeError(message));
  });
});

describe("powers of the stores of this package", () => {
  const path = temporaryPaths();
  const counting = {
    idempotency: true,
    usage: true,
    audit: true,
    analytics: true,
    reservations: true,
    search: true,
    alerts: true,
    wallets: true,
    rollover: true,
    refusals: true,
  } as const;
  const inMemory = { leases: true, reserves: true, ...counting, changes: "own", durability: "none" };

  it("a store in memory ends with the process, and nobody else changes it", () => {
    expect(memoryStore().powers).toEqual(inMemory);
    for (const file of [":memory:", new Database(":memory:"), new Database("")]) {
      const store = sqliteStore(file as string);
      expect(store.powers).toEqual(inMemory);
      void store.close();
    }
  });

  it("one in a file says its durability, whoever opened the file", () => {
    for (const durability of ["power", "process"] as const) {
      for (const file of [path(), new Database(path())]) {
        const store = sqliteStore(file as string, { durability });
        expect(store.powers).toEqual({
          ...POWERS,
          audit: true,
          analytics: true,
          reservations: true,
          search: true,
          alerts: true,
          wallets: true,
          rollover: true,
          refusals: true,
          durability,
        });
        expect(cachedStore(store).powers).toBe(store.powers);
        void store.close();
      }
    }
  });
});

describe("a power that is asked for and lacking", () => {
  const error = (message: string): unknown =>
    expect.objectContaining({ code: "STORE_POWER_MISSING", status: 500, message });

  it("leased credits without leases", () => {
    const store = withPowers({ leases: false, reserves: false });
    expect(() => createVerifier(store, { credits: { mode: "leased" } })).toThrow(
      error('options.credits.mode "leased" needs the power "leases", which this store lacks'),
    );
    expect(() => createVerifier(store, { credits: { mode: "exact" } })).not.toThrow();
  });

  it("a lease that is larger than a step, without reserves", () => {
    const store = withPowers({ reserves: false });
    for (const sizes of [{ size: 100 }, { size: 100, step: 99 }])
      expect(() => createVerifier(store, { credits: { mode: "leased", ...sizes } })).toThrow(
        error('options.credits.size above step needs the power "reserves", which this store lacks'),
      );
    for (const sizes of [{}, { step: 50 }, { size: 100, step: 100 }])
      expect(() => createVerifier(store, { credits: { mode: "leased", ...sizes } })).not.toThrow();
  });

  it("the methods of leases are not called", async () => {
    let calls = 0;
    const store = withPowers({ leases: false, reserves: false });
    const called = (): never => {
      calls++;
      throw new Error("called");
    };
    const guarded = guardStore({ ...store, drawCredits: called, returnCredits: called });
    const request = { holder: "h", spent: 0, cost: 1, step: 1, size: 1, period: 0, now: 0, until: 1 };
    for (const of of [guarded, { ...store, ...withoutLeases }]) {
      expect(() => of.drawCredits("k", request)).toThrow(
        error('drawCredits needs the power "leases", which this store lacks'),
      );
      expect(() => of.returnCredits("k", { holder: "h", spent: 0 })).toThrow(
        error('returnCredits needs the power "leases", which this store lacks'),
      );
    }
    expect(calls).toBe(0);
    expect(await guarded.findKey("unknown")).toBeUndefined();
  });

  it("a reservation without reservations, and nothing is looked up", async () => {
    let calls = 0;
    const findKey = () => void calls++;
    const verifier = createVerifier({ ...withPowers({}), findKey });
    const lacks = (what: string) => error(`${what} needs the power "reservations", which this store lacks`);
    await expect(verifier.reserve({ key: "k" })).rejects.toEqual(lacks("verifier.reserve"));
    await expect(verifier.settle("res_1.n1", 0)).rejects.toEqual(lacks("verifier.settle"));
    expect(calls).toBe(0);
    for (const of of [guardStore(withPowers({})), { ...memoryStore(), ...withoutReservations }]) {
      expect(() => of.reserveCredits("k", 0, { cost: 1, now: 0, reservation: { id: "res_1", until: 1 } })).toThrow(
        lacks("reserveCredits"),
      );
      expect(() => of.settleCredits("k", { id: "res_1", spent: 0, now: 0 })).toThrow(lacks("settleCredits"));
    }
  });

  it("an idempotency key without idempotency, and nothing is looked up", async () => {
    let calls = 0;
    const findKey = () => void calls++;
    const verifier = createVerifier({ ...withPowers({ idempotency: false }), findKey });
    await expect(verifier.verify({ key: "k" }, { idempotencyKey: "i" })).rejects.toEqual(
      error('context.idempotencyKey needs the power "idempotency", which this store lacks'),
    );
    expect(calls).toBe(0);
    const guarded = guardStore(withPowers({ idempotency: false }));
    for (const of of [guarded, { ...memoryStore(), ...withoutIdempotency }]) {
      expect(() => of.findOnce("i", 0)).toThrow(
        error('findOnce needs the power "idempotency", which this store lacks'),
      );
      expect(() => of.readSecret("idempotency")).toThrow(error(expect.stringMatching(/^readSecret needs/) as never));
    }
  });

  it("requirePower passes what the store has", () => {
    expect(() => requirePower(withPowers({}), "reserves", "this")).not.toThrow();
  });
});
