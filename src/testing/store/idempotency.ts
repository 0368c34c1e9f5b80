/** Calls with an idempotency key: clause 23. */
import type { KeyRow, OnceBounds, OnceRecord, Store, WriteOutcome } from "../../contracts/store.js";
import { expect, faultOf } from "../expect.js";
import { ONCE_BOUNDS, UNTIL, withCredits, withCreditsOf } from "./account.js";
import type { Clause } from "./bed.js";
import { withPower } from "./powers.js";
import { insert, keyRow, readRow, refOf, WS } from "./rows.js";
import { alone, type SharedClause, type SharedStore } from "./shared-steps.js";

const record = (id: string, over: Partial<OnceRecord> = {}): OnceRecord => ({
  workspaceId: WS,
  id,
  body: "body",
  until: UNTIL,
  ...over,
});

interface Added {
  readonly now?: number;
  readonly bounds?: OnceBounds;
  readonly over?: Partial<KeyRow>;
}

const onceOf = (one: OnceRecord, { now = 0, bounds = ONCE_BOUNDS }: Added = {}) => ({ record: one, bounds, now });

/** How to add to the balance of the key by `write`, under an idempotency key. */
function adder(store: Store) {
  const { id } = keyRow(1);
  const read = () => readRow(store, "keys", id);
  return {
    read,
    async add(one: OnceRecord, add: number, how: Added = {}): Promise<WriteOutcome> {
      const row = { ...(await read())!, ...how.over };
      const what = { operation: "add", ids: [id], fields: ["credits"], count: 1 };
      const entry = { time: 0, workspaceId: WS, actorKind: "program", ...what };
      const entries = store.powers.audit === true ? [entry] : [];
      return store.write([{ table: "keys", row, credits: { period: 0, add } }], entries, onceOf(one, how));
    },
  };
}

/** Of concurrent repeats one spends, and both handles know its record. */
async function spendsOnce(shared: SharedStore): Promise<void> {
  const accounts = await withCreditsOf(shared, 100);
  const calls = Array.from({ length: 40 }, (_, i) => accounts[i % 2 === 0 ? 0 : 1].once(record(`id-${i % 5}`)));
  const outcomes = (await Promise.all(calls)).map(({ outcome }) => outcome);
  expect(outcomes.filter((outcome) => outcome === "done")).toHaveLength(5);
  expect(outcomes.filter((outcome) => outcome === "repeated")).toHaveLength(35);
  for (const { left } of accounts) expect(await left()).toBe(95);
  for (const store of [shared.here, shared.there]) expect(await store.findOnce("id-4", 0)).toBe("body");
  expect(await accounts[1].once(record("id-0", { body: "other" }))).toEqual({ outcome: "mismatch" });
}

/** Of concurrent writes under one idempotency key one is made. */
async function writesOnce(shared: SharedStore): Promise<void> {
  const [{ left }] = await withCreditsOf(shared, 0);
  const [ours, theirs] = [adder(shared.here), adder(shared.there)];
  for (let round = 1; round <= 10; round++) {
    const attempts = Array.from({ length: 6 }, (_, i) => (i % 2 === 0 ? ours : theirs).add(record(`${round}`), 1));
    const repeated = (await Promise.all(attempts)).filter((outcome) => outcome === "repeated");
    expect(repeated, `round ${round}`).toHaveLength(5);
    expect(await left()).toBe(round);
  }
  expect(await theirs.add(record("1", { body: "other" }), 1)).toBe("mismatch");
}

export function idempotencyClauses(all: Clause): void {
  const clause = withPower(all, "idempotency", (store: Store) => store);

  clause("clause 23: a repeat takes nothing, and another body under its id is a mismatch", async (store) => {
    const { once, left } = await withCredits(store, 10);
    expect(await store.findOnce("a", 0)).toBeUndefined();
    expect(await once(record("a"), 3)).toEqual({ outcome: "done", spend: { ok: true, remaining: 7 } });
    expect(await store.findOnce("a", 0)).toBe("body");
    expect(await store.findOnce("A", 0)).toBeUndefined();
    expect(await once(record("a"), 3)).toEqual({ outcome: "repeated", spend: { ok: true, remaining: 7 } });
    expect(await once(record("a", { body: "other" }), 3)).toEqual({ outcome: "mismatch" });
    expect(await once(record("b"), 3)).toEqual({ outcome: "done", spend: { ok: true, remaining: 4 } });
    expect(await once(record("a"), 3)).toEqual({ outcome: "repeated", spend: { ok: true, remaining: 4 } });
    expect(await left()).toBe(4);
  });

  clause("clause 23: of concurrent repeats one spends", alone(spendsOnce));

  clause("clause 23: what takes nothing is recorded too, but a refusal is not", async (store) => {
    const { once, left, ref } = await withCredits(store, 2);
    expect(await once(record("free"), 0)).toEqual({ outcome: "done", spend: { ok: true, remaining: 2 } });
    expect((await once(record("free"), 2)).outcome).toBe("repeated");
    const unlimited = () => store.spendOnce(undefined, 0, { cost: 1, now: 0, once: onceOf(record("unlimited")) });
    expect(await unlimited()).toEqual({ outcome: "done", spend: { ok: true, remaining: null } });
    expect(await unlimited()).toEqual({ outcome: "repeated", spend: { ok: true, remaining: null } });
    expect(await once(record("much"), 3)).toEqual({ outcome: "done", spend: { ok: false, remaining: 2 } });
    const stale = await store.spendOnce(ref, 32_000_000_001, { cost: 1, now: 0, once: onceOf(record("much")) });
    expect(stale).toMatchObject({ outcome: "done", spend: { ok: false, stale: true } });
    await insert(store, keyRow(2));
    const without = await refOf(store, "digest-2");
    expect(await store.spendOnce(without, 0, { cost: 1, now: 0, once: onceOf(record("much")) })).toEqual({
      outcome: "done",
    });
    expect(await store.findOnce("much", 0)).toBeUndefined();
    expect(await once(record("much"), 2)).toEqual({ outcome: "done", spend: { ok: true, remaining: 0 } });
    expect(await once(record("much"), 2)).toEqual({ outcome: "repeated", spend: { ok: true, remaining: 0 } });
    expect(await left()).toBe(0);
  });

  clause("clause 23: from the instant at which a record expires the call is a new one", async (store) => {
    const { once } = await withCredits(store, 10);
    await once(record("a"));
    expect(await store.findOnce("a", UNTIL - 1)).toBe("body");
    expect((await once(record("a"), 1, UNTIL - 1)).outcome).toBe("repeated");
    expect(await store.findOnce("a", UNTIL)).toBeUndefined();
    const later = record("a", { body: "other", until: 3 * UNTIL });
    expect(await once(later, 1, UNTIL)).toEqual({ outcome: "done", spend: { ok: true, remaining: 8 } });
    expect(await once(later, 1, 2 * UNTIL)).toEqual({ outcome: "repeated", spend: { ok: true, remaining: 8 } });
    // One of many that expired at once, of which a write removes a few.
    for (let i = 0; i < 30; i++) await once(record(`old-${i}`), 0);
    for (const outcome of ["done", "repeated"])
      expect((await once(record("old-29", { until: 2 * UNTIL }), 0, UNTIL)).outcome).toBe(outcome);
  });

  clause(
    "clause 23: when full it refuses new ones of workspaces that have their share, and removes none",
    async (store) => {
      const { once, left } = await withCredits(store, 100);
      const bounds = { maxRecords: 5, maxPerWorkspace: 3 };
      const add = (id: string, workspaceId = WS, now = 0) =>
        Promise.resolve(once(record(id, { workspaceId, until: now + UNTIL }), 1, now, bounds));
      for (const id of ["a", "b", "c"]) expect((await add(id)).outcome).toBe("done");
      expect(await add("d")).toEqual({ outcome: "full" });
      for (const id of ["e", "f"]) expect((await add(id, "ws_2")).outcome).toBe("done");
      expect(await add("g", "ws_2")).toEqual({ outcome: "full" });
      // One that has none, and then its share.
      expect((await add("g", "ws_3")).outcome).toBe("done");
      expect(await add("g2", "ws_3")).toEqual({ outcome: "full" });
      expect(await left()).toBe(94);
      for (const id of ["a", "b", "c"]) expect((await add(id)).outcome).toBe("repeated");
      // Those that have expired make space, each workspace's for itself.
      for (const id of ["h", "i", "j"]) expect((await add(id, WS, UNTIL)).outcome, id).toBe("done");
      expect(await add("k", WS, UNTIL)).toEqual({ outcome: "full" });
      expect((await add("l", "ws_3", UNTIL)).outcome).toBe("done");
    },
  );

  clause("clause 23: eight workspaces that fill the store leave a ninth its share", async (store) => {
    const { once } = await withCredits(store, 1_000);
    const bounds = { maxRecords: 90, maxPerWorkspace: 90 };
    const add = (i: number, workspaceId: string) => once(record(`${workspaceId}-${i}`, { workspaceId }), 1, 0, bounds);
    // A workspace alone may fill it.
    for (let i = 0; i < 90; i++) expect((await add(i, "ws_1")).outcome).toBe("done");
    expect(await add(90, "ws_1")).toEqual({ outcome: "full" });
    for (let n = 2; n <= 9; n++) {
      const share = Math.floor(90 / n);
      for (let i = 0; i < share; i++) expect((await add(i, `ws_${n}`)).outcome, `${n} ${i}`).toBe("done");
      for (const workspaceId of ["ws_1", `ws_${n}`]) expect(await add(91, workspaceId)).toEqual({ outcome: "full" });
    }
    for (let i = 0; i < 90; i++) expect((await add(i, "ws_1")).outcome).toBe("repeated");
  });

  clause("clause 23: expired records of others do not keep a workspace from its share", async (store) => {
    const { once } = await withCredits(store, 1_000);
    const bounds = { maxRecords: 200, maxPerWorkspace: 50 };
    const add = (i: number, workspaceId: string, now: number) =>
      once(record(`${workspaceId}-${now}-${i}`, { workspaceId, until: now + UNTIL }), 1, now, bounds);
    for (const workspaceId of ["ws_a", "ws_b", "ws_c", "ws_d"])
      for (let i = 0; i < 50; i++) expect((await add(i, workspaceId, 0)).outcome).toBe("done");
    for (let i = 0; i < 50; i++) expect((await add(i, "ws_d", UNTIL)).outcome, `${i}`).toBe("done");
  });

  clause("clause 23: numbers that are no integers are refused and change nothing", async (store) => {
    const { once, left } = await withCredits(store, 5);
    for (const call of [
      () => once(record("a"), -1),
      () => once(record("a"), NaN),
      () => once(record("a", { until: NaN })),
      () => once(record("a", { until: undefined as never })),
    ])
      expect(((await faultOf(call)) as Error | undefined)?.name).toBe("RangeError");
    expect(await once(record("a"))).toEqual({ outcome: "done", spend: { ok: true, remaining: 4 } });
    expect(await left()).toBe(4);
  });

  clause("clause 23: a write under an idempotency key is made once, and recorded only if it is made", async (store) => {
    const { once: spend, left } = await withCredits(store, 10);
    const { add, read } = adder(store);
    expect(await add(record("a"), 5)).toEqual([{ remaining: 15, reserved: 0, added: 5 }]);
    expect(await store.findOnce("a", 0)).toBe("body");
    // Before its row is looked at: a repeat was made with the row as it was.
    expect(await add(record("a"), 5, { over: { version: 7 } })).toBe("repeated");
    expect(await add(record("a", { body: "other" }), 5)).toBe("mismatch");
    expect(await add(record("b"), 5, { over: { version: 7 } })).toBe("conflict");
    expect(await add(record("b"), 5, { over: { version: 0 } })).toBe("taken");
    expect(await store.findOnce("b", 0)).toBeUndefined();
    expect(await add(record("b"), 1)).toEqual([{ remaining: 16, reserved: 0, added: 1 }]);
    // Spends and writes have one table of records.
    expect((await spend(record("b"))).outcome).toBe("repeated");
    expect((await read())?.version).toBe(3);
    // Without credits, and with nothing to write.
    const row = (await read())!;
    const rename = () => store.write([{ table: "keys", row: { ...row, name: "n" } }], [], onceOf(record("c")));
    expect([await rename(), await rename()]).toEqual(["written", "repeated"]);
    const nothing = () => store.write([], [], onceOf(record("d")));
    expect([await nothing(), await nothing()]).toEqual(["written", "repeated"]);
    expect(await left()).toBe(16);
  });

  clause("clause 23: a write is a new one once its record has expired", async (store) => {
    const { left } = await withCredits(store, 0);
    const { add } = adder(store);
    expect(await add(record("a"), 1)).toEqual([{ remaining: 1, reserved: 0, added: 1 }]);
    expect(await add(record("a"), 1, { now: UNTIL - 1 })).toBe("repeated");
    const later = record("a", { body: "other", until: 2 * UNTIL });
    expect(await add(later, 1, { now: UNTIL })).toEqual([{ remaining: 2, reserved: 0, added: 1 }]);
    expect(await add(later, 1, { now: UNTIL })).toBe("repeated");
    expect(await left()).toBe(2);
  });

  clause("clause 23: a write without space for its record changes nothing", async (store) => {
    const { left } = await withCredits(store, 0);
    const { add, read } = adder(store);
    const bounds = { maxRecords: 2, maxPerWorkspace: 1 };
    expect(await add(record("a"), 1, { bounds })).toEqual([{ remaining: 1, reserved: 0, added: 1 }]);
    expect(await add(record("b"), 1, { bounds })).toBe("full");
    expect(await add(record("b"), 1, { bounds, over: { version: 7 } })).toBe("conflict");
    expect(await add(record("a"), 1, { bounds })).toBe("repeated");
    expect([await left(), (await read())?.version]).toEqual([1, 2]);
    expect(await add(record("b"), 1, { bounds, now: UNTIL })).toEqual([{ remaining: 2, reserved: 0, added: 1 }]);
  });

  clause("clause 23: of concurrent writes under one idempotency key one is made", alone(writesOnce));

  clause("clause 23: the secret is 32 bytes, and stays as it is", async (store) => {
    const secret = await store.readSecret("idempotency");
    expect(/^[0-9a-f]{64}$/.test(secret), "32 bytes in hexadecimal").toBe(true);
    expect(await store.readSecret("idempotency")).toBe(secret);
  });

  all("clauses 12 and 23: the secrets of two new stores differ", async (one, open) => {
    if (!one.powers.idempotency) return;
    const two = await open();
    // Whoever knows a secret that all stores have, as one in the source, can guess what was digested with it.
    const isShared = (await one.readSecret("idempotency")) === (await two.readSecret("idempotency"));
    expect(isShared, "one secret in two new stores, of which neither may be a copy").toBe(false);
  });
}

export function sharedIdempotencyClauses(all: SharedClause): void {
  const clause = withPower(all, "idempotency", ({ here }: SharedStore) => here);

  clause("clause 23: of repeats through both handles one spends, and both know its record", spendsOnce);

  clause("clause 23: of writes under one idempotency key through both handles one is made", writesOnce);

  clause("clause 23: both handles have one secret, and count each other's records", async (shared) => {
    const { here, there } = shared;
    expect(await there.readSecret("idempotency")).toBe(await here.readSecret("idempotency"));
    const [one, other] = await withCreditsOf(shared, 10);
    const bounds = { maxRecords: 2, maxPerWorkspace: 2 };
    expect((await one.once(record("a"), 1, 0, bounds)).outcome).toBe("done");
    expect((await other.once(record("b"), 1, 0, bounds)).outcome).toBe("done");
    for (const { once } of [one, other]) expect(await once(record("c"), 1, 0, bounds)).toEqual({ outcome: "full" });
    expect(await one.left()).toBe(8);
  });
}
