/** Groups calls: those of one turn of the event loop are one statement. */
import { inNextTurn } from "../../lib/after-input.js";
import { clearTimeout, setTimeout } from "../../lib/timers.js";

/** Adds a call to the next group. @param ms until it rejects, if that is less than the time of every call */
export type Grouped<I, O> = (item: I, ms?: number) => Promise<O>;

export interface GroupOptions {
  /** Most calls in one statement. */
  readonly maxSize: number;
  /**
   * A group waits until the one before it has settled, so that calls collect meanwhile: for writes, of which each costs
   * the server a commit. Absent: groups do not wait for each other.
   */
  readonly oneAtATime?: {
    /** Milliseconds after which a call rejects, its wait included. */
    readonly timeout: number;
    /** What it rejects with. */
    readonly late: (isSent: boolean) => Error;
  };
}

interface Member<I, O> {
  readonly item: I;
  readonly resolve: (result: O) => void;
  readonly reject: (error: Error) => void;
  timer?: ReturnType<typeof setTimeout>;
}

/** @param send returns one result per item, in order; what it rejects with rejects the whole group */
export function createGroups<I, O>(
  send: (items: readonly I[]) => Promise<readonly O[]>,
  { maxSize, oneAtATime }: GroupOptions,
): Grouped<I, O> {
  let queue: Member<I, O>[] = [];
  let isScheduled = false;
  let inFlight = 0;

  const sendNext = async (): Promise<void> => {
    const group = queue.slice(0, maxSize);
    queue = queue.slice(group.length);
    inFlight++;
    try {
      const results = await send(group.map(({ item }) => item));
      for (const [i, { resolve }] of group.entries()) resolve(results[i] as O);
    } catch (error) {
      for (const { reject } of group) reject(error as Error);
    } finally {
      for (const { timer } of group) clearTimeout(timer);
      inFlight--;
    }
    if (oneAtATime && queue.length > 0) schedule();
  };
  const flush = (): void => {
    isScheduled = false;
    if (oneAtATime) {
      if (inFlight === 0 && queue.length > 0) void sendNext();
    } else while (queue.length > 0) void sendNext();
  };
  const schedule = (): void => {
    if (isScheduled) return;
    isScheduled = true;
    // After the promises of this turn have run: they may add calls.
    inNextTurn(flush);
  };
  return (item, ms) =>
    new Promise((resolve, reject) => {
      const member: Member<I, O> = { item, resolve, reject };
      queue.push(member);
      if (oneAtATime) {
        member.timer = setTimeout(() => {
          const at = queue.indexOf(member);
          // One that was not sent never will be.
          if (at >= 0) queue.splice(at, 1);
          reject(oneAtATime.late(at < 0));
        }, ms ?? oneAtATime.timeout);
      }
      if (!oneAtATime || inFlight === 0) schedule();
    });
}
