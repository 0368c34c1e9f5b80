/** Mistakes planted on purpose, each in a wrapped store or limiter: the simulator must find every one. */
import type { KeyRef, Store, Write } from "../../src/contracts/store.js";
import { ABANDONED } from "../../src/credits/account.js";
import { periodOf } from "../../src/credits/refill-calendar.js";
import type { PostgresRow } from "../../src/stores/postgres/index.js";
import type { Clause } from "./violation.js";
import type { Plant } from "./world.js";

const DAY = 86_400_000;
/** As in `refill-calendar.ts`: a period is its calendar times this, plus a count. */
const CALENDAR_UNIT = 1_000_000_000;

/** The four violations of the past, put back. */
export const VIOLATIONS: Readonly<Record<string, Plant>> = {
  "counts a period of another calendar in the unit of the balance's own": {
    store(store) {
      const forced = async (keyId: string, period: number): Promise<number> => {
        const [balance] = await store.readBalances([{ keyId, period: 0 }], -1);
        const calendar = Math.floor((balance?.period ?? 0) / CALENDAR_UNIT);
        return calendar * CALENDAR_UNIT + (period % CALENDAR_UNIT);
      };
      return {
        ...store,
        async spendCredits(ref, cost, period, now) {
          const spent = await store.spendCredits(ref, cost, period, now);
          return spent?.stale ? store.spendCredits(ref, cost, await forced(String(ref), period), now) : spent;
        },
        async drawCredits(ref, request) {
          const drawn = await store.drawCredits(ref, request);
          if (drawn?.stale !== true) return drawn;
          return store.drawCredits(ref, { ...request, period: await forced(String(ref), request.period) });
        },
      };
    },
  },
  "gives a rerolled key a balance of its own, read outside its write": {
    client: (store) => ({
      ...store,
      async write(writes) {
        const copies = await Promise.all(writes.map((write) => ownBalance(store, write)));
        return store.write(copies);
      },
    }),
  },
  "drops a lease whose end fails": {
    client: (store) => ({
      ...store,
      returnCredits: async (...given) => {
        try {
          await store.returnCredits(...given);
        } catch {
          // Nobody tries again.
        }
      },
    }),
  },
  "ends a lease without what it spent": {
    client: (store) => ({ ...store, returnCredits: (ref, lease) => store.returnCredits(ref, { ...lease, spent: 0 }) }),
  },
  "leaves expired reserves to leased draws": {
    store: (store) => ({
      ...store,
      spendCredits: (ref, cost, period, now) => store.spendCredits(ref, cost, period, cost > 0 ? -1 : now),
    }),
  },
};

async function ownBalance(store: Store, write: Write): Promise<Write> {
  if (write.table !== "keys" || !("row" in write) || write.row.rerolledFrom === undefined) return write;
  const { accountId: _, rerolledFrom, ...row } = write.row;
  if (row.version > 0 || !row.hasCredits) return write;
  const period = periodOf(row.refill, row.createdAt);
  const [balance] = await store.readBalances([{ keyId: rerolledFrom, period }], row.createdAt);
  const counted = { amount: row.refill?.amount ?? 0, period: balance?.period ?? period };
  return { ...write, row, credits: { period, remaining: balance?.remaining ?? 0, refill: counted } };
}

/** One mistake or more for each clause of the judge, and the clauses that may tell of it first. */
export const CLAUSES: Readonly<Record<string, Plant & { readonly clauses: readonly Clause[] }>> = {
  "begins a balance with one credit too many": {
    clauses: ["credited"],
    store: (store) => ({
      ...store,
      insertKeys: (keys) =>
        store.insertKeys(
          keys.map(({ row, balance }) =>
            balance === undefined ? { row } : { row, balance: { ...balance, remaining: balance.remaining + 1 } },
          ),
        ),
    }),
  },
  "counts two boundaries again when the calendar changes": {
    clauses: ["refilled"],
    client: (store) => ({ ...store, write: (writes) => store.write(writes.map(twoDaysBack)) }),
  },
  "refills a boundary early": {
    clauses: ["spent"],
    store: (store) => ({
      ...store,
      spendCredits: (ref, cost, period, now) => store.spendCredits(ref, cost, period === 0 ? 0 : period + 1, now),
    }),
  },
  "adds an increment twice": {
    clauses: ["adjusted"],
    store: (store) => ({
      ...store,
      write: (writes) =>
        store.write(
          writes.map((write) =>
            write.table === "keys" && "row" in write && write.credits?.add !== undefined
              ? { ...write, credits: { ...write.credits, add: 2 * write.credits.add } }
              : write,
          ),
        ),
    }),
  },
  "answers a spend that it does not make": {
    clauses: ["spent"],
    store: (store) => ({
      ...store,
      async spendCredits(ref, cost, period, now) {
        const read = await store.spendCredits(ref, 0, period, now);
        if (read === undefined || read.stale || read.remaining === null || read.remaining < cost) return read;
        return { ok: true, remaining: read.remaining - cost };
      },
    }),
  },
  "spends below zero": {
    clauses: ["spent"],
    store: (store) => ({
      ...store,
      async spendCredits(ref, cost, period, now) {
        const spent = await store.spendCredits(ref, cost, period, now);
        return spent?.ok === false && !spent.stale ? { ok: true, remaining: spent.remaining! - cost } : spent;
      },
    }),
  },
  "refuses what the balance covers exactly": {
    clauses: ["refused"],
    store: (store) => ({
      ...store,
      async spendCredits(ref, cost, period, now) {
        const read = await store.spendCredits(ref, 0, period, now);
        if (cost > 0 && read?.remaining === cost && !read.stale) return { ok: false, remaining: cost };
        return store.spendCredits(ref, cost, period, now);
      },
    }),
  },
  "leaves what it draws in the balance": {
    clauses: ["reserved"],
    store: (store) => ({
      ...store,
      async drawCredits(ref, request) {
        const drawn = await store.drawCredits(ref, request);
        if (drawn !== undefined && drawn.drawn > 0 && drawn.remaining !== null)
          await store.returnCredits(ref, { holder: request.holder, spent: request.spent });
        return drawn;
      },
    }),
  },
  "gives back what a lease has spent": {
    clauses: ["returned"],
    store: (store) => ({ ...store, returnCredits: (ref, lease) => store.returnCredits(ref, { ...lease, spent: 0 }) }),
  },
  "keeps nothing of what a reservation is settled with": {
    clauses: ["settled"],
    store: (store) => ({
      ...store,
      settleCredits: (ref, request) => store.settleCredits(ref, { ...request, spent: 0 }),
    }),
  },
  "settles a reservation that has expired": {
    clauses: ["settled"],
    store: (store) => ({
      ...store,
      settleCredits: (ref, request) => store.settleCredits(ref, { ...request, now: -1 }),
    }),
  },
  "spends what it is to reserve": {
    clauses: ["reserved", "spent", "totals", "settled"],
    store: (store) => ({
      ...store,
      reserveCredits: (ref, period, { cost, now }) => store.spendCredits(ref, cost, period, now),
    }),
  },
  "counts twice what a lease has spent": {
    clauses: ["reserved"],
    store: (store) => ({
      ...store,
      drawCredits: (ref, request) => store.drawCredits(ref, { ...request, spent: 2 * request.spent }),
    }),
  },
  "gives a rerolled key an account of its own": {
    clauses: ["shared"],
    store: (store) => ({
      ...store,
      async write(writes) {
        return store.write(await Promise.all(writes.map((write) => ownBalance(store, write))));
      },
    }),
  },
  "gives a rerolled key buckets of its own": {
    clauses: ["limits"],
    client: (store) => ({
      ...store,
      async findKey(digest) {
        const found = await store.findKey(digest);
        return found?.account === undefined ? found : { ...found, account: { ...found.account, id: found.keyId } };
      },
    }),
  },
  "books a spend as an administrator's decrement": {
    clauses: ["totals"],
    store: (store) => ({
      ...store,
      async spendCredits(ref, cost, period, now) {
        const read = await store.spendCredits(ref, 0, period, now);
        const [row] = await store.readMany("keys", [String(ref)]);
        if (read === undefined || read.stale || read.remaining === null || read.remaining < cost || cost === 0 || !row)
          return store.spendCredits(ref, cost, period, now);
        await store.write([{ table: "keys", row, credits: { period, add: -cost } }]);
        return { ok: true, remaining: read.remaining - cost };
      },
    }),
  },
  "shows a balance without the refills that are due": {
    clauses: ["balance"],
    store: (store) => ({
      ...store,
      readBalances: (queries, now) =>
        store.readBalances(
          queries.map((query) => ({ ...query, period: 0 })),
          now,
        ),
    }),
  },
  "lets an identity go on whose credits keys draw": {
    clauses: ["unlimited"],
    store: (store) => ({
      ...store,
      async write(writes) {
        const [write] = writes;
        const outcome = await store.write(writes);
        if (outcome !== "conflict" || write?.table !== "identities" || !("remove" in write)) return outcome;
        const [row] = await store.readMany("identities", [write.remove]);
        if (row?.version !== write.version) return outcome;
        await store.write([{ table: "identities", row: { ...row, hasCredits: false } }]);
        return store.write([{ ...write, version: row.version + 1 }]);
      },
    }),
    client: (store) => ({
      ...store,
      // Nobody looks for keys that draw.
      list: async (table, query) => (query.identityId === undefined ? store.list(table, query) : []),
    }),
  },
  "makes a balance that was given up unlimited": {
    clauses: ["answer"],
    client: (store) => ({
      ...store,
      write: (writes) =>
        store.write(
          writes.map((write) =>
            write.table === "keys" && "row" in write && write.credits?.refill?.period === ABANDONED
              ? { ...write, credits: { period: write.credits.period, remaining: null } }
              : write,
          ),
        ),
    }),
  },
  "finds a key without the credits of its identity": {
    clauses: ["answer"],
    client: (store) => ({
      ...store,
      async findKey(digest) {
        const found = await store.findKey(digest);
        return found?.creditsFrom === undefined ? found : { ...found, hasCredits: false };
      },
    }),
  },
  "charges an identity for keys with a balance of their own": {
    clauses: ["unacknowledged", "acknowledged", "counted", "answer", "spent", "reserved", "balance", "refused"],
    client: (store) => {
      let shared: KeyRef | undefined;
      return {
        ...store,
        async findKey(digest) {
          const found = await store.findKey(digest);
          if (found?.creditsFrom === "identity") shared = found.account!.ref;
          const isOwn = found?.hasCredits === true && found.creditsFrom === undefined;
          if (!isOwn || found.identity === undefined || shared === undefined) return found;
          return { ...found, account: { ref: shared, id: found.account?.id ?? found.keyId } };
        },
      };
    },
  },
  "acknowledges a cost that nothing was taken for": {
    clauses: ["acknowledged"],
    client: (store) => ({
      ...store,
      async spendCredits(ref, cost, period, now) {
        const read = await store.spendCredits(ref, 0, period, now);
        return read?.remaining == null || read.stale
          ? read
          : { ok: true, remaining: Math.max(0, read.remaining - cost) };
      },
    }),
  },
  "spends twice": {
    clauses: ["unacknowledged"],
    client: spendingTwice,
  },
  "spends twice where nothing crashes": {
    clauses: ["counted"],
    client: spendingTwice,
  },
  "tells caches of no change": {
    clauses: ["answer"],
    client: (store) => ({ ...store, subscribe: () => () => undefined }),
  },
  "grants what the limit refuses": {
    clauses: ["limits"],
    limiter: (limiter) => ({
      take: async (checks, now) =>
        (await limiter.take(checks, now)).map((verdict) => ({ ...verdict, exceeded: false })),
    }),
  },
  "takes from the limits of a call twice": {
    clauses: ["once"],
    limiter: (limiter) => ({
      async take(checks, now) {
        await limiter.take(checks, now);
        return limiter.take(checks, now);
      },
    }),
  },
  "fails a read without a reason": {
    clauses: ["error"],
    client: sometimes(() => Promise.reject(new Error("no reason"))),
  },
  "never answers a read": {
    clauses: ["rest"],
    client: sometimes(() => new Promise<never>(() => undefined)),
  },
};

/** Mistakes of the PostgreSQL store or of its clients, and the clauses that may tell of them first. */
export const CONNECTION_FAULTS: Readonly<Record<string, Plant & { readonly clauses: readonly Clause[] }>> = {
  "polls and drops the changes": {
    clauses: ["answer"],
    connection: (client) => ({
      async query(text, values) {
        const result = await client.query(text, values);
        if (!text.includes("pg_current_snapshot()")) return result;
        const { rows } = result as { rows: readonly PostgresRow[] };
        return { rows: rows.map((row) => ({ ...row, changes: "[]" })) };
      },
    }),
  },
  "sends a spend again after its answer was lost": {
    clauses: ["unacknowledged", "counted"],
    connection: (client) => ({
      ...client,
      query: (text, values) =>
        text.includes("spend_v1")
          ? client.query(text, values).catch(() => client.query(text, values))
          : client.query(text, values),
    }),
  },
  "spends again when a call is repeated with its idempotency key": {
    clauses: ["unacknowledged", "counted"],
    client(store) {
      let calls = 0;
      return {
        ...store,
        findOnce: () => undefined,
        spendOnce: (ref, period, { once: { record, bounds }, ...request }) =>
          store.spendOnce(ref, period, {
            ...request,
            once: { record: { ...record, id: `${record.id.slice(0, 16)}${1e5 + ++calls}` }, bounds },
          }),
      };
    },
  },
  "says that a spend was not sent when its answer was lost": {
    clauses: ["unacknowledged", "counted"],
    connection: (client) => ({
      ...client,
      async query(text, values) {
        try {
          return await client.query(text, values);
        } catch {
          throw Object.assign(new Error("refused"), { code: "ECONNREFUSED" });
        }
      },
    }),
  },
  "believes what it has cached for ever": {
    clauses: ["answer"],
    client: (store) => ({ ...store, pollChanges: () => undefined }),
  },
  "gives the results of one statement to the wrong calls": {
    clauses: ["answer", "acknowledged", "unacknowledged", "counted", "balance"],
    connection: (client) => ({
      ...client,
      async query(text, values) {
        const result = await client.query(text, values);
        if (!text.includes("spend_v1")) return result;
        const [row] = (result as { rows: readonly PostgresRow[] }).rows;
        const results = JSON.parse(row!["result"] as string) as unknown[];
        return { rows: [{ result: JSON.stringify(results.reverse()) }] };
      },
    }),
  },
};

function spendingTwice(store: Store): Store {
  return {
    ...store,
    async spendCredits(...given) {
      const spent = await store.spendCredits(...given);
      return given[1] > 0 && spent?.ok === true && spent.remaining !== null ? store.spendCredits(...given) : spent;
    },
  };
}

function twoDaysBack(write: Write): Write {
  if (write.table !== "keys" || !("row" in write)) return write;
  const { row, credits } = write;
  const { refill, refillCursor } = row;
  if (credits?.refill?.period === undefined || refill?.interval !== "daily" || refillCursor === undefined) return write;
  return {
    ...write,
    row: { ...row, refillCursor: refillCursor - 2 * DAY },
    credits: { ...credits, refill: { ...credits.refill, period: credits.refill.period - 2 } },
  };
}

function sometimes(instead: () => Promise<never>): (store: Store) => Store {
  let reads = 0;
  return (store) => ({
    ...store,
    findKey: (digest) => (++reads % 50 === 0 ? instead() : store.findKey(digest)),
  });
}
