/** Hands outcomes to a listener after the answer. Rulings A8, C7, G4: dropped and counted when too many, never in an answer's way. */

import type { VerificationCode } from "../contracts/types.js";
import { isThenable } from "../lib/thenable.js";

/** One verification, for analytics. Holds no key, no hash, no address. */
export interface OutcomeEvent {
  /** The call's instant, Unix milliseconds. */
  readonly time: number;
  readonly code: VerificationCode;
  /** The request's labels; where one held the presented key, that part reads `[key]`. */
  readonly tags: readonly string[];
  /** Absent with NOT_FOUND, like the next three. */
  readonly keyId?: string;
  readonly apiId?: string;
  readonly workspaceId?: string;
  readonly identityId?: string;
  /** Credits taken; 0 unless VALID on a limited key. */
  readonly spent: number;
  /** The limiter could not answer and the configured fallback did (ruling C7). */
  readonly degraded: boolean;
  /**
   * Refill boundaries that this call passed over without a refill: the clock jumped ahead by more than 400 daily or 24 monthly ones, or
   * the key was idle for so long. Absent: none.
   */
  readonly forfeitedRefills?: number | undefined;
}

/** Events that wait at most; further ones are dropped and counted. */
const MAX_WAITING_EVENTS = 10_000;

export interface Outcomes {
  emit(event: OutcomeEvent): void;
  /** Events dropped: too many waited, or the listener threw or rejected. */
  dropped(): number;
  /** Delivers what waits. */
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
        // An async function is a listener too; its rejection must not end the process.
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

/** Labels with the presented key blotted out (ruling G4). */
export function redact(tags: readonly string[], key: string): readonly string[] {
  return tags.some((tag) => tag.includes(key)) ? tags.map((tag) => tag.replaceAll(key, "[key]")) : tags;
}
