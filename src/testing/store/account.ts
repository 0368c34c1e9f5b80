/** What the clauses about credits do with the account of a key. */
import type {
  CreditChange,
  DrawRequest,
  NewBalance,
  OnceBounds,
  OnceRecord,
  Store,
  WriteOutcome,
} from "../../contracts/store.js";
import { balance, insert, keyRow, readBalance, readRow, refOf } from "./rows.js";
import { reach, type SharedStore } from "./shared-steps.js";

/** When reservations end, and records of idempotency keys, unless a clause says otherwise. */
export const UNTIL = 1_000;
/** More records than a clause makes. */
export const ONCE_BOUNDS: OnceBounds = { maxRecords: 1_000, maxPerWorkspace: 1_000 };

/** The account of key `n`, found through a handle: a handle's `KeyRef` is its own. */
export async function accountThrough(store: Store, n = 1) {
  const { id } = keyRow(n);
  const ref = await refOf(store, `digest-${n}`);
  const read = async (period = 0, now = 0) => readBalance(store, id, period, now);
  return {
    ref,
    spend: (cost: number, period = 0, now = 0) => store.spendCredits(ref, cost, period, now),
    once: (record: OnceRecord, cost = 1, now = 0, bounds = ONCE_BOUNDS) =>
      store.spendOnce(ref, 0, { cost, now, once: { record, bounds } }),
    draw: (holder: string, cost: number, now = 0, over: Partial<DrawRequest> = {}) =>
      store.drawCredits(ref, {
        ...{ holder, spent: 0, cost, step: 10, size: 40, period: 0, now, until: now + 1_000 },
        ...over,
      }),
    end: (holder: string, spent = 0) => store.returnCredits(ref, { holder, spent }),
    reserve: (id: string, cost: number, now = 0, until = UNTIL) =>
      store.reserveCredits(ref, 0, { cost, now, reservation: { id: `res_${id}`, until } }),
    settle: (id: string, spent: number, now = 0) => store.settleCredits(ref, { id: `res_${id}`, spent, now }),
    read,
    /** What it has left. */
    left: async (period = 0, now = 0) => (await read(period, now))?.remaining,
    /** Changes the balance of the key as it is; one that is set has a generation of its own. */
    change: async (credits: Partial<CreditChange>): Promise<WriteOutcome> => {
      const row = (await readRow(store, "keys", id))!;
      const generation = row.generation + (credits.remaining === undefined ? 0 : 1);
      return store.write([{ table: "keys", row: { ...row, generation }, credits: { period: 0, ...credits } }]);
    },
  };
}

/** Inserts key `n` with credits. */
export async function withCredits(store: Store, remaining: number, over?: Partial<NewBalance>, n = 1) {
  await insert(store, keyRow(n, { hasCredits: true }), balance(remaining, over));
  return accountThrough(store, n);
}

/** The same, for both handles. */
export async function withCreditsOf(shared: SharedStore, remaining: number, over?: Partial<NewBalance>) {
  const one = await withCredits(shared.here, remaining, over);
  await reach(shared);
  return [one, await accountThrough(shared.there)] as const;
}
