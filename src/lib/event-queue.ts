/**
 * Delivers events to a listener after the call that they are about has returned. Never delays or fails the call: too
 * many events are dropped and counted.
 */

import { type Check, integer } from "./check-options.js";
import { isThenable } from "./thenable.js";

/** How events for a listener are queued. */
export interface QueueOptions {
  /**
   * Most events that wait for the next turn of the event loop, 1…10_000_000, default 10_000, some 200 bytes each: more
   * than this in one turn, and the rest are dropped and counted.
   */
  readonly queue?: number | undefined;
  /**
   * Milliseconds that `close` waits for promises that the listener has returned, 0…600_000, default 5_000. At most
   * 100,000 of them are waited for.
   */
  readonly closeTimeout?: number | undefined;
}

/** The bounds of {@link QueueOptions}. */
export const QUEUE_OPTIONS = {
  queue: integer(1, 10_000_000),
  closeTimeout: integer(0, 600_000),
} as const satisfies Record<keyof QueueOptions, Check>;

const MAX_PENDING = 100_000;

/** Queues events and delivers them in a later turn of the event loop, in order. */
export function createEventQueue<E>(
  listener: (event: E) => unknown,
  { queue = 10_000, closeTimeout = 5_000 }: QueueOptions = {},
) {
  const pending = new Set<Promise<unknown>>();
  const track = (returned: PromiseLike<unknown>): void => {
    const settled: Promise<unknown> = Promise.resolve(returned)
      .catch(() => void dropped++)
      .finally(() => pending.delete(settled));
    if (pending.size < MAX_PENDING) pending.add(settled);
  };
  let waiting: E[] = [];
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
    emit(event: E): void {
      if (waiting.length >= queue) {
        dropped++;
        return;
      }
      if (waiting.push(event) === 1) setTimeout(deliver, 0);
    },
    /** Events dropped because too many waited, or the listener threw or rejected. */
    dropped: (): number => dropped,
    /**
     * Delivers the waiting events now, and waits for what the listener has returned, for as long as the options say.
     */
    async flush(): Promise<void> {
      deliver();
      if (pending.size === 0) return;
      let timer: ReturnType<typeof setTimeout> | undefined;
      const timeout = new Promise((resolve) => (timer = setTimeout(resolve, closeTimeout)));
      await Promise.race([Promise.all(pending), timeout]);
      clearTimeout(timer);
    },
  };
}

/** Events on their way to a listener. */
export type EventQueue<E> = ReturnType<typeof createEventQueue<E>>;
