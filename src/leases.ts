/**
 * Credits spent from this process's memory: the `leased` credit mode. Ruling D1, port clause 14. Knows the port, no engine.
 *
 * Why it never over-spends: credits leave the balance, durably, before they are spent here. What a crash finds in hand is
 * forfeited (whether it was spent is unknown then); the reserve in the store comes back once it expires.
 */
import { periodOf } from "./credits.js";
import { newId } from "./hash.js";
import type { KeyRecord, KeyRef, Spend, Store } from "./store.js";
import type { MaybePromise } from "./types.js";

export interface LeaseOptions {
  /** Credits in hand and in reserve together, per key and node, 1…1_000_000_000; default 1_000. */
  readonly size?: number;
  /** Credits drawn into memory at once, 1…size; default a quarter of `size`: what a crash forfeits at most. */
  readonly step?: number;
  /** Milliseconds after which an unused reserve returns to the balance, 100…3_600_000; default 10_000. Credits in hand return within two. */
  readonly ttl?: number;
  /** Keys leased at once, 1…10_000_000, default 100_000, about 100 bytes each; for one more, the one leased longest is given back. */
  readonly keys?: number;
}

/** A key whose credits are spent, with room for the lease that the spender holds of it. */
export interface Account {
  readonly record: KeyRecord;
  /** The spender's own: saves a hot spend the look-up. It may be of a lease that has ended. */
  lease: Lease | undefined;
}

/** Takes credits of a key. `undefined`: the store knows no such key any more. */
export interface Spender {
  spend(account: Account, cost: number, now: number): MaybePromise<Spend | undefined>;
  /** Gives back what was leased; spends that come later go straight to the store. */
  close(): MaybePromise<void>;
}

/** The `exact` mode: every spend is one durable step of the store. */
export function exactSpender(store: Store): Spender {
  return {
    spend: ({ record }, cost, now) => store.spendCredits(record.ref, cost, periodOf(record.refill, now)),
    close: () => undefined,
  };
}

/** Credits that this process holds of a key. */
export interface Lease {
  /** False: given back; another may have begun since. */
  live: boolean;
  /** Credits to spend here. */
  inHand: number;
  /** Free in the store when last asked; null: unlimited. */
  beyond: number | null;
  generation: number;
  /** Since the last tidying. A flag, not a time: a time would be written to memory of its own at every spend. */
  used: boolean;
  /** One draw at a time; it never rejects. */
  drawing: Promise<void> | undefined;
}

/** The `leased` mode. */
export function leasedSpender(store: Store, options: LeaseOptions = {}): Spender {
  const { size = 1_000, ttl = 10_000, keys = 100_000 } = options;
  const step = options.step ?? Math.max(1, Math.floor(size / 4));
  const holder = newId("node");
  const exact = exactSpender(store);
  const pending = new Set<Promise<unknown>>();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let closed = false;
  let active = 0;
  let idle: (() => void) | undefined;

  const giveBack = (ref: KeyRef, lease: Lease): void => {
    const unspent = lease.inHand;
    lease.inHand = 0;
    // A store that fails here keeps the credits: they count as spent, never twice.
    const returned = new Promise((resolve) => resolve(store.returnCredits(ref, holder, lease.generation, unspent))).catch(() => undefined);
    pending.add(returned);
    void returned.then(() => pending.delete(returned));
  };
  // A plain map: its order is that of the first draw, and a look-up is all that a hot spend pays.
  const leases = new Map<KeyRef, Lease>();
  const end = (ref: KeyRef, lease: Lease): void => {
    leases.delete(ref);
    lease.live = false;
    giveBack(ref, lease);
  };
  const endOldest = (): void => {
    for (const [ref, lease] of leases) {
      // One that is drawing is about to be used.
      if (lease.drawing !== undefined) continue;
      end(ref, lease);
      return;
    }
  };
  const begin = (record: KeyRecord): Lease => {
    if (leases.size >= keys) endOldest();
    const lease: Lease = { live: true, inHand: 0, beyond: 0, generation: record.generation, used: true, drawing: undefined };
    leases.set(record.ref, lease);
    watch();
    return lease;
  };

  /** Gives back what was not used for a while. One timer for all leases, and none without leases. */
  const tidy = (): void => {
    for (const [ref, lease] of leases) {
      if (!lease.used && lease.drawing === undefined) end(ref, lease);
      lease.used = false;
    }
    timer = undefined;
    watch();
  };
  const watch = (): void => {
    if (timer !== undefined || closed || leases.size === 0) return;
    timer = setTimeout(tidy, ttl);
    (timer as { unref?: () => void }).unref?.();
  };

  const draw = async (record: KeyRecord, lease: Lease, cost: number, now: number): Promise<"drawn" | "refused" | "gone"> => {
    const wanted = { holder, cost: cost - lease.inHand, step, size, now, until: now + ttl, period: periodOf(record.refill, now) };
    const drawn = await store.drawCredits(record.ref, wanted);
    if (drawn === undefined) return "gone";
    if (drawn.generation !== lease.generation) lease.inHand = 0;
    lease.generation = drawn.generation;
    lease.beyond = drawn.remaining;
    lease.inHand += drawn.drawn;
    return drawn.drawn === 0 ? "refused" : "drawn";
  };

  const drawThenTake = async (record: KeyRecord, lease: Lease, cost: number, now: number): Promise<Spend | undefined> => {
    for (;;) {
      while (lease.drawing !== undefined) await lease.drawing;
      if (lease.inHand >= cost) return take(lease, cost);
      const drawing = draw(record, lease, cost, now);
      const done = () => void (lease.drawing = undefined);
      lease.drawing = drawing.then(done, done);
      const outcome = await drawing;
      if (outcome === "gone") return undefined;
      if (lease.beyond === null) return { ok: true, remaining: null };
      if (outcome === "refused") return { ok: false, remaining: lease.inHand + lease.beyond };
    }
  };
  const spendByDraw = async (record: KeyRecord, lease: Lease, cost: number, now: number): Promise<Spend | undefined> => {
    active++;
    let known = false;
    try {
      const spent = await drawThenTake(record, lease, cost, now);
      known = spent !== undefined;
      return spent;
    } finally {
      // A lease of which nothing is known is forgotten; one that lost its place meanwhile gives back what is left.
      if (!known && lease.live) end(record.ref, lease);
      else if (!lease.live) giveBack(record.ref, lease);
      if (--active === 0) idle?.();
    }
  };

  return {
    spend(account, cost, now) {
      const { record } = account;
      let lease = account.lease?.live === true ? account.lease : leases.get(record.ref);
      if (lease !== undefined && lease.generation < record.generation && lease.drawing === undefined) {
        // The balance was set since: what is in hand belongs to the old one and is void.
        end(record.ref, lease);
        lease = undefined;
      }
      if (cost === 0 && (lease === undefined || lease.drawing !== undefined)) return exact.spend(account, 0, now);
      if (lease === undefined) {
        if (closed) return exact.spend(account, cost, now);
        lease = begin(record);
      }
      account.lease = lease;
      return lease.inHand >= cost ? take(lease, cost) : spendByDraw(record, lease, cost, now);
    },
    async close() {
      closed = true;
      if (timer !== undefined) clearTimeout(timer);
      if (active > 0) await new Promise<void>((resolve) => (idle = resolve));
      for (const [ref, lease] of leases) end(ref, lease);
      await Promise.all(pending);
    },
  };
}

function take(lease: Lease, cost: number): Spend {
  lease.inHand -= cost;
  lease.used = true;
  return { ok: true, remaining: lease.inHand + (lease.beyond ?? 0) };
}
