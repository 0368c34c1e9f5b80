/**
 * Draws of the `leased` mode: how credits come from the balance into the leases of this process.
 *
 * Why a key has at most one draw in flight: calls that come meanwhile wait, take what it left over, and the next draw
 * is for all that are left. So what a crash loses does not grow with the calls in flight, and no call waits for more
 * than two draws: the one in flight when it came, and the next. (More only if the balance changed between the two, or
 * if calls at once count by different calendars.) If a draw fails, every call that waits fails.
 *
 * Which calls a draw is for: in order, those that fit what the store had for this node when it last replied. A call is
 * refused only by a reply to a draw that it waited for: the cost must exceed what there is in all. So a call that is
 * too dear holds up no cheaper one behind it.
 *
 * A call that may need all credits of this node, in the balance and leased, is spent exactly between two draws, once
 * the lease has ended: what a draw in flight brings would be missing.
 *
 * Why it never overspends: see `spender.ts`. A draw grants nothing twice, since each call takes its cost out of the
 * lease.
 */
import type { Draw, DrawRequest, KeyRef, Spend, Store } from "../contracts/store.js";
import type { MaybePromise } from "../contracts/types.js";
import { copyOfError } from "../lib/copy-error.js";
import { NONE } from "../lib/fingerprint-index.js";
import type { Spender, SpendTarget } from "./exact-spender.js";
import type { LeaseManager } from "./lease-manager.js";
import { NO_GENERATION } from "./lease-table.js";
import { periodOf } from "./refill-calendar.js";

/** A lease that has spent more is ended at its next draw, and another begins. */
const MAX_SPENT = 1_000_000_000_000;

/** With smaller steps none is drawn ahead: what is set aside would be spent before the draw has ended. */
const MIN_STEP_AHEAD = 64;

/** A call that its key's lease could not serve. */
interface Call {
  readonly target: SpendTarget;
  readonly cost: number;
  readonly now: number;
  resolve(spend: Spend | undefined): void;
  reject(error: unknown): void;
}

/** A draw that no call waits for, as long as the lease has credits. */
interface FillUp extends Pick<Call, "target" | "now"> {
  readonly entry: number;
}

/** Calls of a key that came since its draw in flight began. */
interface Waiting {
  readonly calls: Call[];
  /** Spends that need what is leased; they never reject. */
  readonly exact: (() => Promise<void>)[];
}

/** What a draw decided. */
interface Reply {
  /** Credits that the store has for this node, those in hand not counted; Infinity: unknown. */
  readonly free: number;
  /** Of the calls that are served or refused; the others are still open. */
  readonly outcomes: ReadonlyMap<Call, Spend | undefined>;
}

/** See `LeaseOptions` in `spender.ts`. */
export interface LeaseSizes {
  readonly size: number;
  readonly step: number;
  /** 0: the first spend of a key is exact. */
  readonly firstStep: number;
  readonly ttl: number;
}

export interface LeaseDraws {
  /** Takes from the key's lease, looked up by its ref. The first call that needs the spare has the lease filled up. */
  take(target: SpendTarget, cost: number, now: number): Spend | undefined;
  /** Serves a call that {@link LeaseDraws.take} did not; without space for a lease, by an exact spend. */
  spend(target: SpendTarget, cost: number, now: number): MaybePromise<Spend | undefined>;
  /** Whether the key has a draw in flight, or work that wants no lease. */
  isDrawing(ref: KeyRef): boolean;
  /**
   * Ends the key's lease, after the draw in flight if there is one, and does `work` once that was tried, before the
   * next draw.
   */
  withoutLease<T>(ref: KeyRef, work: () => MaybePromise<T>): MaybePromise<T>;
  /** From now on no lease is filled up. */
  stop(): void;
}

export function leaseDraws(
  store: Store,
  manager: LeaseManager,
  exact: Pick<Spender, "spend">,
  { size, step, firstStep, ttl }: LeaseSizes,
): LeaseDraws {
  const { table } = manager;
  const spare = step < MIN_STEP_AHEAD ? 0 : Math.floor(step / 4);
  /** The keys that have a draw in flight. */
  const queues = new Map<KeyRef, Waiting>();
  let isStopped = false;

  const take = (target: SpendTarget, cost: number, now: number): Spend | undefined => {
    const entry = table.find(target.ref);
    if (entry === NONE || table.generation(entry) === NO_GENERATION) return undefined;
    if (table.generation(entry) < target.generation) {
      // The balance was set since: credits drawn from the old one are void.
      void manager.end(target.ref);
      return undefined;
    }
    if (target.lease !== entry) target.leasedAt(entry);
    let left = table.take(entry, target.ref, target.generation, cost);
    if (left === NONE && table.useSpare(entry)) {
      left = table.take(entry, target.ref, target.generation, cost);
      if (left !== NONE) drawAhead(target, entry, now);
    }
    return left === NONE ? undefined : { ok: true, remaining: left };
  };
  /** Sets the spare aside where there is much more. */
  const setSpareAside = (entry: number): void => {
    if (table.inHand(entry) >= 2 * spare) table.setAside(entry, spare);
  };

  /** The first spend of a key takes its cost alone, and leaves nothing to return. */
  const spendFirst = async (entry: number, call: Call): Promise<Reply> => {
    const spent = await exact.spend(call.target, call.cost, call.now);
    if (spent?.ok === true && spent.remaining !== null) table.noteStep(entry, Math.min(step, call.cost));
    const free = spent === undefined || spent.stale === true ? Infinity : (spent.remaining ?? Infinity);
    return { free, outcomes: new Map([[call, spent]]) };
  };
  /**
   * Draws for calls of one period, as far as they fit, and settles those that the reply decides. Available credits
   * leave the lease first, so that no other call spends them meanwhile.
   * @param free as in {@link Reply}
   */
  const drawFor = async (ref: KeyRef, entry: number, calls: readonly Call[], free: number): Promise<Reply> => {
    // Leases that could not be ended yet are tried first, so that their credits count for this draw.
    manager.returns.retry(ref);
    const last = table.step(entry);
    const next = last === 0 ? firstStep : Math.min(step, 2 * last);
    if (next === 0 && calls.length === 1) return spendFirst(entry, calls[0]!);
    const newest = Math.max(...calls.map(({ target }) => target.generation));
    const isVoid = table.generation(entry) !== NO_GENERATION && table.generation(entry) < newest;
    if (isVoid || table.spent(entry) > MAX_SPENT) void manager.renew(entry);
    const leased = table.generation(entry);
    const inHand = table.withdraw(entry);
    const { chosen, sum } = choose(calls, inHand + free);
    let drawn: Draw | undefined;
    try {
      drawn = await store.drawCredits(ref, requestOf(entry, calls, inHand, sum - inHand, next));
    } catch (error) {
      table.restore(entry, inHand);
      // Whether credits were drawn is unknown: those of a new lease come back with its end, others later with theirs.
      if (leased === NO_GENERATION) void manager.renew(entry);
      throw error;
    }
    if (drawn === undefined || drawn.stale === true || drawn.remaining === null) {
      table.restore(entry, inHand);
      // The key is gone or has no balance any more: what is left of the old one is not spent.
      if (drawn?.stale !== true && leased !== NO_GENERATION) void manager.renew(entry);
      const outcome = (): Spend | undefined =>
        drawn && (drawn.stale === true ? { ok: false, remaining: 0, stale: true } : { ok: true, remaining: null });
      return { free: Infinity, outcomes: new Map(calls.map((call) => [call, outcome()])) };
    }
    table.deposit(entry, inHand + drawn.drawn);
    if (leased !== NO_GENERATION && leased !== drawn.generation) {
      // The credits from before the balance was set are void.
      void manager.renew(entry);
      return { free: drawn.remaining, outcomes: new Map() };
    }
    if (drawn.drawn > 0 || leased !== NO_GENERATION) table.refresh(entry, drawn.generation, drawn.remaining);
    const outcomes = new Map<Call, Spend>();
    if (drawn.drawn > 0 && inHand + drawn.drawn >= sum) {
      table.noteStep(entry, Math.max(next, Math.min(step, sum)));
      for (const call of chosen) outcomes.set(call, serve(entry, call, drawn, outcomes.size === 0));
    }
    // What the draw brought beyond these may serve others.
    const left = table.inHand(entry) + drawn.remaining;
    for (const call of calls)
      if (call.cost > left && !outcomes.has(call)) outcomes.set(call, { ok: false, remaining: left });
    return { free: drawn.remaining, outcomes };
  };
  const requestOf = (
    entry: number,
    calls: readonly Pick<Call, "target" | "now">[],
    inHand: number,
    cost: number,
    wanted: number,
  ): DrawRequest => {
    const now = Math.max(...calls.map((call) => call.now));
    return {
      holder: manager.holderOf(entry),
      spent: table.spent(entry),
      cost,
      step: wanted,
      // Together with what is in hand.
      size: size - inHand,
      period: periodAt(calls[0]!),
      now,
      until: now + ttl,
    };
  };
  /** Takes the cost of a call from a lease that has it. */
  const serve = (entry: number, call: Call, { generation, forfeited }: Draw, isFirst: boolean): Spend => {
    call.target.leasedAt(entry);
    const remaining = table.take(entry, call.target.ref, generation, call.cost);
    return isFirst && forfeited !== undefined ? { ok: true, remaining, forfeited } : { ok: true, remaining };
  };

  /**
   * Fills a lease up to `step` while its spare is being spent. Nobody has to wait for it, so that a store which commits
   * its calls in groups commits many of these together.
   * @returns {@link Reply.free}
   */
  const fillUp = async ({ target, entry, now }: FillUp): Promise<number> => {
    const inHand = table.inHand(entry);
    const drawn = await store.drawCredits(target.ref, requestOf(entry, [{ target, now }], inHand, 1, step - inHand));
    // The next draw finds out that the key is gone, has no balance or not enough, or follows another calendar.
    if (drawn === undefined || drawn.remaining === null || drawn.stale === true) return Infinity;
    if (table.generation(entry) === drawn.generation) {
      table.refresh(entry, drawn.generation, drawn.remaining);
      table.deposit(entry, drawn.drawn);
    } else void manager.renew(entry);
    return drawn.remaining;
  };
  /** Draws for a key, as long as calls wait in its queue. The lease is held. Never rejects. */
  const drawWhileWaiting = async (ref: KeyRef, entry: number, queue: Waiting, ahead?: FillUp): Promise<void> => {
    let calls: readonly Call[] = [];
    try {
      let free = ahead === undefined ? Infinity : await fillUp(ahead);
      for (;;) {
        if (queue.exact.length > 0) {
          if (table.generation(entry) !== NO_GENERATION) await manager.renew(entry);
          await doAll(queue.exact);
          free = Infinity;
        }
        calls = [...calls, ...queue.calls.splice(0)].filter(({ target, cost, now, resolve }) => {
          const spent = take(target, cost, now);
          if (spent !== undefined) resolve(spent);
          return spent === undefined;
        });
        if (calls.length === 0) {
          if (queue.exact.length > 0) continue;
          break;
        }
        const period = periodAt(calls[0]!);
        const due = calls.filter((call) => periodAt(call) === period);
        const reply = await drawFor(ref, entry, due, free);
        free = reply.free;
        // From here to the next draw or the end in one go, unless an exact spend waits: who is served finds no draw
        // in flight.
        for (const [call, spend] of reply.outcomes) call.resolve(spend);
        calls = calls.filter((call) => !reply.outcomes.has(call));
      }
      setSpareAside(entry);
    } catch (error) {
      // Those that are settled stay so.
      for (const [i, { reject }] of [...calls, ...queue.calls].entries()) reject(i === 0 ? error : copyOfError(error));
    } finally {
      queues.delete(ref);
      manager.release(ref);
      // Only after an error.
      if (queue.exact.length > 0) {
        await manager.end(ref);
        await doAll(queue.exact);
      }
    }
  };
  const drawAhead = (target: SpendTarget, entry: number, now: number): void => {
    const { ref } = target;
    if (isStopped || queues.has(ref) || !manager.mayLease(ref) || table.spent(entry) > MAX_SPENT) return;
    manager.hold(ref);
    const queue: Waiting = { calls: [], exact: [] };
    queues.set(ref, queue);
    manager.track(drawWhileWaiting(ref, entry, queue, { target, entry, now }));
  };

  return {
    take,
    spend(target, cost, now) {
      const { ref } = target;
      const others = queues.get(ref);
      const entry = others === undefined ? manager.hold(ref) : NONE;
      if (others === undefined && entry === NONE) return exact.spend(target, cost, now);
      return new Promise((resolve, reject) => {
        const call = { target, cost, now, resolve, reject };
        if (others !== undefined) {
          others.calls.push(call);
          return;
        }
        const queue: Waiting = { calls: [call], exact: [] };
        queues.set(ref, queue);
        void drawWhileWaiting(ref, entry, queue);
      });
    },
    isDrawing: (ref) => queues.has(ref),
    withoutLease<T>(ref: KeyRef, work: () => MaybePromise<T>): MaybePromise<T> {
      const others = queues.get(ref);
      if (others === undefined && table.find(ref) === NONE) return work();
      const working = new Promise<T>((resolve, reject) => {
        const exact = () => Promise.resolve().then(work).then(resolve, reject);
        if (others !== undefined) {
          others.exact.push(exact);
          return;
        }
        const queue: Waiting = { calls: [], exact: [exact] };
        queues.set(ref, queue);
        void drawWhileWaiting(ref, manager.hold(ref), queue);
      });
      manager.track(working);
      return working;
    },
    stop: () => void (isStopped = true),
  };
}

async function doAll(waiting: (() => Promise<void>)[]): Promise<void> {
  await Promise.all(waiting.splice(0).map((work) => work()));
}

function periodAt({ target, now }: Pick<Call, "target" | "now">): number {
  return periodOf(target.refill, now);
}

/**
 * The calls that fit, in order; if none does, the cheapest.
 * @param budget credits that there are; Infinity: unknown
 * @returns at least one of at least one
 */
function choose(calls: readonly Call[], budget: number): { readonly chosen: readonly Call[]; readonly sum: number } {
  const chosen: Call[] = [];
  let sum = 0;
  for (const call of calls) {
    if (sum + call.cost > budget) continue;
    chosen.push(call);
    sum += call.cost;
  }
  if (chosen.length > 0) return { chosen, sum };
  const cheapest = calls.reduce((least, call) => (call.cost < least.cost ? call : least));
  return { chosen: [cheapest], sum: cheapest.cost };
}
