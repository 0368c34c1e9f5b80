/** Credits of an identity, on which its keys draw: clause 26, and what it says of clauses 5, 7, 8, 13, 14 and 23. */
import type {
  BalanceQuery,
  CreditChange,
  IdentityRow,
  KeyRef,
  KeyRow,
  Store,
  WriteOutcome,
} from "../../contracts/store.js";
import { expect } from "../expect.js";
import { ONCE_BOUNDS } from "./account.js";
import type { Clause } from "./bed.js";
import { withPower } from "./powers.js";
import { api, balance, identity, insert, keyRow, readRow, WS } from "./rows.js";
import { drops, listen, type SharedClause } from "./shared-steps.js";

const ID = "id_user";

/** Writes the identity as it is, with a change of its credits. @returns `written`, where it answers with a balance */
async function write(store: Store, credits: CreditChange, over: Partial<IdentityRow> = {}): Promise<WriteOutcome> {
  const row = (await readRow(store, "identities", ID)) ?? identity("user");
  const outcome = await store.write([{ table: "identities", row: { ...row, ...over }, credits }]);
  return typeof outcome === "string" ? outcome : "written";
}

/** Gives the identity credits, as administration does: a balance that is set has a generation of its own. */
async function give(
  store: Store,
  remaining: number,
  generation = 1,
  change: Partial<CreditChange> = {},
): Promise<void> {
  const over = { hasCredits: true, generation };
  expect(await write(store, { period: 0, remaining, ...change }, over)).toBe("written");
}

/** Takes them away. */
const take = (store: Store, generation: number): Promise<WriteOutcome> =>
  write(store, { period: 0, remaining: null }, { hasCredits: false, generation });

const ofIdentity = (n: number, over: Partial<KeyRow> = {}) => keyRow(n, { identityId: ID, ...over });

async function changeKey(store: Store, n: number, over: Partial<KeyRow>, credits?: CreditChange): Promise<void> {
  const row = { ...(await readRow(store, "keys", keyRow(n).id))!, ...over };
  const outcome = await store.write([{ table: "keys", row, ...(credits && { credits }) }]);
  expect(outcome === "written").toBe(credits === undefined);
}

/** Where a key's credits are. */
async function accountOf(store: Store, n: number): Promise<KeyRef> {
  const { ref, account } = (await store.findKey(`digest-${n}`))!;
  return account?.ref ?? ref;
}
const spend = async (store: Store, n: number, cost: number, period = 0) =>
  store.spendCredits(await accountOf(store, n), cost, period, 0);
const read = async (store: Store, period = 0, now = 0) =>
  (await store.readBalances([{ identityId: ID, period }], now))[0];

export function identityCreditsClauses(clause: Clause): void {
  clause("clause 26: a key draws on its own balance and on its identity's, as it says, or on none", async (store) => {
    const refill = { interval: "daily", amount: 7 } as const;
    await give(store, 10, 1, { refill: { amount: 7, period: 32_000_000_005 } });
    await write(store, { period: 32_000_000_005 }, { refill });
    await insert(store, ofIdentity(1, { hasCredits: true, creditsFrom: "key" }), balance(4));
    await insert(store, ofIdentity(2));
    await insert(store, ofIdentity(5, { hasCredits: true }), balance(6));
    await insert(store, ofIdentity(3, { creditsFrom: "none" }));
    await insert(store, keyRow(4));
    const [own, drawing, unlimited, alone] = await store.findKeys([1, 2, 3, 4].map((n) => `digest-${n}`));
    expect(own).toMatchObject({ hasCredits: true, generation: 0 });
    for (const one of [own, unlimited, alone])
      expect([one!.account, one!.creditsFrom, one!.refill]).toEqual([undefined, undefined, undefined]);
    expect(drawing).toMatchObject({ hasCredits: true, creditsFrom: "identity", refill, generation: 1 });
    expect(drawing!.account!.id).toBe(keyRow(2).id);
    if (store.powers.wallets) {
      const both = (await store.findKey("digest-5"))!;
      expect(both).toMatchObject({
        hasCredits: true,
        generation: 0,
        wallets: [{ owner: "key" }, { owner: "identity" }],
      });
      const [mine, theirs] = both.wallets!.map(({ accounts }) => accounts);
      expect([mine!.map(({ ref }) => ref), theirs!.map(({ refill }) => refill)]).toEqual([[both.ref], [refill]]);
      expect(theirs![0]!.ref).toBe(drawing!.account!.ref);
    }
    expect([unlimited!.hasCredits, alone!.hasCredits]).toEqual([false, false]);
    expect(await spend(store, 1, 3)).toEqual({ ok: true, remaining: 1 });
    expect(await spend(store, 2, 3, 32_000_000_005)).toEqual({ ok: true, remaining: 7 });
    expect(await spend(store, 3, 3)).toBeUndefined();
    expect(await spend(store, 2, 13, 32_000_000_006)).toEqual({ ok: true, remaining: 1 });
    expect(await read(store, 32_000_000_006)).toMatchObject({ remaining: 1, reserved: 0 });
  });

  clause("clause 26: keys that replaced each other keep their buckets, and draw on their identity", async (store) => {
    await give(store, 10);
    await insert(store, ofIdentity(1));
    const next = ofIdentity(2, { accountId: keyRow(1).id, rerolledFrom: keyRow(1).id });
    expect(await store.write([{ table: "keys", row: next }])).toBe("written");
    expect((await store.findKey("digest-2"))?.account?.id).toBe(keyRow(1).id);
    expect(await spend(store, 2, 6)).toEqual({ ok: true, remaining: 4 });
    expect(await spend(store, 1, 6)).toEqual({ ok: false, remaining: 4 });
    // A balance of their own takes its place, for both.
    await changeKey(store, 1, { hasCredits: true, generation: 1 }, { period: 0, remaining: 50 });
    await changeKey(store, 2, { hasCredits: true, generation: 1 });
    expect(await spend(store, 2, 20)).toEqual({ ok: true, remaining: 30 });
    expect(await spend(store, 1, 20)).toEqual({ ok: true, remaining: 10 });
    expect((await read(store))?.remaining).toBe(4);
  });

  clause("clause 5: concurrent spends of many keys of an identity never grant more than it has", async (store) => {
    await give(store, 30);
    for (let n = 1; n <= 5; n++) await insert(store, ofIdentity(n));
    const refs = await Promise.all([1, 2, 3, 4, 5].map((n) => accountOf(store, n)));
    expect(new Set(refs).size).toBe(1);
    const spends = Array.from({ length: 100 }, async (_, i) => store.spendCredits(refs[i % 5]!, 1, 0, 0));
    expect((await Promise.all(spends)).filter((answer) => answer?.ok)).toHaveLength(30);
    expect((await read(store))?.remaining).toBe(0);
  });

  clause(
    "clause 8: a find sees that an identity was given credits, that they were set, and taken away",
    async (store) => {
      await store.write([{ table: "identities", row: identity("user") }]);
      await insert(store, ofIdentity(1));
      const changes = listen(store);
      const notified = async () => {
        const record = (await store.findKey("digest-1"))!;
        return [drops(await changes(), "digest-1", record), record.hasCredits, record.generation];
      };
      await changes();
      await give(store, 5);
      expect(await notified()).toEqual([true, true, 1]);
      await give(store, 5, 2);
      expect(await notified()).toEqual([true, true, 2]);
      expect(await take(store, 3)).toBe("written");
      expect(await notified()).toEqual([true, false, 0]);
      await give(store, 9, 4);
      expect(await notified()).toEqual([true, true, 4]);
      expect(await spend(store, 1, 9)).toEqual({ ok: true, remaining: 0 });
    },
  );

  clause("clause 26: a key that moves draws on the credits of its new identity alone", async (store) => {
    await give(store, 5);
    const other = identity("other", { hasCredits: true, generation: 1 });
    await store.write([{ table: "identities", row: other, credits: { period: 0, remaining: 100 } }]);
    await insert(store, ofIdentity(1));
    expect(await spend(store, 1, 5)).toEqual({ ok: true, remaining: 0 });
    await changeKey(store, 1, { identityId: "id_other" });
    expect(await spend(store, 1, 5)).toEqual({ ok: true, remaining: 95 });
    await changeKey(store, 1, { identityId: ID });
    expect(await spend(store, 1, 5)).toEqual({ ok: false, remaining: 0 });
    const whose = [{ identityId: "id_other" }, { keyId: keyRow(1).id }, { identityId: "id_none" }];
    const balances = await store.readBalances(whose.map((of) => ({ ...of, period: 0 })) as BalanceQuery[], 0);
    expect(balances.map((one) => one?.remaining)).toEqual([95, null, undefined]);
  });

  clause(
    "clause 13: a change of an identity's credits that saw fewer refills than were counted is refused",
    async (store) => {
      await give(store, 0, 1, { refill: { amount: 10, period: 100 } });
      await insert(store, ofIdentity(1));
      expect(await spend(store, 1, 1, 102)).toEqual({ ok: true, remaining: 19 });
      const calendar = { refillsCounted: 101, refill: { amount: 1, period: 7 } };
      expect(await write(store, { period: 101, ...calendar })).toBe("conflict");
      expect(await write(store, { period: 102, add: -4 }, { version: 7 })).toBe("conflict");
      expect(await write(store, { period: 103, add: -4 })).toBe("written");
      expect((await read(store, 103))?.remaining).toBe(25);
    },
  );

  clause(
    "clause 26: an identity on whose credits an enabled key draws is not removed, and its account ends with it",
    async (store) => {
      await store.write([{ table: "apis", row: api({ id: "api_2" }) }]);
      const remove = async () => {
        const { version } = (await readRow(store, "identities", ID))!;
        return store.write([{ table: "identities", remove: ID, version }]);
      };
      await give(store, 5);
      const others = [
        [ofIdentity(2, { hasCredits: true, creditsFrom: "key" }), balance(1)],
        [ofIdentity(3, { creditsFrom: "none" })],
        [ofIdentity(4, { enabled: false })],
        [ofIdentity(5)],
        [ofIdentity(6, { apiId: "api_2" })],
      ] as const;
      for (const [row, credits] of others) await insert(store, row, credits);
      await changeKey(store, 5, { deleted: true });
      const [second] = await store.readMany("apis", ["api_2"]);
      await store.write([{ table: "apis", row: { ...second!, deleted: true } }]);
      await insert(store, ofIdentity(1));
      const ref = await accountOf(store, 1);
      expect(await remove()).toBe("conflict");
      expect(await spend(store, 1, 2)).toEqual({ ok: true, remaining: 3 });
      await changeKey(store, 1, { enabled: false });
      if (store.powers.wallets) {
        await insert(store, ofIdentity(8, { hasCredits: true }), balance(1));
        expect(await remove(), "a key with credits of its own draws on them too").toBe("conflict");
        await changeKey(store, 8, { deleted: true });
      }
      expect(await remove()).toBe("written");
      expect(await store.spendCredits(ref, 1, 0, 0)).toBeUndefined();
      expect(await read(store)).toBeUndefined();
      // Of the same id, it begins without credits.
      await store.write([{ table: "identities", row: identity("user") }]);
      expect(await read(store)).toMatchObject({ remaining: null });
      await insert(store, ofIdentity(7));
      expect((await store.findKey("digest-7"))?.hasCredits).toBe(false);
      expect(await remove(), "without credits nothing is drawn on").toBe("written");
    },
  );

  const lease = withPower(clause, "leases", (store: Store) => store);
  lease("clause 14: keys of an identity draw under one lease, which setting the balance voids", async (store) => {
    await give(store, 100);
    for (const n of [1, 2]) await insert(store, ofIdentity(n));
    const draw = async (n: number, spent: number) =>
      store.drawCredits(await accountOf(store, n), {
        ...{ holder: "h", spent, cost: 1, step: 10, size: 10, period: 0, now: 0, until: 1_000 },
      });
    const first = (await draw(1, 0))!;
    expect(first).toMatchObject({ drawn: 10, generation: 1 });
    expect(await draw(2, 4)).toMatchObject({ drawn: 10, generation: 1 });
    expect((await read(store))?.totals).toMatchObject({ spent: 4 });
    await give(store, 50, 2);
    expect(await draw(1, 4)).toMatchObject({ drawn: 0, generation: 2 });
    await store.returnCredits(await accountOf(store, 2), { holder: "h", spent: 9 });
    expect(await read(store)).toMatchObject({ remaining: 50, reserved: 0 });
  });

  const once = withPower(clause, "idempotency", (store: Store) => store);
  once("clause 23: a spend of an identity's credits is recorded with it", async (store) => {
    await give(store, 3);
    await insert(store, ofIdentity(1));
    const record = { workspaceId: WS, id: "id", body: "body", until: 1_000 };
    const ref = await accountOf(store, 1);
    const request = { cost: 2, now: 0, once: { record, bounds: ONCE_BOUNDS } };
    for (const outcome of ["done", "repeated"])
      expect(await store.spendOnce(ref, 0, request)).toEqual({ outcome, spend: { ok: true, remaining: 1 } });
  });
}

export function sharedIdentityCreditsClauses(clause: SharedClause): void {
  clause(
    "clauses 8, 15 and 26: keys of an identity draw on one account through both handles, once it has credits",
    async ({ here, there }) => {
      await here.write([{ table: "identities", row: identity("user") }]);
      for (const n of [1, 2]) await insert(here, ofIdentity(n));
      await there.pollChanges("anew");
      const before = (await there.findKey("digest-2"))!;
      const changes = listen(there);
      await changes();
      await give(here, 40);
      expect(drops(await changes(), "digest-2", before)).toBe(true);
      const [one, other] = [await accountOf(here, 1), await accountOf(there, 2)];
      const spends = Array.from({ length: 100 }, async (_, i) =>
        i % 2 === 0 ? here.spendCredits(one, 1, 0, 0) : there.spendCredits(other, 1, 0, 0),
      );
      expect((await Promise.all(spends)).filter((answer) => answer?.ok)).toHaveLength(40);
      for (const store of [here, there]) expect((await read(store))?.remaining).toBe(0);
    },
  );

  clause(
    "clause 26: of a key that begins to draw and the removal of its identity, no key is left unlimited",
    async ({ here, there }) => {
      await give(here, 40);
      await insert(here, ofIdentity(1, { enabled: false }));
      await there.pollChanges("anew");
      const { version } = (await readRow(there, "identities", ID))!;
      await changeKey(here, 1, { enabled: true });
      expect(await there.write([{ table: "identities", remove: ID, version }])).toBe("conflict");
      expect(await spend(here, 1, 1)).toEqual({ ok: true, remaining: 39 });
    },
  );
}
