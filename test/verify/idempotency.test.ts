/** Calls with an idempotency key: a repeat takes nothing again, and is refused as soon as the key is. */
import { readFileSync } from "node:fs";
import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import type { Caller } from "../../src/contracts/caller.js";
import type { Store } from "../../src/contracts/store.js";
import {
  createKeyring,
  createVerifier,
  memoryStore,
  type OutcomeEvent,
  type V2KeysVerifyKeyRequestBody,
  type VerifierOptions,
} from "../../src/index.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { temporaryPaths } from "../stores/sqlite/support.js";

const path = temporaryPaths();
const NOON = Date.UTC(2026, 2, 10, 12);
const DAY = 86_400_000;
const STORES: readonly (readonly [name: string, open: () => Store])[] = [
  ["memory", memoryStore],
  ["sqlite", () => sqliteStore(path())],
];

interface KeyOptions {
  readonly credits?: { readonly remaining: number };
  readonly limit?: number;
}

async function world(store: Store, options: VerifierOptions = {}, { credits, limit = 10 }: KeyOptions = {}) {
  const time = { now: NOON };
  const clock = () => time.now;
  const keyring = createKeyring(store, { clock });
  const { apiId } = await keyring.createApi({ name: "documents" });
  const ratelimits = [{ name: "requests", limit, duration: DAY * 30, autoApply: true }];
  const { key, keyId } = await keyring.createKey({ apiId, ratelimits, ...(credits && { credits }) });
  const events: OutcomeEvent[] = [];
  const verifier = createVerifier(store, { clock, onOutcome: (event) => events.push(event), ...options });
  const once = (idempotencyKey: string, body: Partial<V2KeysVerifyKeyRequestBody> = {}, caller?: Caller) =>
    verifier.verify({ key, ...body }, { idempotencyKey, ...(caller && { caller }) });
  const left = async () => (await keyring.getKey({ keyId })).credits?.remaining;
  return { time, clock, keyring, apiId, key, keyId, verifier, once, left, events };
}

const fault = (code: string, status: number): unknown => expect.objectContaining({ code, status });

describe.each(STORES)("verify with an idempotency key: %s store", (_, open) => {
  it("takes credits and tokens once, and shows both as they stand", async () => {
    const { once, left, verifier, key, events } = await world(open(), {}, { credits: { remaining: 100 } });
    const first = await once("a", { credits: { cost: 5 } });
    expect(first).toMatchObject({ code: "VALID", credits: 95, ratelimits: [{ remaining: 9 }] });
    expect(await once("a", { credits: { cost: 5 } })).toEqual(first);
    expect(await verifier.verify({ key })).toMatchObject({ credits: 94, ratelimits: [{ remaining: 8 }] });
    const again = await once("a", { credits: { cost: 5 } });
    expect(again).toMatchObject({ valid: true, credits: 94, ratelimits: [{ remaining: 8, exceeded: false }] });
    expect(await left()).toBe(94);
    await new Promise((resolve) => setTimeout(resolve, 5));
    expect(events.map(({ spent }) => spent)).toEqual([5, 0, 1, 0]);
  });

  it("runs every other check anew: what was revoked meanwhile is refused", async () => {
    const { once, keyring, keyId, time, left } = await world(open(), {}, { credits: { remaining: 10 } });
    expect((await once("a")).code).toBe("VALID");
    await keyring.updateKey({ keyId, enabled: false });
    expect((await once("a")).code).toBe("DISABLED");
    await keyring.updateKey({ keyId, enabled: true, expires: NOON + 10 });
    expect((await once("a")).code).toBe("VALID");
    time.now += 11;
    expect((await once("a")).code).toBe("EXPIRED");
    await keyring.updateKey({ keyId, expires: null });
    expect((await once("a")).code).toBe("VALID");
    await keyring.deleteKey({ keyId });
    expect(await once("a")).toEqual({ valid: false, code: "NOT_FOUND" });
    expect((await once("b")).code).toBe("NOT_FOUND");
    expect(await left().catch(() => "deleted")).toBe("deleted");
  });

  it("passes at an empty balance and an empty bucket once it was VALID", async () => {
    const { once, verifier, key } = await world(open(), {}, { credits: { remaining: 2 }, limit: 2 });
    expect((await once("a", { credits: { cost: 2 } })).code).toBe("VALID");
    expect((await verifier.verify({ key })).code).toBe("USAGE_EXCEEDED");
    expect((await verifier.verify({ key })).code).toBe("RATE_LIMITED");
    expect(await once("a", { credits: { cost: 2 } })).toMatchObject({ code: "VALID", credits: 0 });
  });

  it("records a VALID alone: what was refused may be repeated, and then counts", async () => {
    const { once, keyring, keyId, time, left } = await world(open(), {}, { credits: { remaining: 1 }, limit: 3 });
    const costs = { credits: { cost: 2 } };
    expect((await once("a", costs)).code).toBe("USAGE_EXCEEDED");
    await keyring.updateCredits({ keyId, operation: "set", value: 10 });
    expect(await once("a", costs)).toMatchObject({ code: "VALID", credits: 8 });
    expect(await once("a", costs)).toMatchObject({ code: "VALID", credits: 8 });
    expect((await once("b")).code).toBe("VALID");
    expect((await once("c")).code).toBe("RATE_LIMITED");
    time.now += DAY * 30;
    expect((await once("c")).code).toBe("VALID");
    expect(await left()).toBe(6);
  });

  it("another body under its key is a 422, whatever order or form the same body has", async () => {
    const { once, key, left } = await world(open(), {}, { credits: { remaining: 10 } });
    await once("a", { tags: ["x"] });
    for (const body of [{}, { tags: ["y"] }, { tags: ["x"], credits: { cost: 2 } }, { tags: ["x"], permissions: "p" }])
      await expect(once("a", body)).rejects.toEqual(fault("IDEMPOTENCY_MISMATCH", 422));
    expect((await once("a", { credits: { cost: 1 }, tags: ["x"], key })).code).toBe("VALID");
    expect(await left()).toBe(9);
  });

  it("while it is in flight a repeat is a 409, another body a 422, and one of them takes", async () => {
    const { once, left } = await world(open(), {}, { credits: { remaining: 10 } });
    const settled = await Promise.allSettled([once("a"), once("a"), once("a", { tags: ["x"] }), once("b")]);
    expect(settled).toMatchObject([
      { value: { code: "VALID" } },
      {
        reason: {
          code: "IDEMPOTENCY_IN_FLIGHT",
          status: 409,
          detail: "a call with this idempotency key has not ended yet; repeat yours once it has",
        },
      },
      {
        reason: {
          code: "IDEMPOTENCY_MISMATCH",
          status: 422,
          detail: "the idempotency key was used with another body; take a new one for a new request",
        },
      },
      { value: { code: "VALID" } },
    ]);
    expect((await once("a")).code).toBe("VALID");
    expect(await left()).toBe(8);
  });

  it("another verifier's call with another body that comes between two steps of one is a 422, and takes once", async () => {
    const store = open();
    const { key, once, left, clock } = await world(store, {}, { credits: { remaining: 10 } });
    const slower = createVerifier(
      {
        ...store,
        async spendOnce(...given) {
          await once("a");
          return store.spendOnce(...given);
        },
      },
      { clock },
    );
    await expect(slower.verify({ key, tags: ["x"] }, { idempotencyKey: "a" })).rejects.toEqual(
      fault("IDEMPOTENCY_MISMATCH", 422),
    );
    expect(await left()).toBe(9);
    await slower.close();
  });

  it("a call that failed is not in flight any more", async () => {
    const { once } = await world(open(), {}, { credits: { remaining: 10 } });
    const unknownLimit = { ratelimits: [{ name: "none" }] };
    for (let i = 0; i < 2; i++) await expect(once("a", unknownLimit)).rejects.toMatchObject({ code: "BAD_REQUEST" });
    expect((await once("a")).code).toBe("VALID");
  });

  it("each caller has keys of its own, and the program too", async () => {
    const { once, left } = await world(open(), {}, { credits: { remaining: 10 } });
    const caller = (id: string, kind = "rootKey"): Caller => ({
      workspaceId: "ws_default",
      kind,
      id,
      may: () => true,
      mayAny: () => true,
    });
    for (const as of [undefined, caller("one"), caller("two"), caller("one", "proxyToken")])
      for (let i = 0; i < 2; i++) expect((await once("a", {}, as)).code).toBe("VALID");
    expect(await left()).toBe(6);
    for (const id of [undefined, "", "x".repeat(1_025)])
      await expect(once("a", {}, { ...caller(""), id })).rejects.toThrow(
        new TypeError("context.caller.id must be a string of 1 to 1024 characters where there is an idempotency key"),
      );
    for (const id of ["1", "x".repeat(1_024)]) expect((await once("a", {}, caller(id))).code).toBe("VALID");
    await expect(once("a", {}, caller("one", 5 as never))).rejects.toThrow(
      new TypeError("context.caller.kind must be a string"),
    );
  });

  it("what another process took between two steps of a call is not taken again, nor reported as spent", async () => {
    const store = open();
    const { key, once, left, clock } = await world(store, {}, { credits: { remaining: 10 } });
    await once("a", { credits: { cost: 4 } });
    const events: OutcomeEvent[] = [];
    // Asked for the record before the other process had written it.
    const late = createVerifier(
      { ...store, findOnce: () => undefined },
      { clock, onOutcome: (event) => events.push(event) },
    );
    expect(await late.verify({ key, credits: { cost: 4 } }, { idempotencyKey: "a" })).toMatchObject({
      code: "VALID",
      credits: 6,
    });
    await late.close();
    expect(events.map(({ code, spent }) => [code, spent])).toEqual([["VALID", 0]]);
    expect(await left()).toBe(6);
  });

  it("each workspace has keys of its own", async () => {
    const store = open();
    const clock = () => NOON;
    const verifier = createVerifier(store, { clock });
    for (const workspaceId of ["ws_1", "ws_2"]) {
      const keyring = createKeyring(store, { workspaceId, clock });
      const { apiId } = await keyring.createApi({ name: "documents" });
      const { key } = await keyring.createKey({ apiId, credits: { remaining: 5 } });
      for (let i = 0; i < 2; i++)
        expect(await verifier.verify({ key }, { idempotencyKey: "a" })).toMatchObject({ code: "VALID", credits: 4 });
    }
  });

  it("unlimited keys and costs of 0 take their tokens once", async () => {
    for (const credits of [undefined, { remaining: 0 }]) {
      const { once } = await world(open(), {}, { ...(credits && { credits }) });
      const body = { credits: { cost: 0 }, ratelimits: [{ name: "requests", cost: 4 }] };
      for (let i = 0; i < 2; i++)
        expect(await once("a", body)).toMatchObject({ code: "VALID", ratelimits: [{ remaining: 6 }] });
      expect(await once("b")).toMatchObject(credits === undefined ? { code: "VALID" } : { code: "USAGE_EXCEEDED" });
    }
  });

  it("after `ttl` by the clock the call is a new one", async () => {
    const { once, time } = await world(open(), { idempotency: { ttl: 60_000 } }, { credits: { remaining: 10 } });
    await once("a");
    time.now += 59_999;
    expect(await once("a")).toMatchObject({ credits: 9 });
    time.now += 1;
    expect(await once("a", { tags: ["x"] })).toMatchObject({ code: "VALID", credits: 8 });
    await expect(once("a")).rejects.toEqual(fault("IDEMPOTENCY_MISMATCH", 422));
  });

  it("lasts a day by default", async () => {
    const { once, time } = await world(open(), {}, { credits: { remaining: 10 } });
    await once("a");
    time.now += DAY - 1;
    expect(await once("a")).toMatchObject({ credits: 9 });
    time.now += 1;
    expect(await once("a")).toMatchObject({ credits: 8 });
  });

  it("when full, new keys are a 503 and take no credits; those that are there go on", async () => {
    const { once, left, time } = await world(
      open(),
      { idempotency: { records: 2, ttl: 1_000 } },
      { credits: { remaining: 10 }, limit: 100 },
    );
    for (const id of ["a", "b"]) expect((await once(id)).code).toBe("VALID");
    await expect(once("c")).rejects.toMatchObject({
      code: "IDEMPOTENCY_FULL",
      status: 503,
      detail:
        "the workspace has used up its share of the space for idempotency keys; try again later, or without a key",
    });
    expect((await once("a")).code).toBe("VALID");
    expect(await left()).toBe(8);
    time.now += 1_000;
    expect((await once("c")).code).toBe("VALID");
  });

  it("leased calls spend exactly, also what this node has leased", async () => {
    const store = open();
    const options: VerifierOptions = { credits: { mode: "leased", size: 100, step: 50, firstStep: 50 } };
    const { once, verifier, key, left } = await world(store, options, { credits: { remaining: 100 }, limit: 1_000 });
    expect((await verifier.verify({ key })).code).toBe("VALID");
    const balance = async () => (await left())!;
    const before = await balance();
    expect(before).toBeLessThan(99);
    for (let i = 0; i < 2; i++) expect((await once("a", { credits: { cost: 0 } })).code).toBe("VALID");
    for (let i = 0; i < 2; i++) expect((await once("b", { credits: { cost: 60 } })).code).toBe("VALID");
    await verifier.close();
    expect(await left()).toBe(39);
  });

  it("a repeat that the store knows does not ask it to record the spend again", async () => {
    const opened = open();
    let asked = 0;
    const store: Store = { ...opened, spendOnce: (...given) => (asked++, opened.spendOnce(...given)) };
    const { once } = await world(store, {}, { credits: { remaining: 10 } });
    for (let i = 0; i < 3; i++) expect(await once("a")).toMatchObject({ code: "VALID", credits: 9 });
    expect(asked).toBe(1);
  });

  it("a calendar that changes between two steps of a call is found, and the call takes its tokens and credits once", async () => {
    const opened = open();
    let between: (() => Promise<unknown>) | undefined;
    const store: Store = {
      ...opened,
      async spendOnce(...given) {
        const change = between;
        between = undefined;
        await change?.();
        return opened.spendOnce(...given);
      },
    };
    const { once, keyring, keyId, left } = await world(store, {}, { credits: { remaining: 10 } });
    between = () => keyring.updateKey({ keyId, credits: { remaining: 10, refill: { interval: "daily", amount: 5 } } });
    expect(await once("a")).toMatchObject({ code: "VALID", credits: 9, ratelimits: [{ remaining: 9 }] });
    expect(await once("a")).toMatchObject({ code: "VALID", credits: 9, ratelimits: [{ remaining: 9 }] });
    expect(await left()).toBe(9);
  });

  it.each(["", "x".repeat(256), "é", "a\nb", "\u{1F600}"])("refuses the key %j", async (idempotencyKey) => {
    const { once } = await world(open());
    await expect(once(idempotencyKey)).rejects.toMatchObject({
      code: "BAD_REQUEST",
      errors: [
        {
          location: "idempotencyKey",
          message: "must be 1 to 255 characters of printable ASCII",
          fix: "send a UUID",
        },
      ],
    });
  });

  it("on a store that cannot record calls says what asked for it, before any call of the store", async () => {
    const opened = open();
    const store: Store = {
      ...opened,
      powers: { ...opened.powers, idempotency: false },
      findKey: () => {
        throw new Error("was asked");
      },
    };
    const verifier = createVerifier(store, { clock: () => NOON });
    await expect(verifier.verify({ key: "k" }, { idempotencyKey: "a" })).rejects.toMatchObject({
      code: "STORE_POWER_MISSING",
      detail: expect.stringMatching(/context\.idempotencyKey/),
    });
  });

  it("refuses what is no text, and reads own properties only", async () => {
    const { verifier, key } = await world(open(), {}, { credits: { remaining: 5 } });
    await expect(verifier.verify({ key }, { idempotencyKey: 5 as never })).rejects.toThrow(
      new TypeError("context.idempotencyKey must be a string"),
    );
    const polluted = Object.prototype as { idempotencyKey?: string };
    polluted.idempotencyKey = "a";
    try {
      await verifier.verify({ key }, {});
    } finally {
      delete polluted.idempotencyKey;
    }
    expect(await verifier.verify({ key }, { idempotencyKey: undefined })).toMatchObject({ credits: 3 });
    expect(await verifier.verify({ key }, { idempotencyKey: "a" })).toMatchObject({ credits: 2 });
  });
});

describe("verify with an idempotency key: a file", () => {
  it("repeats through other handles take nothing again, whichever comes first, and after it was opened again", async () => {
    const file = path();
    const stores = [sqliteStore(file), sqliteStore(file)];
    const { key, keyId, keyring, clock } = await world(stores[0]!, {}, { credits: { remaining: 1_000 }, limit: 1e6 });
    const verifiers = stores.map((store) => createVerifier(store, { clock }));
    const verify = (i: number, idempotencyKey: string) => verifiers[i % 2]!.verify({ key }, { idempotencyKey });
    for (let round = 0; round < 50; round++)
      for (const { code } of await Promise.all([verify(round, `r${round}`), verify(round + 1, `r${round}`)]))
        expect(code).toBe("VALID");
    expect((await keyring.getKey({ keyId })).credits?.remaining).toBe(950);
    for (const verifier of verifiers) await verifier.close();
    for (const store of stores) await store.close();
    const again = sqliteStore(file);
    const verifier = createVerifier(again, { clock });
    for (let round = 0; round < 50; round++)
      expect(await verifier.verify({ key }, { idempotencyKey: `r${round}` })).toMatchObject({ credits: 950 });
    await expect(verifier.verify({ key, tags: ["x"] }, { idempotencyKey: "r0" })).rejects.toEqual(
      fault("IDEMPOTENCY_MISMATCH", 422),
    );
    await again.close();
  });

  it("a key that another handle revoked is refused at its next repeat", async () => {
    const file = path();
    const [here, there] = [sqliteStore(file), sqliteStore(file)];
    const { once, clock, keyId } = await world(here, {}, { credits: { remaining: 5 } });
    expect((await once("a")).code).toBe("VALID");
    await createKeyring(there, { clock }).updateKey({ keyId, enabled: false });
    await new Promise((resolve) => setTimeout(resolve, 2));
    expect((await once("a")).code).toBe("DISABLED");
    for (const store of [here, there]) await store.close();
  });

  it("has no text of a key, a caller or a body, and keeps no record of what was refused", async () => {
    const file = path();
    const store = sqliteStore(file);
    const { once, key } = await world(store, {}, { credits: { remaining: 5 } });
    const caller: Caller = { workspaceId: "ws_default", id: "CANARY-caller", may: () => true, mayAny: () => true };
    const body = { tags: ["CANARY-tag"], permissions: "CANARY.permission OR CANARY.other" };
    await once("CANARY-idempotency", body, caller);
    await once("CANARY-idempotency-2", { tags: ["CANARY-tag"] }, caller);
    const db = new Database(file, { readonly: true });
    const rows = db.prepare("SELECT id, body FROM keystile_idempotency").all() as { id: string; body: string }[];
    expect(rows).toEqual([{ id: expect.stringMatching(/^[\w-]{22}$/), body: expect.stringMatching(/^[\w-]{22}$/) }]);
    expect(db.prepare("SELECT records FROM keystile_idempotency_counts").pluck().all()).toEqual([1, 1]);
    db.close();
    const bytes = Buffer.concat([file, `${file}-wal`].map((name) => readFileSync(name))).toString("latin1");
    expect(bytes).toContain(rows[0]!.id);
    for (const text of ["CANARY", key.slice(8)]) expect(bytes).not.toContain(text);
    await store.close();
  });

  it("removes what has expired a few at a time, and counts what it removes", async () => {
    const file = path();
    const store = sqliteStore(file);
    const { once, time } = await world(store, { idempotency: { ttl: 1_000 } }, { limit: 1e6 });
    for (let i = 0; i < 20; i++) await once(`old-${i}`);
    time.now += 1_000;
    const db = new Database(file, { readonly: true });
    const count = () => [
      db.prepare("SELECT count(*) FROM keystile_idempotency").pluck().get(),
      ...db.prepare("SELECT records FROM keystile_idempotency_counts").pluck().all(),
    ];
    const counts: unknown[] = [count()];
    for (let i = 0; i < 4; i++) {
      await once(`new-${i}`);
      counts.push(count());
    }
    expect(counts).toEqual([20, 13, 6, 3, 4].map((all) => [all, all, all]));
    db.close();
    await store.close();
  });

  it("written by a thread, spends once all the same", async () => {
    const { buildWriter } = await import("../rigs/workers.js");
    const store = sqliteStore(path(), { writer: await buildWriter() });
    const { once, left } = await world(store, {}, { credits: { remaining: 10 } });
    for (let i = 0; i < 3; i++) expect(await once("a")).toMatchObject({ code: "VALID", credits: 9 });
    await expect(once("a", { tags: ["x"] })).rejects.toEqual(fault("IDEMPOTENCY_MISMATCH", 422));
    expect(await left()).toBe(9);
    await store.close();
  });

  it("opened for reading only, refuses new keys", async () => {
    const file = path();
    const writable = sqliteStore(file);
    const { key, once, clock } = await world(writable);
    await once("a");
    const store = sqliteStore(file, { readonly: true });
    const verifier = createVerifier(store, { clock });
    expect((await verifier.verify({ key }, { idempotencyKey: "a" })).code).toBe("VALID");
    await expect(verifier.verify({ key }, { idempotencyKey: "b" })).rejects.toEqual(fault("STORE_READ_ONLY", 500));
    for (const one of [store, writable]) await one.close();
  });
});

describe("options of idempotency keys", () => {
  it.each<[VerifierOptions["idempotency"], RegExp]>([
    [{ ttl: 999 }, /^options\.idempotency\.ttl must be from 1000/],
    [{ records: 0 }, /^options\.idempotency\.records must be from 1/],
    [{ records: 10, recordsPerWorkspace: 11 }, /^options\.idempotency\.recordsPerWorkspace must be at most/],
    [{ age: 5 } as never, /^options\.idempotency\.age is not an option/],
  ])("%j", (idempotency, message) => {
    expect(() => createVerifier(memoryStore(), { idempotency })).toThrow(message);
  });

  it("one record is space for one", async () => {
    const { once } = await world(memoryStore(), { idempotency: { records: 1 } });
    expect((await once("a")).code).toBe("VALID");
    await expect(once("b")).rejects.toEqual(fault("IDEMPOTENCY_FULL", 503));
  });
});
