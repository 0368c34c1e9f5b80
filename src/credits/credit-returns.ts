/**
 * Returns leased credits to the store, and tries again where that fails.
 *
 * Why not after every error: only with STORE_BUSY, STORE_FULL and STORE_READ_ONLY does the port promise that nothing was changed. After any
 * other error the credits may be back already, and to return them twice would make credits of nothing. They count as spent, and are counted.
 *
 * Why memory is bounded: there is one sum per key. A set balance voids older credits, so of two generations only the newer is kept. Where too
 * many keys wait, {@link CreditReturns.isBlocked} says so, and no more leases begin.
 */
import { isKeystileError, type KeystileErrorCode } from "../contracts/errors.js";
import type { KeyRef, Store } from "../contracts/store.js";
import type { MaybePromise } from "../contracts/types.js";
import { isThenable } from "../lib/thenable.js";

/** Returns in flight at once, when many are due. */
export const MAX_IN_FLIGHT = 1_000;

/** Milliseconds between two rounds of attempts: short while the store takes credits back, twice as long after each round in which it did not. */
const MIN_PAUSE = 10;
const MAX_PAUSE = 1_000;

/** Errors of which the port says that nothing was changed. */
const RETRIED: ReadonlySet<KeystileErrorCode | undefined> = new Set([
  "STORE_BUSY",
  "STORE_FULL",
  "STORE_READ_ONLY",
] as const);

/** How many credits of how many keys. A key may have none in hand, but a reserve in the store. */
export interface CreditCount {
  readonly credits: number;
  readonly keys: number;
}

export interface CreditReturns {
  /** Returns credits, and the reserve that goes with them. Those of one key wait for each other. */
  add(ref: KeyRef, generation: number, credits: number): void;
  /** Tries at once what waits for this key, if anything does. */
  retry(ref: KeyRef): void;
  /** Returns in flight, and those that wait. 0: all is back, or given up. */
  size(): number;
  /** So many returns failed and wait that nothing should be added that can wait elsewhere. */
  isBlocked(): boolean;
  /** Resolves when the next attempt has ended, however it did. */
  settled(): Promise<void>;
  /** What is not back yet. */
  outstanding(): CreditCount;
  /** What was given up since the start, after an error that does not say whether the store took it, or because the store was closed. */
  forfeited(): CreditCount;
  /** The latest error of an attempt. */
  lastError(): unknown;
}

interface Portion {
  readonly generation: number;
  readonly credits: number;
}

/** @param holder tells the name that the store knows this process by */
export function creditReturns(store: Store, holder: () => string): CreditReturns {
  const sending = new Map<KeyRef, Portion>();
  /** What failed and waits for the next round, or came while another return of its key was in flight. */
  const queued = new Map<KeyRef, Portion>();
  let listeners: (() => void)[] = [];
  let forfeited: CreditCount = { credits: 0, keys: 0 };
  let lastError: unknown;
  let isStoreClosed = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let pause = MIN_PAUSE;
  /** {@link size} when the last round began. */
  let lastSize = 0;

  const size = (): number => queued.size + sending.size;
  const enqueue = (ref: KeyRef, portion: Portion): void => {
    const other = queued.get(ref);
    queued.set(ref, other === undefined ? portion : merge(other, portion));
  };
  const forfeit = ({ credits }: Portion): void => {
    forfeited = { credits: forfeited.credits + credits, keys: forfeited.keys + 1 };
  };
  const settle = (): void => {
    if (size() === 0) pause = MIN_PAUSE;
    const waiting = listeners;
    listeners = [];
    for (const resolve of waiting) resolve();
  };
  const fail = (ref: KeyRef, portion: Portion, error: unknown): void => {
    lastError = error;
    const code = isKeystileError(error) ? error.code : undefined;
    if (RETRIED.has(code) && !isStoreClosed) {
      enqueue(ref, portion);
      schedule();
      return;
    }
    forfeit(portion);
    if (code === "STORE_CLOSED") stop();
    else retry(ref);
  };
  /** A closed store never opens again. */
  const stop = (): void => {
    isStoreClosed = true;
    clearTimeout(timer);
    for (const portion of queued.values()) forfeit(portion);
    queued.clear();
    settle();
  };
  const send = (ref: KeyRef, portion: Portion): void => {
    let returning: MaybePromise<void>;
    try {
      returning = store.returnCredits(ref, holder(), portion.generation, portion.credits);
    } catch (error) {
      fail(ref, portion, error);
      return;
    }
    if (!isThenable(returning)) return;
    sending.set(ref, portion);
    const end = (then: () => void): void => {
      sending.delete(ref);
      then();
      settle();
    };
    Promise.resolve(returning).then(
      () => end(() => retry(ref)),
      (error: unknown) => end(() => fail(ref, portion, error)),
    );
  };
  const retry = (ref: KeyRef): void => {
    const portion = queued.get(ref);
    if (portion === undefined || sending.has(ref)) return;
    queued.delete(ref);
    send(ref, portion);
  };
  const round = (): void => {
    timer = undefined;
    pause = size() < lastSize ? MIN_PAUSE : Math.min(2 * pause, MAX_PAUSE);
    lastSize = size();
    // A copy, since what fails at once goes back to the end of the queue.
    for (const ref of firstKeys(queued, MAX_IN_FLIGHT - sending.size)) retry(ref);
    schedule();
    settle();
  };
  /** One timer for all, and none where nothing waits. */
  const schedule = (): void => {
    if (queued.size > 0 && timer === undefined) timer = startTimer(round, pause);
  };

  return {
    add(ref, generation, credits) {
      const portion = { generation, credits };
      if (isStoreClosed) forfeit(portion);
      else if (sending.has(ref) || queued.has(ref)) enqueue(ref, portion);
      else send(ref, portion);
    },
    retry,
    size,
    isBlocked: () => queued.size >= MAX_IN_FLIGHT,
    settled: () => new Promise((resolve) => listeners.push(resolve)),
    outstanding: () => ({
      credits: sum(queued.values()) + sum(sending.values()),
      keys: new Set([...queued.keys(), ...sending.keys()]).size,
    }),
    forfeited: () => forfeited,
    lastError: () => lastError,
  };
}

/** A timer that keeps no process alive. */
export function startTimer(work: () => void, ms: number): ReturnType<typeof setTimeout> {
  const timer = setTimeout(work, ms);
  (timer as { unref?: () => void }).unref?.();
  return timer;
}

/** Of two generations the newer: the store ignores the older. */
function merge(one: Portion, other: Portion): Portion {
  if (one.generation !== other.generation) return one.generation > other.generation ? one : other;
  // A balance stops there too.
  return { generation: one.generation, credits: Math.min(Number.MAX_SAFE_INTEGER, one.credits + other.credits) };
}

function firstKeys(portions: ReadonlyMap<KeyRef, Portion>, most: number): KeyRef[] {
  const refs: KeyRef[] = [];
  for (const ref of portions.keys()) {
    if (refs.length >= most) break;
    refs.push(ref);
  }
  return refs;
}

function sum(portions: Iterable<Portion>): number {
  let credits = 0;
  for (const portion of portions) credits += portion.credits;
  return credits;
}
