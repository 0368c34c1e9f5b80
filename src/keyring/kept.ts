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

export interface Kept {
  /**
   * @param name of what is asked for, with all that decides it
   * @param maxAge milliseconds; 0: it is worked out for this call alone
   */
  read<T>(name: string, maxAge: number, make: () => Promise<T>): Promise<Dated<T>>;
}

/** Answers of a workspace that are kept: of each a few hundred ids at most. */
const MAX = 64;

/** What is being worked out, or was, and the answer before it. */
interface Entry {
  readonly made: Dated<Promise<unknown>>;
  settled: Dated<unknown> | undefined;
}

/** @param clock Unix time, milliseconds */
export function createKept(clock: () => number): Kept {
  const entries = new Map<string, Entry>();
  return {
    async read<T>(name: string, maxAge: number, make: () => Promise<T>): Promise<Dated<T>> {
      const now = clock();
      if (maxAge === 0) return { asOf: now, value: await make() };
      // A clock that was set back says nothing of the age of an answer.
      const isFresh = ({ asOf }: Dated<unknown>): boolean => asOf <= now && now - asOf <= maxAge;
      let entry = entries.get(name);
      // Sooner than what is being worked out.
      if (entry?.settled !== undefined && isFresh(entry.settled)) return entry.settled as Dated<T>;
      if (entry === undefined || !isFresh(entry.made)) {
        entry = { made: { asOf: now, value: make() }, settled: entry?.settled };
        entries.delete(name);
        entries.set(name, entry);
        for (const oldest of entries.keys()) if (entries.size > MAX) entries.delete(oldest);
      }
      const { made } = entry;
      try {
        return (entry.settled = { asOf: made.asOf, value: (await made.value) as T });
      } catch (error) {
        if (entries.get(name) === entry) entries.delete(name);
        throw error;
      }
    },
  };
}
