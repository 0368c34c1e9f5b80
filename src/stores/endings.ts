/** How reservations ended, in memory, and what a settlement that finds none says. Store clause 27. */
import type { Settlement } from "../contracts/store.js";
import type { Ending } from "../credits/account.js";

/** Endings that each new reservation looks at, to forget those that are over. */
export const FORGOTTEN_PER_WRITE = 8;

/** @param how a reservation ended that is not open; `undefined`: not known */
export function endedAs(how: Ending | undefined): Settlement {
  return { settled: false, reason: how ?? "unknown" };
}

export function createEndings() {
  const byId = new Map<string, { readonly how: Ending; readonly until: number }>();
  return {
    find: (id: string): Ending | undefined => byId.get(id)?.how,
    add: (id: string, ending: { readonly how: Ending; readonly until: number }): void => void byId.set(id, ending),
    /** Forgets some of those that are over at `now`. */
    forget(now: number): void {
      // Those that stay go to the end, so that all are looked at in turn.
      let left = Math.min(FORGOTTEN_PER_WRITE, byId.size);
      for (const [id, ending] of byId) {
        if (left-- === 0) return;
        byId.delete(id);
        if (ending.until > now) byId.set(id, ending);
      }
    },
  };
}
