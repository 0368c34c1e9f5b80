/**
 * The credits that this process has leased of one key: a state machine.
 *
 * ```
 * empty ⇄ drawing ⇄ open      empty → ended      open → ended
 * ```
 *
 * - `empty`: no credits. The first spend of a key is exact, and only how much the next one draws is remembered.
 * - `open`: credits of one balance in memory, which calls spend.
 * - `drawing`: a draw is in flight, or an exact spend that needs what is leased. Calls spend what is available, the
 *   others wait.
 * - `ended`: has nothing, for good. The next lease of its key is another object.
 *
 * Why at most one draw is in flight: calls that come meanwhile wait, take what it left over, and the next draw is for
 * all that are left. So what a crash loses does not grow with the calls in flight, and no call waits for more than two
 * draws: the one in flight when it came, and the next. (More only if the balance changed between the two, or if calls
 * at once count by different calendars.) If a draw fails, every call that waits fails.
 *
 * Which calls a draw is for: in order, those that fit what the store had for this node when it last replied. A call is
 * refused only by a reply to a draw that it waited for: the cost must exceed what there is in all. So a call that is
 * too dear holds up no cheaper one behind it.
 *
 * A spend that may need all credits of this node, in the balance and leased, is exact, between two draws, once the
 * credits were returned: what a draw in flight brings would be missing.
 */
import type { Draw, DrawRequest, KeyRef, Spend, Store } from "../contracts/store.js";
import type { MaybePromise } from "../contracts/types.js";
import { copyOfError } from "../lib/copy-error.js";
import type { CreditReturns } from "./credit-returns.js";
import { nextBoundary, periodOf } from "./refill-calendar.js";
import type { Leased, Spender, SpendTarget } from "./spender.js";

/** One that has spent more is returned before its next draw. */
const MAX_SPENT = 1_000_000_000_000;

/** With smaller steps none is drawn ahead: the last quarter would be spent before the draw has ended. */
const MIN_STEP_AHEAD = 64;

/** Older than any balance. */
const NO_GENERATION = -1;

export type LeaseState = "empty" | "open" | "drawing" | "ended";

/** A call that a draw may be for. */
interface Asking {
  readonly target: SpendTarget;
  readonly now: number;
}

/** A call that what is available did not cover. */
interface Call extends Asking {
  readonly cost: number;
  /** The credits stay available: see {@link NodeLease.fill}. */
  readonly stays?: true;
  resolve(spend: Spend | undefined): void;
  reject(error: unknown): void;
}

/** Who waits, in order of coming. */
interface Queue {
  calls: Call[];
  /** Exact spends, which never reject. */
  readonly exact: (() => Promise<void>)[];
}

/** What a draw decided. */
interface Reply {
  /** Credits that the store has for this node, those in memory not counted; Infinity: unknown. */
  readonly free: number;
  /** Of the calls that are served or refused; the others still wait. */
  readonly outcomes: ReadonlyMap<Call, Spend | undefined>;
}

/** See `LeaseOptions`. */
export interface LeaseSizes {
  readonly size: number;
  readonly step: number;
  /** 0: the first spend of a key is exact. */
  readonly firstStep: number;
  readonly ttl: number;
}

/** What the leases of a process share. */
export interface LeaseOwner {
  readonly sizes: LeaseSizes;
  readonly store: Pick<Store, "drawCredits">;
  readonly exact: Pick<Spender, "spend">;
  readonly returns: Pick<CreditReturns, "add" | "retry">;
  /** Whether leases are to be filled up no more. */
  readonly isClosing: boolean;
  /** A random id, which no other lease has in the store. */
  newId(): number;
  /** The name of an id in the store. */
  holderOf(id: number): string;
  /** Forgets a lease that has ended. */
  forget(lease: NodeLease): void;
  /** Makes the end of this process wait for `work`. */
  track(work: Promise<unknown>): void;
}

export class NodeLease implements Leased {
  // First what each spend reads, in one or two lines of the processor's cache.
  /** Credits in memory. */
  #available = 0;
  /** When no more than this is available, it is filled up. */
  #spare = 0;
  /** Of the balance that its credits came from. */
  #generation = NO_GENERATION;
  /**
   * When what is in memory expires, Unix time in milliseconds; `undefined`: never. Not Infinity: the engine keeps such
   * a number outside the object, one more line of memory to read for each spend.
   */
  #until: number | undefined = undefined;
  /** Credits that the store had for this node after the last draw, and those that a draw in flight counts on. */
  #upstream = 0;
  /** Under this id. */
  #spent = 0;
  #isUsed = true;
  #id: number;
  /** Credits that the latest draw asked for; 0: nothing was spent of the key yet. */
  #step = 0;
  #state: LeaseState = "empty";
  #queue: Queue | undefined = undefined;
  #target: SpendTarget | undefined = undefined;
  readonly ref: KeyRef;
  readonly #owner: LeaseOwner;

  constructor(ref: KeyRef, owner: LeaseOwner) {
    this.ref = ref;
    this.#owner = owner;
    this.#id = owner.newId();
  }

  get state(): LeaseState {
    return this.#state;
  }

  /** Credits in memory, without those that a draw in flight counts on. */
  get available(): number {
    return this.#available;
  }

  /** What this node can take of the account, in memory and in the store, as far as it knows. */
  get left(): number {
    return this.#available + this.#upstream;
  }

  /** @returns whether it was used since the last call */
  takeUse(): boolean {
    const isUsed = this.#isUsed;
    this.#isUsed = false;
    return isUsed;
  }

  /** See {@link Leased}. What is to be filled up first is not taken. */
  take(generation: number, cost: number, now: number): Spend | undefined {
    const left = this.#available - cost;
    // A cost that is no number is left to the store, which refuses it.
    if (!(left >= this.#spare && cost >= 0) || this.#generation < generation || hasPassed(this.#until, now))
      return undefined;
    return { ok: true, remaining: this.takeCovered(cost) };
  }

  /** Whether all that is available covers a cost. @param generation the oldest valid generation */
  covers(generation: number, cost: number, now: number): boolean {
    return this.#available >= cost && this.#generation >= generation && !hasPassed(this.#until, now);
  }

  /** Takes a cost that is covered. @returns {@link NodeLease.left} */
  takeCovered(cost: number): number {
    this.#available -= cost;
    this.#spent += cost;
    this.#isUsed = true;
    return this.#available + this.#upstream;
  }

  /** Takes `cost` of all that is available. The first call that needs the last quarter has the lease filled up. */
  spend(target: SpendTarget, cost: number, now: number): Spend | undefined {
    if (!this.#isOf(target, now)) return undefined;
    const spend = this.take(target.generation, cost, now);
    if (spend !== undefined || this.#spare === 0) return spend;
    this.#spare = 0;
    const last = this.take(target.generation, cost, now);
    if (last !== undefined && this.#state === "open" && this.#spent <= MAX_SPENT && !this.#owner.isClosing)
      this.#owner.track(this.#drawWhileWaiting(this.#fillUp({ target, now })));
    return last;
  }

  /** Draws for a call, or has it wait for a draw in flight. */
  draw(target: SpendTarget, cost: number, now: number): Promise<Spend | undefined> {
    return this.#wait(({ calls }, resolve, reject) => calls.push({ target, cost, now, resolve, reject }));
  }

  /** {@link NodeLease.spend} that takes nothing: of a call that takes from several leases, once all cover its cost. */
  show(target: SpendTarget, cost: number, now: number): Spend | undefined {
    if (!this.#isOf(target, now) || !this.covers(target.generation, cost, now)) return undefined;
    return { ok: true, remaining: this.left };
  }

  /** {@link NodeLease.draw} for such a call: what was drawn stays available. */
  fill(target: SpendTarget, cost: number, now: number): Promise<Spend | undefined> {
    return this.#wait(({ calls }, resolve, reject) => calls.push({ target, cost, now, stays: true, resolve, reject }));
  }

  /** Returns the credits, after the draw in flight if there is one, and does `work` before the next. */
  withdraw<T>(work: () => MaybePromise<T>): Promise<T> {
    return this.#wait(({ exact }, resolve, reject) =>
      exact.push(() => Promise.resolve().then(work).then(resolve, reject)),
    );
  }

  /**
   * Ends it, unless it is drawing, and returns its credits to the store.
   * @returns what resolves once that was tried, whether or not it succeeded; `undefined`: nothing to wait for
   */
  end(): Promise<void> | undefined {
    const state = this.#state;
    if (state === "drawing" || state === "ended") return undefined;
    this.#state = "ended";
    this.#owner.forget(this);
    // A key may be remembered much longer.
    if (this.#target?.lease === this) this.#target.lease = undefined;
    // The store does not know one that never drew.
    return state === "open" ? this.#return() : undefined;
  }

  /** Returns the credits; what is drawn next is another lease of the store. @returns as {@link NodeLease.end} */
  #return(): Promise<void> | undefined {
    const returned = {
      ref: this.ref,
      holder: this.#owner.holderOf(this.#id),
      spent: this.#spent,
      credits: this.#available,
    };
    this.#id = this.#owner.newId();
    this.#generation = NO_GENERATION;
    this.#until = undefined;
    this.#available = this.#spare = this.#upstream = this.#spent = 0;
    return this.#owner.returns.add(returned);
  }

  /** Whether what is in memory is of the target's balance, and has not expired; it then remembers this lease. */
  #isOf(target: SpendTarget, now: number): boolean {
    if (this.#generation < target.generation || this.#isOver(target, now)) {
      // The balance was set since, or what was drawn from it has expired.
      if (this.#state === "open") void this.end();
      return false;
    }
    this.#rememberIn(target);
    return true;
  }

  /** Whether what is in memory has expired, or was drawn under a refill by which it expires at another time. */
  #isOver(target: SpendTarget, now: number): boolean {
    if (this.#generation === NO_GENERATION) return false;
    return hasPassed(this.#until, now) || (target.lease !== this && this.#until !== expiryOf(target, now));
  }

  #rememberIn(target: SpendTarget): void {
    if (target.lease === this) return;
    target.lease = this;
    this.#target = target;
  }

  #wait<T>(join: (queue: Queue, resolve: (value: T) => void, reject: (error: unknown) => void) => unknown): Promise<T> {
    const waiting = new Promise<T>((resolve, reject) => {
      join((this.#queue ??= { calls: [], exact: [] }), resolve, reject);
      if (this.#state !== "drawing") void this.#drawWhileWaiting();
    });
    this.#owner.track(waiting);
    return waiting;
  }

  /** Draws as long as anybody waits. Never rejects. @param filling a draw in flight; see {@link Reply.free} */
  async #drawWhileWaiting(filling?: Promise<number>): Promise<void> {
    this.#state = "drawing";
    const queue = (this.#queue ??= { calls: [], exact: [] });
    /** Those that are settled stay so. */
    const failAll = (error: unknown): number => {
      for (const [i, { reject }] of queue.calls.entries()) reject(i === 0 ? error : copyOfError(error));
      queue.calls = [];
      return Infinity;
    };
    let free = filling === undefined ? Infinity : await filling.catch(failAll);
    while (queue.calls.length + queue.exact.length > 0) {
      try {
        if (queue.exact.length > 0) {
          if (this.#generation !== NO_GENERATION) await this.#return();
          await Promise.all(queue.exact.splice(0).map((work) => work()));
          free = Infinity;
        }
        queue.calls = queue.calls.filter(({ target, cost, now, stays, resolve }) => {
          const spend = stays === true ? this.show(target, cost, now) : this.spend(target, cost, now);
          if (spend !== undefined) resolve(spend);
          return spend === undefined;
        });
        if (queue.calls.length === 0) continue;
        const period = periodAt(queue.calls[0]!);
        const reply = await this.#drawFor(
          queue.calls.filter((call) => periodAt(call) === period),
          free,
        );
        free = reply.free;
        // From here to the next draw or the end in one go, unless an exact spend waits: who is served finds no draw
        // in flight.
        for (const [call, spend] of reply.outcomes) call.resolve(spend);
        queue.calls = queue.calls.filter((call) => !reply.outcomes.has(call));
      } catch (error) {
        free = failAll(error);
      }
    }
    const spare = spareOf(this.#owner.sizes.step);
    this.#spare = this.#available >= 2 * spare ? spare : 0;
    this.#queue = undefined;
    this.#state = this.#generation === NO_GENERATION ? "empty" : "open";
    if (this.#state === "empty" && this.#step === 0) void this.end();
  }

  /**
   * Draws for calls of one period, as far as they fit, and settles those that the reply decides. Available credits are
   * taken out first, so that no other call spends them meanwhile.
   * @param free as in {@link Reply}
   */
  async #drawFor(calls: readonly Call[], free: number): Promise<Reply> {
    const { store, returns, sizes } = this.#owner;
    // Returns that have failed are tried first, so that their credits count for this draw.
    returns.retry(this.ref);
    const next = this.#step === 0 ? sizes.firstStep : Math.min(sizes.step, 2 * this.#step);
    if (next === 0 && calls.length === 1 && calls[0]!.stays !== true) return this.#spendFirst(calls[0]!);
    const newest = Math.max(...calls.map(({ target }) => target.generation));
    const until = expiryOf(calls[0]!.target, latestOf(calls));
    const isVoid = this.#generation !== NO_GENERATION && (this.#generation < newest || this.#until !== until);
    if (isVoid || this.#spent > MAX_SPENT) void this.#return();
    const generation = this.#generation;
    const isNew = generation === NO_GENERATION;
    const inHand = this.#available;
    // Not `#putBack(-inHand)`: one −0 makes the numbers of all leases objects: 32 bytes, and two more reads.
    this.#available = this.#spare = 0;
    this.#upstream += inHand;
    const { chosen, sum } = choose(calls, inHand + free);
    let drawn: Draw | undefined;
    try {
      drawn = await store.drawCredits(this.ref, this.#requestOf(calls, { inHand, cost: sum - inHand, step: next }));
    } catch (error) {
      this.#putBack(inHand);
      // Whether credits were drawn is unknown: those of a new lease come back now, others with its end.
      if (isNew) void this.#return();
      throw error;
    }
    if (drawn === undefined || drawn.stale === true || drawn.remaining === null) {
      this.#putBack(inHand);
      // The key is gone or has no balance any more: what is left of the old one is not spent.
      if (drawn?.stale !== true && !isNew) void this.#return();
      const outcome = (): Spend | undefined =>
        drawn && (drawn.stale === true ? { ok: false, remaining: 0, stale: true } : { ok: true, remaining: null });
      return { free: Infinity, outcomes: new Map(calls.map((call) => [call, outcome()])) };
    }
    this.#available += inHand + drawn.drawn;
    if (!isNew && (generation !== drawn.generation || drawn.ended === true)) {
      // The credits from before the balance was set are void, and others may have expired.
      void this.#return();
      return { free: drawn.remaining, outcomes: new Map() };
    }
    if (drawn.drawn > 0 || !isNew) {
      this.#generation = drawn.generation;
      this.#until = until;
      this.#upstream = drawn.remaining;
    }
    const outcomes = new Map<Call, Spend>();
    if (drawn.drawn > 0 && inHand + drawn.drawn >= sum) {
      this.#step = Math.max(next, Math.min(sizes.step, sum));
      for (const call of chosen) outcomes.set(call, this.#serve(call, drawn, outcomes.size === 0));
    }
    // What the draw brought beyond these may serve others.
    const left = this.#available + drawn.remaining;
    for (const call of calls)
      if (call.cost > left && !outcomes.has(call)) outcomes.set(call, { ok: false, remaining: left });
    return { free: drawn.remaining, outcomes };
  }

  /** The first spend of a key takes its cost alone, and leaves nothing to return. */
  async #spendFirst(call: Call): Promise<Reply> {
    const { exact, sizes } = this.#owner;
    const spent = await exact.spend(call.target, call.cost, call.now);
    if (spent?.ok === true && spent.remaining !== null) this.#step = Math.min(sizes.step, call.cost);
    const free = spent === undefined || spent.stale === true ? Infinity : (spent.remaining ?? Infinity);
    return { free, outcomes: new Map([[call, spent]]) };
  }

  /**
   * Fills up to `step` while the last quarter is being spent. Nobody has to wait for it, so that a store which commits
   * its calls in groups commits many of these together.
   * @returns {@link Reply.free}
   */
  async #fillUp(asking: Asking): Promise<number> {
    const { store, sizes } = this.#owner;
    const inHand = this.#available;
    const drawn = await store.drawCredits(
      this.ref,
      this.#requestOf([asking], { inHand, cost: 1, step: sizes.step - inHand }),
    );
    // The next draw finds out that the key is gone, has no balance or not enough, or follows another calendar.
    if (drawn === undefined || drawn.remaining === null || drawn.stale === true) return Infinity;
    this.#available += drawn.drawn;
    this.#upstream = drawn.remaining;
    if (this.#generation !== drawn.generation || drawn.ended === true) void this.#return();
    return drawn.remaining;
  }

  /** @param wanted what is to be drawn beside what is in hand: see {@link DrawRequest} */
  #requestOf(
    asking: readonly Asking[],
    { inHand, cost, step }: Pick<DrawRequest, "cost" | "step"> & { readonly inHand: number },
  ): DrawRequest {
    const { size, ttl } = this.#owner.sizes;
    const now = latestOf(asking);
    return {
      holder: this.#owner.holderOf(this.#id),
      spent: this.#spent,
      cost,
      step,
      // Together with what is in hand.
      size: size - inHand,
      period: periodAt(asking[0]!),
      now,
      until: Math.min(now + ttl, expiryOf(asking[0]!.target, now) ?? Infinity),
    };
  }

  /** Makes credits available that a draw counted on. */
  #putBack(credits: number): void {
    this.#available += credits;
    this.#upstream -= credits;
  }

  /** Takes the cost of a call that is covered. */
  #serve({ target, cost, now, stays }: Call, { generation, forfeited }: Draw, isFirst: boolean): Spend {
    this.#rememberIn(target);
    if (stays === true) return { ok: true, remaining: this.left };
    const spend = this.take(generation, cost, now)!;
    return isFirst && forfeited !== undefined ? { ...spend, forfeited } : spend;
  }
}

function spareOf(step: number): number {
  return step < MIN_STEP_AHEAD ? 0 : Math.floor(step / 4);
}

/** When credits that are drawn now expire; `undefined`: never. */
function expiryOf({ refill, creditsExpire }: SpendTarget, now: number): number | undefined {
  if (refill?.rollover === undefined) return creditsExpire;
  return Math.min(creditsExpire ?? Infinity, nextBoundary(refill, now));
}

function hasPassed(until: number | undefined, now: number): boolean {
  return until !== undefined && now >= until;
}

function latestOf(asking: readonly Asking[]): number {
  return Math.max(...asking.map(({ now }) => now));
}

function periodAt({ target, now }: Asking): number {
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
