/** Leases of keys that draw on several accounts: against the exact mode, and against what was there. */
import fc from "fast-check";
import { afterEach, describe, expect, it } from "vitest";
import type { KeyRef, NumberedRefill, OwnedWallet, Store } from "../../src/contracts/store.js";
import { type LeaseOptions, leasedSpender } from "../../src/credits/leased-spender.js";
import { periodOf } from "../../src/credits/refill-calendar.js";
import { exactSpender } from "../../src/credits/exact-spender.js";
import type { Spender, SpendTarget } from "../../src/credits/spender.js";
import { memoryStore } from "../../src/stores/memory.js";
import { api, balance, insert, keyRow, readRow, refOf } from "../../src/testing/store/rows.js";
import { dice } from "../model/dice.js";
import { runs } from "../runs.js";
import { storeError } from "./support.js";

const HOUR = 3_600_000;
const MINUTE = 60_000;

/** An account of one of two wallets. The first of a wallet is its main account. */
interface Given {
  readonly wallet: 0 | 1;
  readonly remaining: number;
  readonly priority?: number;
  readonly expires?: number;
  readonly refill?: NumberedRefill;
}

/** A store with one account for each that is given, all drawn on by one key. */
async function bedOn(given: readonly Given[], store: Store) {
  await store.write([{ table: "apis", row: api() }]);
  const refs: KeyRef[] = [];
  for (const [i, { remaining, refill }] of given.entries()) {
    const row = keyRow(i, { hasCredits: true, ...(refill && { refill }) });
    await insert(store, row, balance(remaining, { amount: refill?.amount ?? 0, period: periodOf(refill, 0) }));
    // A rollover comes with a write.
    if (refill?.rollover !== undefined) {
      const stored = (await readRow(store, "keys", row.id))!;
      const { amount, rollover } = refill;
      const credits = { period: periodOf(refill, 0), refill: { amount, rollover, period: periodOf(refill, 0) } };
      expect(await store.write([{ table: "keys", row: stored, credits }])).toHaveLength(1);
    }
    refs.push(await refOf(store, `digest-${i}`));
  }
  const generations = given.map(() => 0);
  const isMain = (i: number) => given.findIndex(({ wallet }) => wallet === given[i]!.wallet) === i;
  const targetOf = (): SpendTarget => {
    const wallets = ([0, 1] as const).flatMap((wallet): OwnedWallet[] => {
      const accounts = given.flatMap((one, i) => {
        if (one.wallet !== wallet) return [];
        const { priority = 100, expires, refill } = one;
        const account = { ref: refs[i]!, generation: generations[i]!, priority, createdAt: i };
        return [
          {
            ...account,
            ...(!isMain(i) && { grantId: `grant ${i}` }),
            ...(expires !== undefined && { expires }),
            ...(refill !== undefined && { refill }),
          },
        ];
      });
      return accounts.length === 0 ? [] : [{ owner: wallet === 0 ? "key" : "identity", accounts }];
    });
    const [{ ref, refill, generation }] = wallets[0]!.accounts as [OwnedWallet["accounts"][number]];
    return { ref, refill, generation, wallets, lease: undefined };
  };
  const read = async (now: number) =>
    (
      await store.readBalances(
        given.map(({ refill }, i) => ({ keyId: keyRow(i).id, period: periodOf(refill, now) })),
        now,
      )
    ).map((one) => one!);
  return {
    store,
    targetOf,
    read,
    left: async (now = 0) => (await read(now)).map(({ remaining }) => remaining),
    async set(i: number, remaining: number | null, now = 0) {
      const row = (await readRow(store, "keys", keyRow(i).id))!;
      const credits = { period: periodOf(given[i]!.refill, now), remaining, now };
      generations[i]!++;
      const written = { table: "keys", row: { ...row, generation: generations[i]! } } as const;
      expect(await store.write([{ ...written, credits }])).toHaveLength(1);
    },
    async add(i: number, add: number, now = 0) {
      const row = (await readRow(store, "keys", keyRow(i).id))!;
      const credits = { period: periodOf(given[i]!.refill, now), add, now };
      expect(await store.write([{ table: "keys", row, credits }])).toHaveLength(1);
    },
  };
}

/** The store, and how often each of its calls was made. */
function counted(store: Store) {
  const calls = { draws: 0, returns: 0, exact: 0, reads: 0 };
  return {
    calls,
    store: {
      ...store,
      drawCredits: (ref, request) => (calls.draws++, store.drawCredits(ref, request)),
      returnCredits: (ref, lease) => (calls.returns++, store.returnCredits(ref, lease)),
      spendWallets(wallets, request) {
        calls[request.cost === 0 ? "reads" : "exact"]++;
        return store.spendWallets!(wallets, request);
      },
    } satisfies Store,
  };
}

const spendMany = async (spender: Spender, target: SpendTarget, calls: number, cost = 1, now = 0) => {
  for (let i = 0; i < calls; i++) expect(await spender.spend(target, cost, now)).toMatchObject({ ok: true });
};

/** Accounts, and options of leases, by a seed. */
function rolled(seed: number) {
  const roll = dice(seed);
  const { below, chance, pick } = roll;
  const refillOf = (): { readonly refill?: NumberedRefill } => {
    if (!chance(0.4)) return {};
    const rollover = chance(0.6) ? { rollover: pick([0, 0, 3, 50]) } : {};
    return { refill: { interval: "hourly", amount: 1 + below(20), ...rollover } };
  };
  const given = Array.from({ length: 2 + below(5) }, (_, i): Given => {
    const wallet = i === 0 ? 0 : chance(0.5) ? 0 : 1;
    const grant = i > 0 && {
      ...(chance(0.5) && { priority: pick([0, 50, 200]) }),
      ...(chance(0.4) && { expires: 1 + below(5 * HOUR) }),
    };
    return { wallet, remaining: below(chance(0.3) ? 200 : 30), ...grant, ...refillOf() };
  });
  const size = pick([1, 4, 20, 100]);
  const step = Math.max(1, Math.floor(size / pick([1, 2, 4])));
  const options: LeaseOptions = {
    size,
    step,
    ...(chance(0.5) && { firstStep: step }),
    ttl: HOUR,
    keys: pick([2, 100]),
  };
  return { roll, given, options };
}

/** Where leases are played, how many histories, and how long each is. */
interface Played {
  readonly open: () => Store | Promise<Store>;
  readonly whole: number;
  readonly steps: number;
}

/** Declares the tests for a store. */
export function playWalletLeases(name: string, { open, whole, steps }: Played): void {
  describe(`leasedSpender: several accounts, ${name}`, () => {
    let opened: Store[] = [];
    const bed = async (given: readonly Given[]) => {
      const store = await open();
      opened.push(store);
      return bedOn(given, store);
    };
    afterEach(async () => {
      for (const store of opened) await store.close();
      opened = [];
    });

    it("a cap inside a plan, and a grant: a thousand calls take a few steps of the store", async () => {
      const { store, targetOf, left } = await bed([
        { wallet: 0, remaining: 5_000 },
        { wallet: 1, remaining: 9_000 },
        { wallet: 1, remaining: 300, priority: 1 },
      ]);
      const { calls, store: watched } = counted(store);
      const spender = leasedSpender(watched);
      const target = targetOf();
      for (let left = 4_999; left >= 4_000; left--)
        expect(await spender.spend(target, 1, 0)).toEqual({ ok: true, remaining: left, least: 0 });
      expect(calls.exact).toBe(1);
      expect(calls.draws).toBeLessThan(50);
      expect(calls.reads).toBeLessThan(50);
      await spender.close();
      expect(await left()).toEqual([4_000, 8_300, 0]);
    });

    it("a call takes its cost of each wallet or of none, and what one leased for it goes back", async () => {
      const { store, targetOf, left } = await bed([
        { wallet: 0, remaining: 3 },
        { wallet: 1, remaining: 100 },
      ]);
      const spender = leasedSpender(store, { firstStep: 1 });
      const target = targetOf();
      await spendMany(spender, target, 3);
      for (let i = 0; i < 5; i++)
        expect(await spender.spend(target, 1, 0)).toEqual({ ok: false, remaining: 0, least: 0 });
      await spender.close();
      expect(await left()).toEqual([0, 97]);
    });

    it("a key whose cap is used up does not return what its owner's other keys have leased", async () => {
      const { store, targetOf } = await bed([
        { wallet: 0, remaining: 1 },
        { wallet: 1, remaining: 1_000 },
      ]);
      const { calls, store: watched } = counted(store);
      const spender = leasedSpender(watched, { firstStep: 100 });
      const capped = targetOf();
      const plain = { ...capped.wallets![1]!.accounts[0]!, refill: undefined, lease: undefined };
      await spendMany(spender, plain, 10);
      await spendMany(spender, capped, 1);
      const { returns, draws } = calls;
      for (let i = 0; i < 20; i++) {
        expect(await spender.spend(capped, 1, 0)).toMatchObject({ ok: false, least: 0 });
        await spendMany(spender, plain, 1);
      }
      expect(calls.draws).toBe(draws);
      // The cap's own lease, which was empty.
      expect(calls.returns).toBeLessThanOrEqual(returns + 1);
      await spender.close();
    });

    it("where an account of a wallet is unlimited, or gone, nothing is leased", async () => {
      const { store, targetOf, set, left } = await bed([
        { wallet: 0, remaining: 100 },
        { wallet: 1, remaining: 100 },
      ]);
      const { calls, store: watched } = counted(store);
      const spender = leasedSpender(watched, { firstStep: 10 });
      await set(1, null);
      const target = targetOf();
      await spendMany(spender, target, 5);
      expect(await left()).toEqual([95, null]);
      await store.write([
        { table: "keys", remove: keyRow(0).id, version: (await readRow(store, "keys", keyRow(0).id))!.version },
      ]);
      expect(await spender.spend(target, 1, 0)).toEqual({ ok: false, remaining: 0, stale: true });
      expect([calls.draws, calls.exact]).toEqual([0, 6]);
      await spender.close();
    });

    it("at exactly its expiry a grant is spent no more, and what was leased of it goes back", async () => {
      const { store, targetOf, read } = await bed([
        { wallet: 0, remaining: 100 },
        { wallet: 0, remaining: 50, expires: 1_000, priority: 1 },
      ]);
      const spender = leasedSpender(store, { firstStep: 20, step: 20, size: 40 });
      const target = targetOf();
      await spendMany(spender, target, 10);
      await spendMany(spender, target, 1, 1, 999);
      expect(await spender.spend(target, 1, 1_000)).toEqual({ ok: true, remaining: 99 });
      await spender.close();
      // What has come back counts as expired where the account is read as a grant's, with its expiry.
      const [main, grant] = await read(1_001);
      expect([main!.remaining, main!.totals!.spent]).toEqual([99, 1]);
      expect([grant!.remaining, grant!.reserved, grant!.totals!.spent]).toEqual([39, 0, 11]);
    });

    it("with a rollover of 0 what was leased ends with its period", async () => {
      const { store, targetOf, read } = await bed([
        { wallet: 0, remaining: 100 },
        { wallet: 0, remaining: 20, priority: 1, refill: { interval: "hourly", amount: 20, rollover: 0 } },
      ]);
      const spender = leasedSpender(store, { firstStep: 5, step: 5, size: 20 });
      const target = targetOf();
      await spendMany(spender, target, 3, 1, HOUR - 1);
      await spendMany(spender, target, 20, 1, HOUR);
      await spender.close();
      const [main, free] = await read(HOUR);
      expect([main!.remaining, free!.remaining, free!.totals!.spent, free!.totals!.expired]).toEqual([100, 0, 23, 17]);
    });

    it("a balance that is set voids what was leased of it, also of the second wallet", async () => {
      const { store, targetOf, set, left } = await bed([
        { wallet: 0, remaining: 1_000 },
        { wallet: 1, remaining: 1_000 },
      ]);
      const spender = leasedSpender(store, { firstStep: 100 });
      await spendMany(spender, targetOf(), 10);
      await set(1, 5);
      expect(await spender.spend(targetOf(), 1, 0)).toEqual({ ok: true, remaining: 4, least: 1 });
      const answers = [];
      const target = targetOf();
      for (let i = 0; i < 10; i++) answers.push((await spender.spend(target, 1, 0))!.ok);
      expect(answers.filter(Boolean)).toHaveLength(4);
      await spender.close();
      expect(await left()).toEqual([985, 0]);
    });

    it("credits that arrive in an earlier account are used from the next draw on", async () => {
      const { store, targetOf, add, left } = await bed([
        { wallet: 0, remaining: 1_000 },
        { wallet: 0, remaining: 0, priority: 1 },
      ]);
      const spender = leasedSpender(store, { firstStep: 10, step: 10, size: 10 });
      const target = targetOf();
      await spendMany(spender, target, 4);
      await add(1, 100);
      await spendMany(spender, target, 6 + 50);
      await spender.close();
      expect(await left()).toEqual([990, 50]);
    });

    it("a cost that no account covers by itself is taken from several, in order, with what was leased of the first", async () => {
      const { store, targetOf, left } = await bed([
        { wallet: 0, remaining: 100 },
        { wallet: 0, remaining: 12, priority: 1 },
      ]);
      const spender = leasedSpender(store, { firstStep: 5, step: 5, size: 10 });
      const target = targetOf();
      await spendMany(spender, target, 2);
      expect(await spender.spend(target, 40, 0)).toEqual({ ok: true, remaining: 70 });
      expect(await left()).toEqual([70, 0]);
      await spender.close();
    });

    it("a draw that fails fails the calls that waited for it, and the next call draws again", async () => {
      const { store, targetOf } = await bed([
        { wallet: 0, remaining: 100 },
        { wallet: 1, remaining: 100 },
      ]);
      const state = { isFailing: true };
      const failing: Store = {
        ...store,
        drawCredits(ref, request) {
          if (state.isFailing) throw storeError();
          return store.drawCredits(ref, request);
        },
      };
      const spender = leasedSpender(failing, { firstStep: 10 });
      const target = targetOf();
      const outcomes = await Promise.allSettled([1, 2, 3].map((cost) => spender.spend(target, cost, 0)));
      const reasons = outcomes.map((one) => (one.status === "rejected" ? (one.reason as Error) : undefined));
      expect(new Set(reasons).size).toBe(3);
      for (const reason of reasons) expect(reason).toMatchObject({ code: "STORE_BUSY" });
      state.isFailing = false;
      expect(await spender.spend(target, 1, 0)).toEqual({ ok: true, remaining: 99, least: 0 });
      await spender.close();
    });

    it("what a crash loses of each account is what its node held in memory", async () => {
      const { store, targetOf, left } = await bed([
        { wallet: 0, remaining: 100 },
        { wallet: 1, remaining: 100 },
      ]);
      const options = { firstStep: 5, step: 5, size: 20, ttl: 1_000 };
      await spendMany(leasedSpender(store, options), targetOf(), 2);
      const other = leasedSpender(store, options);
      expect(await other.spend(targetOf(), 95, 2_000)).toMatchObject({ ok: true, remaining: 0 });
      await other.close();
      expect(await left(2_000)).toEqual([0, 0]);
    });
  });

  describe(`leasedSpender: several accounts, against the exact mode, ${name}`, () => {
    it("one node, one call at a time: every call passes as in the exact mode, and each account ends as there", async () => {
      const seen = { granted: 0, refused: 0, read: 0 };
      const property = fc.asyncProperty(fc.noShrink(fc.nat()), async (seed) => {
        const { roll, given, options } = rolled(seed);
        const [right, leased] = [await bedOn(given, memoryStore()), await bedOn(given, await open())];
        const exact = exactSpender(right.store);
        let spender = leasedSpender(leased.store, options);
        let targets = [right.targetOf(), leased.targetOf()] as const;
        let now = 0;
        let opened = 0;
        // A node shows what it knows since its last draw: what an administrator adds is not in it.
        let isShown = true;
        for (let i = 0; i < steps; i++) {
          const kind = roll.below(20);
          if (kind === 0) {
            now += roll.pick([1, MINUTE, 20 * MINUTE, 55 * MINUTE]);
            // An hour after its last draw a lease may be given up.
            if (now < opened + 55 * MINUTE) continue;
            await spender.close();
            spender = leasedSpender(leased.store, options);
            opened = now;
            isShown = true;
          } else if (kind <= 2) {
            const account = roll.below(given.length);
            const value = roll.below(30);
            for (const world of [right, leased])
              if (kind === 1) await world.set(account, value, now);
              else await world.add(account, value, now);
            isShown &&= kind === 1;
          } else {
            const cost = roll.pick([0, 1, 1, 1, 1, 2, 3, 9, 30]);
            const [expected, answer] = [
              await exact.spend(targets[0], cost, now),
              await spender.spend(targets[1], cost, now),
            ];
            const { forfeited: _forfeited, balances, ...shown } = expected!;
            if (cost === 0) {
              seen.read++;
              continue;
            }
            expect(balances).toBeUndefined();
            expect(answer!.ok).toBe(shown.ok);
            // A refill that came since the last draw is not in it either.
            if (isShown) expect(answer!.remaining).toBeLessThanOrEqual(shown.remaining!);
            seen[shown.ok ? "granted" : "refused"]++;
          }
          // What an administrator does is seen with a new record.
          if (kind <= 2) targets = [right.targetOf(), leased.targetOf()];
        }
        await spender.close();
        // What has expired is counted by the next step that takes something, whenever that is.
        const isOver = (i: number) => (given[i]!.expires ?? Infinity) <= now;
        const told = async (world: typeof right) =>
          (await world.read(now)).map(({ remaining, reserved, totals }, i) => [
            ...[isOver(i) ? 0 : remaining, reserved, totals!.spent],
          ]);
        expect(await told(leased)).toEqual(await told(right));
        for (const { store } of [right, leased]) await store.close();
      });
      await fc.assert(property, { numRuns: runs(whole) });
      expect(Math.min(seen.granted, seen.refused)).toBeGreaterThan(runs(whole));
    });

    it("several nodes, many calls at once: no more of a wallet is granted than was there, and the rest comes back", async () => {
      const seen = { granted: 0, refused: 0 };
      const property = fc.asyncProperty(fc.noShrink(fc.nat()), async (seed) => {
        const { roll, given: all, options } = rolled(seed);
        const given = all.map(({ refill: _refill, expires: _expires, ...one }) => one);
        const { store, targetOf, add, read } = await bedOn(given, await open());
        const nodes = [0, 1, 2].map(() => leasedSpender(store, options));
        let targets = nodes.map(() => targetOf());
        const there = ([0, 1] as const).map((place) =>
          given.reduce((sum, { wallet, remaining }) => sum + (wallet === place ? remaining : 0), 0),
        );
        const hasSecond = given.some(({ wallet }) => wallet === 1);
        let granted = 0;
        for (let i = 0; i < steps / 3; i++) {
          const calls = Array.from(
            { length: 1 + roll.below(20) },
            () => [roll.below(3), roll.pick([1, 1, 2, 7])] as const,
          );
          const answers = await Promise.all(calls.map(([node, cost]) => nodes[node]!.spend(targets[node]!, cost, 0)));
          for (const [j, answer] of answers.entries()) {
            if (answer!.ok) granted += calls[j]![1];
            seen[answer!.ok ? "granted" : "refused"]++;
          }
          expect(granted).toBeLessThanOrEqual(hasSecond ? Math.min(...there) : there[0]!);
          if (roll.chance(0.2)) {
            const account = roll.below(given.length);
            await add(account, 10);
            there[given[account]!.wallet]! += 10;
          }
          if (roll.chance(0.1)) targets = nodes.map(() => targetOf());
        }
        for (const node of nodes) await node.close();
        const balances = await read(0);
        for (const place of hasSecond ? [0, 1] : [0]) {
          const of = balances.filter((_one, j) => given[j]!.wallet === place);
          const left = of.reduce((sum, { remaining, reserved }) => sum + remaining! + reserved, 0);
          expect(left).toBe(there[place]! - granted);
        }
        await store.close();
      });
      await fc.assert(property, { numRuns: runs(whole) });
      expect(Math.min(seen.granted, seen.refused)).toBeGreaterThan(runs(whole));
    });
  });
}
