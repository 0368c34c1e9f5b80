/**
 * Ends leases in the store, and tries again what failed.
 *
 * Why after any error: ending a lease twice changes nothing, so that an end whose outcome is unknown may be repeated.
 * Only a closed store never takes anything back.
 *
 * Why memory is bounded: when too many ends wait, {@link CreditReturns.isBlocked} is true and no new leases begin.
 */
import { isKeystileError } from "../contracts/errors.js";
import type { KeyRef, LeaseReturn, Store } from "../contracts/store.js";
import type { MaybePromise } from "../contracts/types.js";
import { startTimer } from "../lib/timers.js";
import { isThenable } from "../lib/thenable.js";

/** Most ends in flight at once. */
export const MAX_IN_FLIGHT = 1_000;

/**
 * Milliseconds between two rounds of attempts: doubles after each round in which the number of waiting ends did not
 * shrink.
 */
const MIN_PAUSE = 10;
const MAX_PAUSE = 1_000;

/** Credits, and the leases that they belong to. A lease may have no credits but a reserve in the store. */
export interface CreditCount {
  readonly credits: number;
  readonly leases: number;
}

/** A lease that has ended, its key, and the credits that it had left. */
export interface EndedLease extends LeaseReturn {
  readonly ref: KeyRef;
  readonly credits: number;
}

export function creditReturns(store: Store) {
  const sending = new Set<EndedLease>();
  /** Those that failed and wait for the next round. */
  const queued = new Set<EndedLease>();
  let listeners: (() => void)[] = [];
  let forfeited: CreditCount = { credits: 0, leases: 0 };
  let lastError: unknown;
  let isStoreClosed = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let pause = MIN_PAUSE;
  /** {@link CreditReturns.size} when the last round began. */
  let lastSize = 0;

  const size = (): number => queued.size + sending.size;
  const forfeit = (ended: EndedLease): void => {
    forfeited = { credits: forfeited.credits + ended.credits, leases: forfeited.leases + 1 };
  };
  const settle = (): void => {
    if (size() === 0) pause = MIN_PAUSE;
    const waiting = listeners;
    listeners = [];
    for (const resolve of waiting) resolve();
  };
  const fail = (ended: EndedLease, error: unknown): void => {
    lastError = error;
    if (isStoreClosed) forfeit(ended);
    else queued.add(ended);
    if (isKeystileError(error) && error.code === "STORE_CLOSED") stop();
    else schedule();
  };
  /** A closed store never reopens. */
  const stop = (): void => {
    isStoreClosed = true;
    clearTimeout(timer);
    for (const ended of queued) forfeit(ended);
    queued.clear();
    settle();
  };
  const send = (ended: EndedLease): Promise<void> | undefined => {
    const { ref, holder, spent } = ended;
    let returning: MaybePromise<void>;
    try {
      returning = store.returnCredits(ref, { holder, spent });
    } catch (error) {
      fail(ended, error);
      return undefined;
    }
    if (!isThenable(returning)) return undefined;
    sending.add(ended);
    const end = (next?: () => void): void => {
      sending.delete(ended);
      next?.();
      settle();
    };
    return Promise.resolve(returning).then(
      () => end(),
      (error: unknown) => end(() => fail(ended, error)),
    );
  };
  const resend = (all: readonly EndedLease[]): void => {
    for (const ended of all) {
      queued.delete(ended);
      void send(ended);
    }
  };
  const round = (): void => {
    timer = undefined;
    pause = size() < lastSize ? MIN_PAUSE : Math.min(2 * pause, MAX_PAUSE);
    lastSize = size();
    resend([...queued].slice(0, Math.max(0, MAX_IN_FLIGHT - sending.size)));
    schedule();
    settle();
  };
  /** One timer for all, and none while nothing waits. */
  const schedule = (): void => {
    if (queued.size > 0 && timer === undefined) timer = startTimer(round, pause);
  };

  return {
    /** Ends a lease in the store. @returns what resolves once that was tried, whether or not it succeeded */
    add(ended: EndedLease): Promise<void> | undefined {
      if (!isStoreClosed) return send(ended);
      forfeit(ended);
      return undefined;
    },
    /** Retries what waits for this key, if anything, now. */
    retry: (ref: KeyRef): void => resend(queued.size === 0 ? [] : [...queued].filter((ended) => ended.ref === ref)),
    /** Ends in flight and waiting. 0: everything is back, or given up. */
    size,
    /** Whether so many ends are waiting that no new leases should begin. */
    isBlocked: (): boolean => queued.size >= MAX_IN_FLIGHT,
    /** Resolves when the next attempt has ended, successfully or not. */
    settled: (): Promise<void> => new Promise((resolve) => listeners.push(resolve)),
    /** What has not been returned yet. */
    outstanding(): CreditCount {
      let credits = 0;
      for (const leases of [queued, sending]) for (const ended of leases) credits += ended.credits;
      return { credits, leases: size() };
    },
    /** What was given up since the start, because the store was closed. */
    forfeited: (): CreditCount => forfeited,
    /** The latest error of an attempt. */
    lastError: (): unknown => lastError,
  };
}

export type CreditReturns = ReturnType<typeof creditReturns>;
