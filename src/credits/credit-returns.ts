/**
 * Returns leased credits to the store, and retries failed returns.
 *
 * Why not after every error: the port promises that nothing was changed only for STORE_BUSY, STORE_FULL and
 * STORE_READ_ONLY. After any other error the credits may already be back, and returning them twice would create
 * credits. They are treated as spent and reported as forfeited.
 *
 * Why memory is bounded: there is one sum per key. Setting a balance voids older credits, so of two generations only
 * the newer is kept. When too many keys wait, {@link CreditReturns.isBlocked} is true and no new leases begin.
 */
import { isKeystileError, type KeystileErrorCode } from "../contracts/errors.js";
import type { KeyRef, Store } from "../contracts/store.js";
import type { MaybePromise } from "../contracts/types.js";
import { isThenable } from "../lib/thenable.js";

/** Most returns in flight at once. */
export const MAX_IN_FLIGHT = 1_000;

/**
 * Milliseconds between two rounds of attempts: doubles after each round in which the number of waiting returns did not
 * shrink.
 */
const MIN_PAUSE = 10;
const MAX_PAUSE = 1_000;

/** Errors after which the port promises that nothing was changed. */
const RETRIED: ReadonlySet<KeystileErrorCode | undefined> = new Set([
  "STORE_BUSY",
  "STORE_FULL",
  "STORE_READ_ONLY",
] as const);

/** Credits, and the keys that they belong to. A key may have no credits but a reserve in the store. */
export interface CreditCount {
  readonly credits: number;
  readonly keys: number;
}

export interface CreditReturns {
  /** Returns credits and the reserve of the same lease. Returns of one key run one after the other. */
  add(ref: KeyRef, generation: number, credits: number): void;
  /** Retries what waits for this key, if anything, now. */
  retry(ref: KeyRef): void;
  /** Returns in flight and waiting. 0: everything is back, or given up. */
  size(): number;
  /** Whether so many returns are waiting that no new leases should begin. */
  isBlocked(): boolean;
  /** Resolves when the next attempt has ended, successfully or not. */
  settled(): Promise<void>;
  /** What has not been returned yet. */
  outstanding(): CreditCount;
  /**
   * What was given up since the start: after an error that does not say whether the store took it, or because the store
   * was closed.
   */
  forfeited(): CreditCount;
  /** The latest error of an attempt. */
  lastError(): unknown;
}

interface Portion {
  readonly generation: number;
  readonly credits: number;
}

/** @param holder returns the id under which the store knows this process */
export function creditReturns(store: Store, holder: () => string): CreditReturns {
  const sending = new Map<KeyRef, Portion>();
  /** Returns that failed and wait for the next round, or that came while another of their key was in flight. */
  const queued = new Map<KeyRef, Portion>();
  let listeners: (() => void)[] = [];
  let forfeited: CreditCount = { credits: 0, keys: 0 };
  let lastError: unknown;
  let isStoreClosed = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let pause = MIN_PAUSE;
  /** {@link CreditReturns.size} when the last round began. */
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
  /** A closed store never reopens. */
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
    const end = (next: () => void): void => {
      sending.delete(ref);
      next();
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
    // A copy, because a return that fails at once goes back to the end of the queue.
    for (const ref of firstKeys(queued, MAX_IN_FLIGHT - sending.size)) retry(ref);
    schedule();
    settle();
  };
  /** One timer for all, and none while nothing waits. */
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

/** A timer that does not keep the process alive. */
export function startTimer(work: () => void, ms: number): ReturnType<typeof setTimeout> {
  const timer = setTimeout(work, ms);
  (timer as { unref?: () => void }).unref?.();
  return timer;
}

/** Of two generations the newer: the store ignores the older one. */
function merge(a: Portion, b: Portion): Portion {
  if (a.generation !== b.generation) return a.generation > b.generation ? a : b;
  // Balances have the same bound.
  return { generation: a.generation, credits: Math.min(Number.MAX_SAFE_INTEGER, a.credits + b.credits) };
}

function firstKeys(portions: ReadonlyMap<KeyRef, Portion>, max: number): KeyRef[] {
  const refs: KeyRef[] = [];
  for (const ref of portions.keys()) {
    if (refs.length >= max) break;
    refs.push(ref);
  }
  return refs;
}

function sum(portions: Iterable<Portion>): number {
  let credits = 0;
  for (const portion of portions) credits += portion.credits;
  return credits;
}
