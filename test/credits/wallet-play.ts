/** Random histories of two wallets on a store, held against the naive list of credits. */
import { expect } from "vitest";
import type { KeyRef, Store } from "../../src/contracts/store.js";
import { periodOf } from "../../src/credits/refill-calendar.js";
import { inDrawOrder } from "../../src/credits/wallet.js";
import { api, balance, insert, keyRow, readRow, refOf } from "../../src/testing/store/rows.js";
import { dice } from "../model/dice.js";
import { type NaiveAccount, naiveWallets } from "../model/naive-wallet.js";

const DAY = 86_400_000;
const BOUNDS = { maxRecords: 10_000, maxPerWorkspace: 10_000 };

/** Plays one history on a new store, which it closes. */
export async function playWallets(store: Store, seed: number, steps: number): Promise<void> {
  const { below, chance, pick } = dice(seed);
  const refillOf = ({ daily }: NaiveAccount) =>
    daily === 0 ? undefined : ({ interval: "daily", amount: daily } as const);
  const accounts = Array.from({ length: 2 + below(7) }, (_, i): NaiveAccount => {
    const isMain = i < 2;
    return {
      name: keyRow(i).id,
      wallet: i % 2,
      isMain,
      priority: isMain || chance(0.5) ? 100 : pick([0, 50, 200]),
      createdAt: i,
      ...(!isMain && chance(0.7) && { expires: 1 + below(6 * DAY) }),
      daily: chance(0.4) ? 1 + below(5) : 0,
    };
  });
  const given = accounts.map(() => below(20));
  const naive = naiveWallets(accounts, given);
  await store.write([{ table: "apis", row: api() }]);
  const refs = new Map<string, KeyRef>();
  for (const [i, account] of accounts.entries()) {
    const refill = refillOf(account);
    const row = keyRow(i, { hasCredits: true, ...(refill && { refill }) });
    await insert(store, row, balance(given[i]!, { amount: account.daily, period: periodOf(refill, 0) }));
    refs.set(account.name, await refOf(store, `digest-${i}`));
  }
  let now = 0;
  const ordered = [0, 1].map((wallet) =>
    inDrawOrder(
      accounts
        .filter((account) => account.wallet === wallet)
        .map((account) => ({ ...account, ...(!account.isMain && { grantId: account.name }) })),
      now,
    ),
  );
  const wallets = () =>
    ordered.map((wallet) =>
      wallet.map((account) => ({
        ref: refs.get(account.name)!,
        period: periodOf(refillOf(account), now),
        ...(account.expires !== undefined && { expires: account.expires }),
      })),
    );
  const handles: { readonly id: string; readonly cost: number; readonly until: number; isOver: boolean }[] = [];
  const spend = async (cost: number, id?: string, until = 0) => {
    const reservation = id === undefined ? undefined : { id, until };
    const record = {
      workspaceId: "ws_1",
      id: `once-${seed}-${handles.length}-${now}-${below(1e9)}`,
      body: "b",
      until: now + 1_000,
    };
    const once = chance(0.3)
      ? { record: { ...record, ...(reservation && { reservation }) }, bounds: BOUNDS }
      : undefined;
    const request = { cost, now, ...(once ? { once } : reservation && { reservation }) };
    const { outcome, spend: result } = await store.spendWallets!(wallets(), request);
    expect(outcome).toBe("done");
    if (once !== undefined && result?.ok === true) {
      const { spend: again, outcome: second } = await store.spendWallets!(wallets(), request);
      expect([second, again]).toEqual(["repeated", result]);
    }
    if (result === undefined) return undefined;
    const { balances: _balances, ...spent } = result;
    return spent;
  };
  for (let step = 0; step < steps; step++) {
    const cost = chance(0.1) ? 0 : 1 + below(chance(0.2) ? 40 : 8);
    switch (below(6)) {
      case 0:
        now += chance(0.3) ? below(2 * DAY) : below(DAY / 4);
        naive.pass(now);
        break;
      case 1: {
        const handle = { id: `res_${handles.length}`, cost, until: now + 1 + below(DAY), isOver: false };
        const expected = naive.reserve(cost, handle.id, handle.until);
        expect(await spend(cost, handle.id, handle.until)).toEqual(expected);
        if (expected.ok && cost > 0) handles.push(handle);
        break;
      }
      case 2: {
        if (handles.length === 0) break;
        const handle = pick(handles);
        const spent = below(handle.cost + 1);
        // Of every account: what has no part is passed over.
        const parts = wallets().map((wallet) => wallet.map(({ ref }) => ref));
        const settled = await store.settleWallets!(parts, { id: handle.id, spent, now });
        const kept = naive.settle(handle.id, spent);
        expect(settled.settled).toBe(kept !== undefined);
        if (settled.settled) expect(settled.kept ?? [spent, spent]).toEqual(kept);
        break;
      }
      case 3: {
        if (!chance(0.2)) break;
        const { name } = pick(accounts.filter(({ isMain }) => isMain));
        const row = (await readRow(store, "keys", name))!;
        const remaining = below(20);
        const credits = { period: periodOf(row.refill, now), remaining, now };
        await store.write([{ table: "keys", row: { ...row, generation: row.generation + 1 }, credits }]);
        naive.set(name, remaining);
        break;
      }
      default:
        expect(await spend(cost)).toEqual(naive.spend(cost));
    }
  }
  const queries = accounts.map((account) => ({ keyId: account.name, period: periodOf(refillOf(account), now) }));
  const balances = await store.readBalances(queries, now);
  for (const [i, { name, expires = Infinity }] of accounts.entries()) {
    const { remaining, reserved, totals } = balances[i]!;
    expect(totals!.spent).toBe(naive.spent.get(name) ?? 0);
    expect(reserved).toBe(naive.reserved(name));
    if (expires > now) expect(remaining).toBe(naive.free(name));
  }
  await store.close();
}
