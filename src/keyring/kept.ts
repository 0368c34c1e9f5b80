/**
 * Answers that take long, such as orders of all keys by what is left of their credits: worked out once for all who
 * accept their age, those who ask meanwhile among them.
 */

/** An answer, and when it was begun. */
export interface Dated<T> {
  /** Unix time, milliseconds. */
  readonly asOf: number;
  readonly value: T;
}

/** Answers of a workspace that are kept: of each a few hundred ids at most. */
const MAX = 64;

/** What is being worked out, or was, and the answer before it. */
interface Entry {
  readonly asOf: number;
  readonly answer: Promise<Dated<unknown>>;
  /** Resolves once it was worked out, or failed. */
  readonly ended: Promise<void>;
  isRunning: boolean;
  settled: Dated<unknown> | undefined;
}

/** @param clock Unix time, milliseconds */
export function createKept(clock: () => number) {
  const entries = new Map<string, Entry>();
  const begin = (name: string, make: () => Promise<unknown>, before: Dated<unknown> | undefined): Entry => {
    const asOf = clock();
    const answer = make().then((value) => (entry.settled = { asOf, value }));
    const ended = answer.then(
      () => void (entry.isRunning = false),
      () => void entries.delete(name),
    );
    const entry: Entry = { asOf, answer, ended, isRunning: true, settled: before };
    entries.delete(name);
    entries.set(name, entry);
    // One that runs stays, or the next would begin beside it.
    for (const [oldest, { isRunning }] of entries) if (entries.size > MAX && !isRunning) entries.delete(oldest);
    return entry;
  };
  return {
    /**
     * Works an answer out, or returns the one that is kept. Answers of one name are worked out one at a time: a caller
     * for whom the kept answer is too old waits until the running computation ends, and then for its own.
     * @param name names the question, with every input that decides the answer
     * @param maxAge milliseconds; 0: it is worked out for this call alone, also beside others
     */
    async read<T>(name: string, maxAge: number, make: () => Promise<T>): Promise<Dated<T>> {
      const now = clock();
      if (maxAge === 0) return { asOf: now, value: await make() };
      // A clock that was set back says nothing of the age of an answer.
      const isFresh = ({ asOf }: Pick<Entry, "asOf">): boolean => asOf <= now && now - asOf <= maxAge;
      const found = entries.get(name);
      // Sooner than what is being worked out.
      if (found?.settled !== undefined && isFresh(found.settled)) return found.settled as Dated<T>;
      if (found !== undefined && !isFresh(found)) await found.ended;
      // Never two computations at once: the first caller that waited begins the next one, and all others share it.
      const then = entries.get(name);
      const isNext = then !== undefined && (then !== found || isFresh(then));
      const entry = isNext ? then : begin(name, make, found?.settled);
      return entry.answer as Promise<Dated<T>>;
    },
  };
}

export type Kept = ReturnType<typeof createKept>;
