/** Credits of several accounts in one step, and grants: clauses 31 and 32. */
import type {
  Change,
  GrantRow,
  OnceSpend,
  Settlement,
  Store,
  WalletAccount,
  WalletSpend,
  Write,
} from "../../contracts/store.js";
import { expect, faultOf } from "../expect.js";
import { accountThrough, UNTIL, withCredits } from "./account.js";
import type { Clause } from "./bed.js";
import { withPower } from "./powers.js";
import { balance, identity, insert, keyRow, NOW, readRow, WS } from "./rows.js";
import { drops, removeRow, type SharedClause, type SharedStore } from "./shared-steps.js";

const DAYS = 32_000_000_000;
type Wallets = readonly (readonly WalletAccount[])[];

/** Keys 1 to `given.length`, each with an account of so many credits. */
async function withAccounts(store: Store, ...given: number[]) {
  for (const [i, remaining] of given.entries()) await withCredits(store, remaining, {}, i + 1);
  return holder(store, given.length);
}

/** The accounts of keys 1 to `count`, through one handle. */
async function holder(store: Store, count: number) {
  const accounts = await Promise.all(Array.from({ length: count }, (_, i) => accountThrough(store, i + 1)));
  const step = async (wallets: Wallets, request: WalletSpend): Promise<OnceSpend> =>
    store.spendWallets!(wallets, request);
  return {
    /** The account of key `n`. */
    at: (n: number, over: Partial<WalletAccount> = {}): WalletAccount => ({
      ...{ ref: accounts[n - 1]!.ref, period: 0 },
      ...over,
    }),
    step,
    spend: async (wallets: Wallets, cost: number, now = 0) => {
      const { outcome, spend } = await step(wallets, { cost, now });
      expect(outcome).toBe("done");
      return spend;
    },
    reserve: async (wallets: Wallets, id: string, cost: number, now = 0) =>
      (await step(wallets, { cost, now, reservation: { id: `res_${id}`, until: UNTIL } })).spend,
    settle: async (wallets: Wallets, id: string, spent: number, now = 0): Promise<Settlement> => {
      const refs = wallets.map((wallet) => wallet.map(({ ref }) => ref));
      return store.settleWallets!(refs, { id: `res_${id}`, spent, now });
    },
    /** What keys 1, 2, … have left, and what of theirs is reserved. */
    left: async (now = 0) => {
      const balances = await Promise.all(accounts.map(({ read }) => read(0, now)));
      return balances.map((one) => (one!.reserved === 0 ? one!.remaining : [one!.remaining, one!.reserved]));
    },
    totals: async (n: number) => (await accounts[n - 1]!.read())?.totals,
    set: async (n: number, remaining: number | null) =>
      expect(await accounts[n - 1]!.change({ remaining })).toHaveLength(1),
  };
}

export function walletsClauses(all: Clause): void {
  const clause = withPower(all, "wallets", (store: Store) => store);

  clause("clause 31: a cost is taken from the accounts in order, and all of one before the next", async (store) => {
    const { at, spend, left } = await withAccounts(store, 5, 3, 10);
    const wallets = [[at(2), at(1), at(3)]];
    expect(await spend(wallets, 0)).toEqual({ ok: true, remaining: 18, balances: [[3, 5, 10]] });
    expect(await spend(wallets, 2)).toEqual({ ok: true, remaining: 16 });
    expect(await left()).toEqual([5, 1, 10]);
    expect(await spend(wallets, 8)).toEqual({ ok: true, remaining: 8 });
    expect(await left()).toEqual([0, 0, 8]);
    expect(await spend(wallets, 9)).toEqual({ ok: false, remaining: 8 });
    expect(await spend(wallets, 8)).toEqual({ ok: true, remaining: 0 });
    expect(await left()).toEqual([0, 0, 0]);
  });

  clause("clause 31: each wallet pays the whole cost, or none pays anything", async (store) => {
    const { at, spend, left, totals } = await withAccounts(store, 4, 100, 3);
    const wallets = [[at(1)], [at(3), at(2)]];
    expect(await spend(wallets, 4)).toEqual({ ok: true, remaining: 0, least: 0 });
    expect(await left()).toEqual([0, 99, 0]);
    expect(await spend(wallets, 1)).toEqual({ ok: false, remaining: 0, least: 0 });
    expect(await left()).toEqual([0, 99, 0]);
    for (const [n, spent] of [1, 2, 3].map((n) => [n, [4, 1, 3][n - 1]!] as const)) {
      const of = await totals(n);
      if (of !== undefined) expect(of).toMatchObject({ spent, forfeited: 0 });
    }
  });

  clause("clause 31: at its expiry an account gives nothing, and what is left there expires", async (store) => {
    const { at, spend, left, totals } = await withAccounts(store, 5, 10);
    const wallets = [[at(1, { expires: 50 }), at(2)]];
    expect(await spend(wallets, 1, 49)).toEqual({ ok: true, remaining: 14 });
    expect(await spend(wallets, 0, 50)).toEqual({ ok: true, remaining: 10, balances: [[0, 10]] });
    expect(await spend(wallets, 11, 50)).toEqual({ ok: false, remaining: 10 });
    expect(await spend(wallets, 2, 50)).toEqual({ ok: true, remaining: 8 });
    expect(await left()).toEqual([0, 8]);
    const of = await totals(1);
    if (of !== undefined) expect(of).toMatchObject({ spent: 1, forfeited: 0, expired: 4 });
  });

  clause("clause 31: refills that are due count, each in its account", async (store) => {
    for (const [n, amount] of [
      [1, 7],
      [2, 0],
    ] as const) {
      const refill = { interval: "daily", amount } as const;
      const credits = balance(1, { amount, period: amount === 0 ? 0 : DAYS + 5 });
      await insert(store, keyRow(n, { hasCredits: true, ...(amount > 0 && { refill }) }), credits);
    }
    const { at, spend, left } = await holder(store, 2);
    const wallets = [[at(1, { period: DAYS + 7 }), at(2)]];
    expect(await spend(wallets, 0)).toEqual({ ok: true, remaining: 16, balances: [[15, 1]] });
    expect(await spend(wallets, 16)).toEqual({ ok: true, remaining: 0 });
    // The calendar has gone on: an earlier period counts nothing.
    const emptied = { ok: true, remaining: 0, balances: [[0, 0]] };
    expect(await spend([[at(1, { period: DAYS + 5 }), at(2)]], 0)).toEqual(emptied);
    expect((await left()).at(1)).toBe(0);
    const stale = { ok: false, remaining: 0, stale: true };
    expect(await spend([[at(1, { period: 0 }), at(2)]], 1)).toEqual(stale);
    expect(await spend([[at(2)], [at(1, { period: 0 })]], 0)).toEqual(stale);
  });

  clause(
    "clause 31: an unlimited account makes its wallet unlimited, and one that is gone the result stale",
    async (store) => {
      const { at, spend, set, left } = await withAccounts(store, 5, 10, 3);
      await set(1, null);
      expect(await spend([[at(1), at(3)], [at(2)]], 4)).toEqual({ ok: true, remaining: 6, least: 1 });
      expect(await spend([[at(1)], [at(3)]], 4)).toEqual({ ok: false, remaining: 3, least: 1 });
      expect(await spend([[at(1)]], 4)).toEqual({ ok: true, remaining: null });
      expect(await left()).toEqual([null, 6, 3]);
      expect((await spend([[at(1), at(3)], [at(2)]], 0))?.balances).toEqual([[null, 3], [6]]);
      await removeRow(store, "keys", keyRow(3).id);
      for (const cost of [0, 1])
        expect(await spend([[at(2)], [at(3)]], cost)).toEqual({ ok: false, remaining: 0, stale: true });
      expect(await spend([[at(2)]], 0)).toEqual({ ok: true, remaining: 6, balances: [[6]] });
    },
  );

  clause("clause 31: concurrent spends of wallets that share an account never pass what is there", async (store) => {
    const { at, spend, left } = await withAccounts(store, 30, 30, 40);
    const spends = Array.from({ length: 60 }, (_, i) => spend([[at(1 + (i % 2))], [at(3)]], 1));
    const granted = (await Promise.all(spends)).filter((one) => one!.ok).length;
    expect(granted).toBe(40);
    const [one, two, three] = (await left()) as number[];
    expect([60 - one! - two!, three]).toEqual([40, 0]);
  });

  clause(
    "clause 31: a reservation has a part in each account, and returns what was taken last first",
    async (store) => {
      const { at, reserve, settle, spend, left } = await withAccounts(store, 5, 10, 12);
      const wallets = [[at(1), at(2)], [at(3)]];
      expect(await reserve(wallets, "a", 12)).toEqual({ ok: true, remaining: 0, least: 1 });
      const reserved = await left();
      expect(reserved.flat()).toEqual([0, 5, 3, 7, 0, 12]);
      expect(await reserve(wallets, "b", 1)).toEqual({ ok: false, remaining: 0, least: 1 });
      expect(await settle(wallets, "a", 13)).toEqual({ settled: false, reason: "exceeds" });
      expect(await left()).toEqual(reserved);
      expect(await settle(wallets, "a", 7)).toEqual({ settled: true });
      expect(await left()).toEqual([0, 8, 5]);
      for (const spent of [0, 7])
        expect(await settle(wallets, "a", spent)).toEqual({ settled: false, reason: "settled" });
      expect(await settle(wallets, "never", 0)).toEqual({ settled: false, reason: "unknown" });
      expect(await spend(wallets, 0)).toEqual({ ok: true, remaining: 5, least: 1, balances: [[0, 8], [5]] });
    },
  );

  clause("clause 31: a reservation under an id that is open in any of the accounts is refused", async (store) => {
    const { at, reserve, settle, left } = await withAccounts(store, 5, 10);
    expect(await reserve([[at(1), at(2)]], "a", 7)).toEqual({ ok: true, remaining: 8 });
    expect(await reserve([[at(2)]], "a", 1)).toEqual({ ok: false, remaining: 8, refused: "open" });
    expect(await reserve([[at(1), at(2)]], "a", 1)).toEqual({ ok: false, remaining: 8, refused: "open" });
    expect(await settle([[at(1), at(2)]], "a", 0)).toEqual({ settled: true });
    expect(await left()).toEqual([5, 10]);
  });

  clause("clause 31: what was reserved returns at its time-out to the accounts that it came from", async (store) => {
    const { at, reserve, settle, spend, left } = await withAccounts(store, 5, 10);
    const wallets = [[at(1), at(2)]];
    await reserve(wallets, "a", 8);
    expect(await spend(wallets, 8, UNTIL - 1)).toEqual({ ok: false, remaining: 7 });
    expect(await spend(wallets, 0, UNTIL)).toEqual({ ok: true, remaining: 15, balances: [[5, 10]] });
    expect(await settle(wallets, "a", 8, UNTIL)).toEqual({ settled: false, reason: "expired" });
    expect(await spend(wallets, 14, UNTIL)).toEqual({ ok: true, remaining: 1 });
    expect(await left(UNTIL)).toEqual([0, 1]);
  });

  clause("clause 31: a part that was voided is passed over, and the others are settled", async (store) => {
    const { at, reserve, settle, set, left } = await withAccounts(store, 5, 10, 20);
    const wallets = [[at(1), at(2)], [at(3)]];
    await reserve(wallets, "a", 8);
    await set(1, 50);
    expect(await left()).toEqual([50, [7, 3], [12, 8]]);
    expect(await settle(wallets, "a", 8)).toEqual({ settled: true, kept: [3, 8] });
    expect(await left()).toEqual([50, 7, 12]);
    await reserve([[at(2)], [at(3)]], "b", 1);
    for (const n of [2, 3]) await set(n, 1);
    expect(await settle([[at(2)], [at(3)]], "b", 1)).toEqual({ settled: false, reason: "voided" });
  });

  clause("clause 31: with an idempotency key a repeat takes nothing again, of any account", async (store) => {
    if (!store.powers.idempotency) return;
    const { at, step, left } = await withAccounts(store, 5, 10, 8);
    const wallets = [[at(1), at(2)], [at(3)]];
    const once = (id: string, cost: number, over: { body?: string; most?: number; now?: number } = {}) => {
      const { body = "body", most = 2, now = 0 } = over;
      const record = { workspaceId: "ws_1", id, body, until: 10 };
      return step(wallets, { cost, now, once: { record, bounds: { maxRecords: most, maxPerWorkspace: most } } });
    };
    expect(await once("a", 9)).toEqual({ outcome: "done", spend: { ok: false, remaining: 8, least: 1 } });
    expect(await once("a", 7)).toEqual({ outcome: "done", spend: { ok: true, remaining: 1, least: 1 } });
    expect(await once("a", 7)).toEqual({ outcome: "repeated", spend: { ok: true, remaining: 1, least: 1 } });
    expect(await once("a", 7, { body: "other" })).toEqual({ outcome: "mismatch" });
    expect(await once("b", 0)).toEqual({ outcome: "done", spend: { ok: true, remaining: 1, least: 1 } });
    expect(await once("c", 1)).toEqual({ outcome: "full" });
    expect(await left()).toEqual([0, 8, 1]);
    expect(await once("c", 1, { now: 10 })).toEqual({ outcome: "done", spend: { ok: true, remaining: 0, least: 1 } });
    expect(await left()).toEqual([0, 7, 0]);
    expect(await store.findOnce("c", 9)).toBe("body");
  });

  clause("clause 31: a number that is none, or an account that is listed twice, is a RangeError", async (store) => {
    const { at, step, left } = await withAccounts(store, 5, 5);
    const wrong: (() => unknown)[] = [
      ...[-1, 1.5, NaN].map((cost) => () => step([[at(1)]], { cost, now: 0 })),
      () => step([[at(1)]], { cost: 1, now: NaN }),
      () => step([[at(1, { period: NaN })]], { cost: 1, now: 0 }),
      () => step([[at(1, { expires: NaN })]], { cost: 1, now: 0 }),
      () => step([[at(1)], [at(1)]], { cost: 1, now: 0 }),
      () => step([[at(1)]], { cost: 1, now: 0, reservation: { id: "node", until: 1 } }),
    ];
    for (const call of wrong) expect((await faultOf(call)) instanceof RangeError, "a RangeError").toBe(true);
    expect(await left()).toEqual([5, 5]);
  });
}

const OWNER = "id_user";
const grant = (n: number, over: Partial<GrantRow> = {}): GrantRow => ({
  id: `grant_${n}`,
  workspaceId: WS,
  version: 0,
  identityId: OWNER,
  grantId: `order ${n}`,
  amount: 5,
  priority: 100,
  createdAt: NOW + n,
  hasCredits: true,
  generation: 1,
  ...over,
});

/** Writes grants of the identity, with 5 credits each, in one step with their owner. */
async function give(store: Store, ...grants: readonly GrantRow[]): Promise<unknown> {
  const row = (await readRow(store, "identities", OWNER))!;
  return store.write([
    { table: "identities", row: { ...row, hasGrants: true } },
    ...grants.map((one): Write => ({ table: "grants", row: one, credits: { period: 0, remaining: 5 } })),
  ]);
}

/** An identity with 10 credits, and key 1, which draws on them. */
async function withPlan(store: Store): Promise<void> {
  const row = identity("user", { hasCredits: true, generation: 1 });
  await store.write([{ table: "identities", row, credits: { period: 0, remaining: 10 } }]);
  await insert(store, keyRow(1, { identityId: OWNER }));
}

async function walletsOf(store: Store, n: number): Promise<Wallets> {
  const { wallets = [] } = (await store.findKey(`digest-${n}`))!;
  return wallets.map(({ accounts }) =>
    [...accounts]
      .sort((a, b) => a.createdAt - b.createdAt)
      .map(({ ref, expires }) => ({ ref, period: 0, ...(expires !== undefined && { expires }) })),
  );
}

export function grantsClauses(all: Clause): void {
  const clause = withPower(all, "wallets", (store: Store) => store);

  clause("clause 32: a key draws on the open grants of its identity, beside the main account", async (store) => {
    await withPlan(store);
    expect((await store.findKey("digest-1"))!.wallets).toBe(undefined);
    const bonus = grant(1, { priority: 7, expires: NOW + 50, reason: "bonus" });
    const given = { remaining: 5, reserved: 0, added: 5 };
    expect(await give(store, bonus, grant(2, { endedAt: NOW }))).toEqual([given, given]);
    const { wallets, hasCredits, creditsFrom } = (await store.findKey("digest-1"))!;
    expect([hasCredits, creditsFrom, wallets?.length, wallets?.[0]?.owner]).toEqual([true, "identity", 1, "identity"]);
    const [main, one, ...more] = [...wallets![0]!.accounts].sort((a, b) => a.createdAt - b.createdAt);
    expect([main!.grantId, main!.priority, more]).toEqual([undefined, 100, []]);
    expect([main!.generation, one!.generation]).toEqual([1, 1]);
    expect(one).toMatchObject({ grantId: "order 1", priority: 7, createdAt: NOW + 1, expires: NOW + 50 });
    const spend = async (cost: number, now: number) =>
      (await store.spendWallets!(await walletsOf(store, 1), { cost, now })).spend;
    expect(await spend(12, NOW)).toEqual({ ok: true, remaining: 3 });
    const read = async (now: number, expires?: number) =>
      (await store.readBalances([{ grantId: bonus.id, period: 0, ...(expires !== undefined && { expires }) }], now))[0];
    expect((await read(NOW))?.remaining).toBe(3);
    expect(await read(NOW + 50, NOW + 50)).toMatchObject({ remaining: 0, reserved: 0 });
    expect(await spend(0, NOW + 50)).toEqual({ ok: true, remaining: 0, balances: [[0, 0]] });
    expect((await store.readBalances([{ grantId: "grant_9", period: 0 }], 0))[0]).toBeUndefined();
  });

  clause(
    "clause 32: a key with credits of its own draws on the grants of its account, and on no other's",
    async (store) => {
      await withPlan(store);
      const id = keyRow(2).id;
      await insert(store, keyRow(2, { hasCredits: true, hasGrants: true, identityId: OWNER }), balance(4));
      await insert(store, keyRow(3, { hasCredits: true }), balance(4));
      const { identityId: _, ...own } = grant(1, { accountId: id, refill: { interval: "daily", amount: 2 } });
      await store.write([{ table: "grants", row: own, credits: { period: 0, remaining: 5 } }]);
      const { wallets, creditsFrom } = (await store.findKey("digest-2"))!;
      expect(creditsFrom).toBeUndefined();
      expect(wallets!.map(({ owner, accounts }) => `${owner} ${accounts.length}`)).toEqual(["key 2", "identity 1"]);
      expect(wallets![0]!.accounts.find(({ grantId }) => grantId !== undefined)?.refill).toEqual(own.refill);
      for (const n of [1, 3]) expect((await store.findKey(`digest-${n}`))!.wallets).toBe(undefined);
    },
  );

  clause(
    "clause 32: a grant that is ended, or removed, is drawn on no more; its account ends with its row",
    async (store) => {
      await withPlan(store);
      await give(store, grant(1), grant(2));
      const before = await walletsOf(store, 1);
      expect(before[0]).toHaveLength(3);
      const row = (await readRow(store, "grants", "grant_1"))!;
      const owner = (await readRow(store, "identities", OWNER))!;
      const told: Change[] = [];
      store.subscribe((change) => told.push(change));
      await store.write([
        { table: "identities", row: owner },
        { table: "grants", row: { ...row, endedAt: NOW } },
      ]);
      expect(drops(told, "digest-1", await store.findKey("digest-1")), "the key's record is dropped").toBe(true);
      expect((await walletsOf(store, 1))[0]).toHaveLength(2);
      expect(await readRow(store, "grants", "grant_1")).toEqual({ ...row, endedAt: NOW, version: 2 });
      const removals = [2, 1].map((version, i) => ({ table: "grants", remove: `grant_${i + 1}`, version }) as const);
      const again = (await readRow(store, "identities", OWNER))!;
      expect(await store.write([{ table: "identities", row: again }, ...removals])).toBe("written");
      expect((await store.findKey("digest-1"))!.wallets).toBe(undefined);
      const stale = { ok: false, remaining: 0, stale: true };
      expect((await store.spendWallets!(before, { cost: 1, now: 0 })).spend).toEqual(stale);
    },
  );

  clause("clause 32: grants have names of their owner, and are listed by it", async (store) => {
    await withPlan(store);
    await store.write([{ table: "identities", row: identity("other") }]);
    await give(store, grant(1), grant(2, { endedAt: NOW }), grant(3));
    const other = grant(4, { identityId: "id_other", grantId: "order 1" });
    expect(await store.write([{ table: "grants", row: other, credits: { period: 0, remaining: 1 } }])).toHaveLength(1);
    const again = { ...grant(5), grantId: "order 2" };
    expect(await store.write([{ table: "grants", row: again }])).toBe("taken");
    const named = await store.readNames("grants", WS, [`${OWNER} order 2`, "id_other order 1", `${OWNER} order 9`]);
    expect(named.map(({ id }) => id)).toEqual(["grant_2", "grant_4"]);
    const list = async (ownerId: string, over = {}) =>
      (await store.list("grants", { workspaceId: WS, ownerId, limit: 10, ...over })).map(({ id }) => id);
    expect(await list(OWNER)).toEqual(["grant_1", "grant_2", "grant_3"]);
    expect(await list(OWNER, { after: "grant_1", limit: 1 })).toEqual(["grant_2"]);
    expect(await list("id_other")).toEqual(["grant_4"]);
    expect(await list("id_none")).toEqual([]);
  });
}

export function sharedWalletsClauses(all: SharedClause): void {
  const clause = withPower(all, "wallets", ({ here }: SharedStore) => here);

  clause(
    "clause 31: two handles that spend from the same accounts, in other orders, grant what is there",
    async ({ here, there }) => {
      const one = await withAccounts(here, 20, 20);
      await there.pollChanges("anew");
      const other = await holder(there, 2);
      const spends = Array.from({ length: 30 }, (_, i) =>
        i % 2 === 0 ? one.spend([[one.at(1), one.at(2)]], 2) : other.spend([[other.at(2), other.at(1)]], 2),
      );
      expect((await Promise.all(spends)).filter((spend) => spend!.ok).length).toBe(20);
      expect(await other.left()).toEqual([0, 0]);
    },
  );

  clause("clause 31: what one handle reserves the other settles", async ({ here, there }) => {
    const one = await withAccounts(here, 5, 10);
    await there.pollChanges("anew");
    const other = await holder(there, 2);
    const wallets = [[one.at(1), one.at(2)]];
    await one.reserve(wallets, "a", 8);
    expect(await other.settle(wallets, "a", 6)).toEqual({ settled: true });
    expect(await one.settle(wallets, "a", 6)).toEqual({ settled: false, reason: "settled" });
    expect(await one.left()).toEqual([0, 9]);
  });
}
