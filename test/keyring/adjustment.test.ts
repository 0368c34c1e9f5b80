/** Changes of credits under an idempotency key: made once, whoever sends them again. Store clause 23. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { createKeyring, createVerifier, memoryStore, type Store } from "../../src/index.js";
import type { AuditEntry } from "../../src/contracts/audit.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { DAY, failure, fault, world } from "./support.js";

const folder = mkdtempSync(join(tmpdir(), "adjustment-"));
afterAll(() => rmSync(folder, { recursive: true }));
let files = 0;
const newFile = () => join(folder, `${++files}.db`);
const STORES: Record<string, () => Store> = { memory: () => memoryStore(), SQLite: () => sqliteStore(newFile()) };
const ONCE = { idempotencyKey: "evt_1" };

/** An identity and a key, each with ten credits, and the entries of the audit trail that the store has. */
async function credited(store: Store) {
  const there = await world({ store });
  await there.keyring.createIdentity({ externalId: "ada", credits: { remaining: 10 } });
  const { keyId } = await there.create({ credits: { remaining: 10 } });
  const { entries: before } = await store.readAudit({ workspaceId: "ws_default", among: 100, limit: 100 });
  const entries = async () => {
    const { entries } = await store.readAudit({ workspaceId: "ws_default", among: 100, limit: 100 });
    return entries.slice(0, entries.length - before.length).map(({ operation }: AuditEntry) => operation);
  };
  const add = { operation: "increment", value: 5 } as const;
  const changes = {
    updateCredits: {
      make: (options?: typeof ONCE, more = {}) => there.keyring.updateCredits({ keyId, ...add, ...more }, options),
      left: async () => (await there.keyring.getKey({ keyId })).credits?.remaining,
    },
    updateIdentityCredits: {
      make: (options?: typeof ONCE, more = {}) =>
        there.keyring.updateIdentityCredits({ identity: "ada", ...add, ...more }, options),
      left: async () => (await there.keyring.getIdentity({ identity: "ada" })).credits?.remaining,
    },
  };
  return { ...there, store, keyId, changes, entries };
}

describe.each(Object.entries(STORES))("changes of credits on %s", (_, open) => {
  it("a repeat changes nothing, makes no audit entry, and answers the balance as it stands", async () => {
    const { changes, entries } = await credited(open());
    for (const [name, { make, left }] of Object.entries(changes)) {
      const once = { idempotencyKey: `evt ${name}` };
      expect(await make(once)).toEqual({ remaining: 15 });
      expect(await make(once)).toEqual({ remaining: 15, repeated: true });
      expect(await make()).toEqual({ remaining: 20 });
      expect(await make(once)).toEqual({ remaining: 20, repeated: true });
      expect(await left()).toBe(20);
    }
    const [key, identity] = ["updateCredits", "updateIdentityCredits"];
    expect(await entries()).toEqual([identity, identity, key, key]);
  });

  it("another body, or another operation, is an IDEMPOTENCY_MISMATCH and changes nothing", async () => {
    const { changes, entries } = await credited(open());
    const { updateCredits, updateIdentityCredits } = changes;
    await updateCredits.make(ONCE);
    for (const other of [() => updateCredits.make(ONCE, { value: 6 }), () => updateIdentityCredits.make(ONCE)])
      expect(await fault(other())).toBe("IDEMPOTENCY_MISMATCH 422");
    expect([await updateCredits.left(), await updateIdentityCredits.left()]).toEqual([15, 10]);
    expect(await entries()).toEqual(["updateCredits"]);
  });

  it("the same body with its names in another order is the same body", async () => {
    const { keyring } = await credited(open());
    const refill = { interval: "monthly", amount: 100, refillDay: 1, rollover: 0 } as const;
    const { interval, amount, refillDay, rollover } = refill;
    await keyring.changePlan({ identity: "ada", refill, now: "difference" }, ONCE);
    const other = { now: "difference", refill: { rollover, refillDay, amount, interval }, identity: "ada" } as const;
    expect(await keyring.changePlan(other, ONCE)).toMatchObject({ remaining: 110, repeated: true });
    const less = { ...other, refill: { ...other.refill, amount: 99 } };
    expect(await fault(keyring.changePlan(less, ONCE))).toBe("IDEMPOTENCY_MISMATCH 422");
  });

  it("of changes that come at the same moment one is made", async () => {
    const { changes } = await credited(open());
    const { make, left } = changes.updateIdentityCredits;
    const answers = await Promise.all(Array.from({ length: 8 }, () => make(ONCE)));
    expect(answers.filter(({ repeated }) => repeated === undefined)).toEqual([{ remaining: 15 }]);
    expect(answers.every(({ remaining }) => remaining === 15)).toBe(true);
    expect(await left()).toBe(15);
  });

  it("set to what it is, then set otherwise, it is not set again", async () => {
    const { changes } = await credited(open());
    const { make } = changes.updateCredits;
    const set = { operation: "set", value: 10 };
    expect(await make(ONCE, set)).toEqual({ remaining: 10 });
    expect(await make()).toEqual({ remaining: 15 });
    expect(await make(ONCE, set)).toEqual({ remaining: 15, repeated: true });
  });

  it("a repeat is answered where the change could not be made any more, and a refusal is not recorded", async () => {
    const { changes } = await credited(open());
    const { make } = changes.updateCredits;
    await make(ONCE);
    await make(undefined, { operation: "set", value: null });
    expect(await make(ONCE)).toEqual({ remaining: null, repeated: true });
    const other = { idempotencyKey: "evt_2" };
    expect(await fault(make(other))).toBe("BAD_REQUEST 400");
    await make(undefined, { operation: "set", value: 1 });
    expect(await make(other)).toEqual({ remaining: 6 });
  });

  it("after 30 days it is a new change", async () => {
    const { changes, time } = await credited(open());
    const { make } = changes.updateIdentityCredits;
    await make(ONCE);
    time.now += 30 * DAY - 1;
    expect(await make(ONCE)).toEqual({ remaining: 15, repeated: true });
    time.now += 1;
    expect(await make(ONCE)).toEqual({ remaining: 20 });
  });

  it("a verification has keys of its own", async () => {
    const { changes, store, create, time } = await credited(open());
    const { key } = await create({ credits: { remaining: 3 } });
    const verifier = createVerifier(store, { clock: () => time.now, usage: false });
    expect((await verifier.verify({ key }, ONCE)).credits).toBe(2);
    expect(await changes.updateCredits.make(ONCE)).toEqual({ remaining: 15 });
    expect((await verifier.verify({ key }, ONCE)).credits).toBe(2);
  });
});

describe.each(Object.entries(STORES))("the audit entry of a change of credits on %s", (_, open) => {
  it("says what it added, what it left and why, in the trail and to a listener; concurrent changes each their own", async () => {
    const store = open();
    const told: AuditEntry[] = [];
    const { keyring, create, time } = await world({ store, onAudit: (entry) => void told.push(entry) });
    const refill = { interval: "daily", amount: 10 } as const;
    await keyring.createIdentity({ externalId: "ada", credits: { remaining: 7, refill } });
    const { keyId } = await create({ credits: { remaining: 3 } });
    await keyring.updateCredits({ keyId, operation: "decrement", value: 5, reason: "chargeback" });
    await keyring.updateCredits({ keyId, operation: "set", value: null, reason: "staff" });
    // The refill of the day is not what the administrator added.
    time.now += DAY;
    await keyring.updateIdentityCredits({ identity: "ada", operation: "increment", value: 4, reason: "goodwill" });
    const more = { ...refill, amount: 25 };
    await keyring.changePlan({ identity: "ada", refill: more, now: "difference", reason: "upgrade" });
    await keyring.grantCredits({ identity: "ada", grantId: "order 1", amount: 50, reason: "bonus" });
    await keyring.changePlan({ identity: "ada", refill });
    await Promise.all(
      [1, 2, 3].map((value) => keyring.updateIdentityCredits({ identity: "ada", operation: "increment", value })),
    );
    await keyring.close();
    const { entries } = await store.readAudit({ workspaceId: "ws_default", among: 100, limit: 100 });
    const shown = ({ operation, credits, reason }: AuditEntry) => [operation, credits, reason];
    const changes = [...entries].reverse().map(({ number: _number, ...entry }) => entry);
    expect(changes.slice(1, -3).map(shown)).toEqual([
      ["createIdentity", { added: 7, remaining: 7 }, undefined],
      ["createKey", { added: 3, remaining: 3 }, undefined],
      ["updateCredits", { added: -3, remaining: 0 }, "chargeback"],
      ["updateCredits", { added: 0, remaining: null }, "staff"],
      ["updateIdentityCredits", { added: 4, remaining: 21 }, "goodwill"],
      ["changePlan", { added: 15, remaining: 36 }, "upgrade"],
      ["grantCredits", { added: 50, remaining: 50, grantId: "order 1" }, "bonus"],
      ["changePlan", { added: 0, remaining: 36 }, undefined],
    ]);
    let left = 36;
    for (const { credits } of changes.slice(-3)) expect(credits).toMatchObject({ remaining: (left += credits!.added) });
    expect(left).toBe(42);
    expect(told).toEqual(changes);
    expect((await keyring.listAudit({ operation: "grantCredits" })).data[0]).toMatchObject({
      ...{ credits: { added: 50, remaining: 50, grantId: "order 1" }, reason: "bonus" },
    });
  });

  it("has the reason of what changes nothing as little as any entry of it", async () => {
    const { changes, entries } = await credited(open());
    await changes.updateCredits.make(undefined, { operation: "increment", value: 0, reason: "again" });
    expect(await entries()).toEqual([]);
    await expect(changes.updateCredits.make(undefined, { reason: "" })).rejects.toMatchObject({
      errors: [{ location: "body.reason" }],
    });
  });
});

describe("the idempotency key of a change of credits", () => {
  it("one that a program lost, or that is no text, is a TypeError; one of another form a BAD_REQUEST", async () => {
    const { changes } = await credited(memoryStore());
    const { make, left } = changes.updateCredits;
    for (const idempotencyKey of [undefined, null, 7])
      await expect(make({ idempotencyKey } as never)).rejects.toThrow(TypeError);
    await expect(make({ idempotencykey: "evt_1" } as never)).rejects.toThrow("options.idempotencykey is not an option");
    for (const idempotencyKey of ["", "é", "a\nb", "x".repeat(256)]) {
      const { errors } = await failure(make({ idempotencyKey }));
      expect(errors).toMatchObject([{ location: "idempotencyKey" }]);
    }
    expect(await left()).toBe(10);
    expect(await make({ idempotencyKey: "x".repeat(255) })).toEqual({ remaining: 15 });
  });

  it("of another workspace is another", async () => {
    const store = memoryStore();
    for (const workspaceId of ["ws_a", "ws_b"]) {
      const keyring = createKeyring(store, { workspaceId });
      await keyring.createIdentity({ externalId: "ada", credits: { remaining: 1 } });
      const change = { identity: "ada", operation: "increment", value: 1 } as const;
      expect(await keyring.updateIdentityCredits(change, ONCE)).toEqual({ remaining: 2 });
    }
  });

  it("a store that keeps none is a STORE_POWER_MISSING, before anything is changed", async () => {
    const store = memoryStore();
    const { changes } = await credited({ ...store, powers: { ...store.powers, idempotency: false } });
    const { make, left } = changes.updateCredits;
    expect(await fault(make(ONCE))).toBe("STORE_POWER_MISSING 500");
    expect(await left()).toBe(10);
    expect(await make()).toEqual({ remaining: 15 });
  });

  it("a store without space is an IDEMPOTENCY_FULL, and another writer's record a mismatch, whatever was read", async () => {
    const store = memoryStore();
    for (const [outcome, code] of [
      ["full", "IDEMPOTENCY_FULL 503"],
      ["mismatch", "IDEMPOTENCY_MISMATCH 422"],
    ] as const) {
      const write: Store["write"] = (writes, entries, once) =>
        once === undefined ? store.write(writes, entries) : outcome;
      const keyring = createKeyring({ ...store, write });
      await keyring.createIdentity({ externalId: outcome, credits: { remaining: 1 } });
      const change = { identity: outcome, operation: "increment", value: 1 } as const;
      expect(await fault(keyring.updateIdentityCredits(change, ONCE))).toBe(code);
      expect((await keyring.getIdentity({ identity: outcome })).credits?.remaining).toBe(1);
    }
  });
});
