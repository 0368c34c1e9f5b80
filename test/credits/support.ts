/** A store with keys that have credits, and ways to spend and to hinder them. */
import { expect } from "vitest";
import { KeystileError, type KeystileErrorCode } from "../../src/contracts/errors.js";
import type { DrawRequest, KeyRecord, LeaseReturn, Store } from "../../src/contracts/store.js";
import type { Spender, SpendTarget } from "../../src/credits/spender.js";
import { defaultStep, type LeaseOptions, leasedSpender } from "../../src/credits/leased-spender.js";
import { memoryStore } from "../../src/stores/memory.js";
import { keyRow } from "../stores/suite.js";

const API = {
  id: "api_1",
  workspaceId: "ws_1",
  version: 0,
  name: "docs",
  enabled: true,
  ipAllowlist: [],
  deleted: false,
  createdAt: 0,
};

const idOf = (n: number) => `key_${String(n).padStart(6, "0")}`;

/** A memory store with keys 1…`keys`. */
export async function opened(remaining = 100, keys = 1) {
  const store = memoryStore();
  await store.write([{ table: "apis", row: API }]);
  const rows = Array.from({ length: keys }, (_, i) => keyRow(i + 1, { hasCredits: true }));
  await store.insertKeys(rows.map((row) => ({ row, balance: { remaining, amount: 0, period: 0 } })));
  const record = (await store.findKey("digest-1"))!;
  return {
    store,
    record,
    balance: async (n = 1) => (await store.readBalances([{ keyId: idOf(n), period: 0 }], 0))[0]?.remaining,
  };
}

/** An account as the engine makes it of a record; nothing is remembered in it yet. */
export const account = ({ ref, generation, refill }: Pick<KeyRecord, "ref" | "generation" | "refill">) => ({
  ref,
  generation,
  refill,
  lease: undefined as SpendTarget["lease"],
});

/** A leased spender whose first draw of a key is a whole step, as those of a key in steady use are. */
export function eagerSpender(store: Store, options: LeaseOptions = {}): Spender {
  const { size = 1_000, step = defaultStep(size) } = options;
  return leasedSpender(store, { firstStep: step, ...options });
}

export const accountOf = async (store: Store, n: number): Promise<SpendTarget> =>
  account((await store.findKey(`digest-${n}`))!);

/** Sets the balance as an administrator does; null: unlimited. */
export async function setBalance(store: Store, remaining: number | null, n = 1): Promise<KeyRecord> {
  const row = (await store.readMany("keys", [idOf(n)]))[0]!;
  await store.write([
    { table: "keys", row: { ...row, generation: row.generation + 1 }, credits: { period: 0, remaining } },
  ]);
  return (await store.findKey(`digest-${n}`))!;
}

export async function removeKey(store: Store, n = 1): Promise<void> {
  const row = (await store.readMany("keys", [idOf(n)]))[0]!;
  await store.write([{ table: "keys", remove: row.id, version: row.version }]);
}

/** Counts draws, and makes each take a turn. */
export function slow(store: Store): { store: Store; draws: () => number } {
  let draws = 0;
  return {
    draws: () => draws,
    store: {
      ...store,
      async drawCredits(ref, request) {
        draws++;
        await new Promise((resolve) => setImmediate(resolve));
        return store.drawCredits(ref, request);
      },
    },
  };
}

/** The same store under refs that are numbers, as SQLite's are. */
export function numbered(store: Store): Store {
  const nameOf = (ref: unknown) => idOf(ref as number);
  return {
    ...store,
    async findKey(digest) {
      const record = await store.findKey(digest);
      return record && { ...record, ref: Number(String(record.ref).slice(4)) };
    },
    spendCredits: (ref, cost, period, now) => store.spendCredits(nameOf(ref), cost, period, now),
    drawCredits: (ref, request) => store.drawCredits(nameOf(ref), request),
    returnCredits: (ref, lease) => store.returnCredits(nameOf(ref), lease),
  };
}

/** A store that can be told to fail, before it does anything, and that counts what it is asked to take back. */
export function hindered(real: Store) {
  const state = {
    /** Fails draws, and returns, for as long as they are set. */
    draws: undefined as Error | undefined,
    returns: undefined as Error | undefined,
    /** Calls since the start, failed ones too. */
    asked: { draws: 0, returns: 0 },
  };
  const store: Store = {
    ...real,
    drawCredits(ref, request) {
      state.asked.draws++;
      return state.draws === undefined ? real.drawCredits(ref, request) : Promise.reject(state.draws);
    },
    returnCredits(ref, lease) {
      state.asked.returns++;
      return state.returns === undefined ? real.returnCredits(ref, lease) : Promise.reject(state.returns);
    },
  };
  return Object.assign(state, { store });
}

/** An error of the store, as another program that holds the file makes it. */
export const storeError = (code: KeystileErrorCode = "STORE_BUSY"): KeystileError =>
  new KeystileError(code, "planted failure", { cause: new Error("planted cause") });

/** Steps that a test ends one by one. */
export function gate() {
  const waiting: (() => void)[] = [];
  return {
    pass: () => new Promise<void>((resolve) => waiting.push(resolve)),
    /** Steps that wait. */
    count: () => waiting.length,
    /** Ends all that wait, and lets what follows run. */
    async open() {
      for (const resolve of waiting.splice(0)) resolve();
      await settled();
    },
  };
}

/** Lets promises that need no timer settle. */
export const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** A leased spender, what its store was asked to write, and ways to hinder it. */
export async function watched(credits: number, options: LeaseOptions = {}, keys = 1) {
  const bed = await opened(credits, keys);
  const { pass, open, count } = gate();
  const asked = { exact: 0, draws: [] as DrawRequest[], returns: [] as LeaseReturn[] };
  const state = {
    /** Draws, and exact spends, wait before they reach the store. */
    isGated: false,
    /** They wait for their answer. */
    isLate: false,
    failure: undefined as Error | undefined,
    drawn: 0,
  };
  const through = async <T>(work: () => T): Promise<Awaited<T>> => {
    if (state.isGated) await pass();
    if (state.failure !== undefined) throw state.failure;
    const answer = await work();
    if (state.isLate) await pass();
    return answer;
  };
  const store: Store = {
    ...bed.store,
    spendCredits(...given) {
      asked.exact++;
      return state.isGated || state.isLate
        ? through(() => bed.store.spendCredits(...given))
        : bed.store.spendCredits(...given);
    },
    async drawCredits(ref, request) {
      asked.draws.push(request);
      const draw = await through(() => bed.store.drawCredits(ref, request));
      state.drawn += draw?.drawn ?? 0;
      return draw;
    },
    returnCredits: (ref, lease) => (asked.returns.push(lease), bed.store.returnCredits(ref, lease)),
  };
  const spender = leasedSpender(store, options);
  const one = account(bed.record);
  const spend = (cost = 1) => spender.spend(one, cost, 0);
  const spendMany = async (calls: number, cost = 1) => {
    for (let i = 0; i < calls; i++) expect(await spend(cost)).toMatchObject({ ok: true });
  };
  /** What the store says of the account. */
  const books = async () => (await bed.store.readBalances([{ keyId: "key_000001", period: 0 }], 0))[0]!;
  const steps = () => asked.draws.map(({ step }) => step);
  return { ...bed, asked, state, spender, one, spend, spendMany, books, steps, open, count };
}
