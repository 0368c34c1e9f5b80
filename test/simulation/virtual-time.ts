/**
 * Time inside a simulation. While one runs, the globals that code under test could take time or chance from are
 * replaced: timers wait until the scheduler fires them, clocks stand still until it moves them, and chance is an error.
 */

/** A timer that some client set. */
export interface Timer {
  readonly owner: object;
  /** On the virtual monotonic clock, milliseconds. */
  readonly due: number;
  readonly work: () => void;
}

export class VirtualTime {
  /** Virtual monotonic clock, milliseconds. */
  now = 0;
  /** The client whose code is running: timers that are set belong to it. `undefined`: timers are real. */
  owner: object | undefined;
  /** Pieces of work that wait for the end of the turn. */
  immediates = 0;
  /** A source of chance for code that needs one; without it chance is an error. */
  chance: (() => number) | undefined;
  readonly #timers = new Set<Timer>();

  /** The next timer to fire, of one owner or of all; equal times in the order in which they were set. */
  next(owner?: object): Timer | undefined {
    let first: Timer | undefined;
    for (const timer of this.#timers) {
      if (owner !== undefined && timer.owner !== owner) continue;
      if (first === undefined || timer.due < first.due) first = timer;
    }
    return first;
  }

  /** Lets time pass until a timer is due, and runs it. */
  fire(timer: Timer): void {
    this.#timers.delete(timer);
    this.now = Math.max(this.now, timer.due);
    this.owner = timer.owner;
    timer.work();
  }

  /** Removes the timers of a client that is no more. */
  drop(owner: object): void {
    for (const timer of this.#timers) if (timer.owner === owner) this.#timers.delete(timer);
  }

  /** Replaces the globals; the result puts them back. */
  install(): () => void {
    const { setTimeout, clearTimeout, setImmediate } = globalThis;
    const dateNow = Date.now;
    const random = Math.random;
    const set = (work: (...given: unknown[]) => void, ms = 0, ...given: unknown[]): unknown => {
      if (this.owner === undefined) return setTimeout(work, ms, ...given);
      const timer = { owner: this.owner, due: this.now + ms, work: () => work(...given), unref: () => timer };
      this.#timers.add(timer);
      return timer;
    };
    const clear = (timer: unknown): void => {
      if (!this.#timers.delete(timer as Timer)) clearTimeout(timer as NodeJS.Timeout);
    };
    const setNext = (work: (...given: unknown[]) => void, ...given: unknown[]): unknown => {
      this.immediates++;
      return setImmediate(() => {
        this.immediates--;
        work(...given);
      });
    };
    globalThis.setImmediate = setNext as unknown as typeof setImmediate;
    globalThis.setTimeout = set as unknown as typeof setTimeout;
    globalThis.clearTimeout = clear;
    const timers = { setTimeout: set, clearTimeout: clear, inNextTurn: setNext };
    Object.assign(globalThis, { [Symbol.for("keystile.timers")]: timers });
    Date.now = () => this.now;
    Math.random = () => {
      if (this.chance !== undefined) return this.chance();
      throw new Error("chance outside the scheduler");
    };
    Object.defineProperty(performance, "now", { value: () => this.now, configurable: true });
    return () => {
      globalThis.setTimeout = setTimeout;
      globalThis.clearTimeout = clearTimeout;
      globalThis.setImmediate = setImmediate;
      Reflect.deleteProperty(globalThis, Symbol.for("keystile.timers"));
      Date.now = dateNow;
      Math.random = random;
      Reflect.deleteProperty(performance, "now");
    };
  }
}

// Captured before any simulation runs.
const { setImmediate: runNextTurn } = globalThis;

/**
 * Resolves once all that can run without the scheduler has run: every microtask, and what waits for the end of the
 * turn.
 */
export function settled(): Promise<void> {
  return new Promise((resolve) => void runNextTurn(resolve));
}
