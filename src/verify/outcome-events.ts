/**
 * Delivers outcome events to a listener after the verification has returned. Never delays or fails a verification: too
 * many events are dropped and counted.
 */

import type { VerificationCode } from "../contracts/types.js";
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

/** Most events waiting; further ones are dropped and counted. */
const MAX_WAITING_EVENTS = 10_000;

export interface Outcomes {
  emit(event: OutcomeEvent): void;
  /** Events dropped because too many waited, or the listener threw or rejected. */
  dropped(): number;
  /** Delivers the waiting events now. */
  close(): void;
}

/** Queues events and delivers them in a later turn of the event loop, in order. */
export function createOutcomes(listener: (event: OutcomeEvent) => unknown): Outcomes {
  let waiting: OutcomeEvent[] = [];
  let dropped = 0;
  const deliver = (): void => {
    const events = waiting;
    waiting = [];
    for (const event of events) {
      try {
        const returned = listener(event);
        // The listener may be async; its rejection must not end the process.
        if (isThenable(returned)) Promise.resolve(returned).catch(() => void dropped++);
      } catch {
        dropped++;
      }
    }
  };
  return {
    emit(event) {
      if (waiting.length >= MAX_WAITING_EVENTS) {
        dropped++;
        return;
      }
      if (waiting.push(event) === 1) setTimeout(deliver, 0);
    },
    dropped: () => dropped,
    close: deliver,
  };
}

/** Tags with the presented key replaced. */
export function redact(tags: readonly string[], key: string): readonly string[] {
  return tags.some((tag) => tag.includes(key)) ? tags.map((tag) => tag.replaceAll(key, "[key]")) : tags;
}
