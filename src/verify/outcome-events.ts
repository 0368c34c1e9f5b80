/**
 * Delivers outcome events to a listener after the verification has returned. Never delays or fails a verification: too
 * many events are dropped and counted.
 */

import type { VerificationCode } from "../contracts/types.js";
import { type Check, integer } from "../lib/check-options.js";
import { isThenable } from "../lib/thenable.js";

/** One verification, for analytics. Contains no key, hash or address. */
export interface OutcomeEvent {
  /** Time of the call, Unix milliseconds. */
  readonly time: number;
  readonly code: VerificationCode;
  /** The request's tags; occurrences of the presented key in them read `[key]`. */
  readonly tags: readonly string[];
  /** Absent with NOT_FOUND, like the next two; `identityId` also for a key without identity. */
  readonly keyId?: string;
  readonly apiId?: string;
  readonly workspaceId?: string;
  readonly identityId?: string;
  /** Your own id of the identity. Absent where `identityId` is. */
  readonly externalId?: string;
  /** Credits taken; 0 unless the outcome is VALID and the key has a balance. */
  readonly spent: number;
  /** Whether the limiter failed and its fallback decided. */
  readonly degraded: boolean;
  /**
   * Buckets of the workspace that held most of the limiter's memory, all of which refused, that gave way to new ones of
   * this key. Absent: none.
   */
  readonly displacedBuckets?: number | undefined;
  /**
   * Refill boundaries that this call skipped without a refill: more than 400 daily or 24 monthly ones were due at once,
   * because the clock jumped ahead or the key was idle for that long. Absent: none.
   */
  readonly forfeitedRefills?: number | undefined;
}

/** How outcome events are queued. */
export interface OutcomeOptions {
  /**
   * Most events that wait for the next turn of the event loop, 1…10_000_000, default 10_000, some 200 bytes each: more
   * verifications than this in one turn, and the rest are dropped and counted (`outcomesDropped`).
   */
  readonly queue?: number | undefined;
  /**
   * Milliseconds that `close` waits for promises that the listener has returned, 0…600_000, default 5_000. At most
   * 100,000 of them are waited for.
   */
  readonly closeTimeout?: number | undefined;
}

/** The bounds of {@link OutcomeOptions}. */
export const OUTCOME_OPTIONS = {
  queue: integer(1, 10_000_000),
  closeTimeout: integer(0, 600_000),
} as const satisfies Record<keyof OutcomeOptions, Check>;

const MAX_PENDING = 100_000;

export interface Outcomes {
  emit(event: OutcomeEvent): void;
  /** Events dropped because too many waited, or the listener threw or rejected. */
  dropped(): number;
  /** Delivers the waiting events now, and waits for what the listener has returned, for as long as the options say. */
  close(): Promise<void>;
}

/** Queues events and delivers them in a later turn of the event loop, in order. */
export function createOutcomes(
  listener: (event: OutcomeEvent) => unknown,
  { queue = 10_000, closeTimeout = 5_000 }: OutcomeOptions = {},
): Outcomes {
  const pending = new Set<Promise<unknown>>();
  const track = (returned: PromiseLike<unknown>): void => {
    const settled: Promise<unknown> = Promise.resolve(returned)
      .catch(() => void dropped++)
      .finally(() => pending.delete(settled));
    if (pending.size < MAX_PENDING) pending.add(settled);
  };
  let waiting: OutcomeEvent[] = [];
  let dropped = 0;
  const deliver = (): void => {
    const events = waiting;
    waiting = [];
    for (const event of events) {
      try {
        const returned = listener(event);
        // The listener may be async; its rejection must not end the process.
        if (isThenable(returned)) track(returned);
      } catch {
        dropped++;
      }
    }
  };
  return {
    emit(event) {
      if (waiting.length >= queue) {
        dropped++;
        return;
      }
      if (waiting.push(event) === 1) setTimeout(deliver, 0);
    },
    dropped: () => dropped,
    async close() {
      deliver();
      if (pending.size === 0) return;
      let timer: ReturnType<typeof setTimeout> | undefined;
      const timeout = new Promise((resolve) => (timer = setTimeout(resolve, closeTimeout)));
      await Promise.race([Promise.all(pending), timeout]);
      clearTimeout(timer);
    },
  };
}

/** Tags with the presented key replaced. */
export function redact(tags: readonly string[], key: string): readonly string[] {
  return tags.some((tag) => tag.includes(key)) ? tags.map((tag) => tag.replaceAll(key, "[key]")) : tags;
}
