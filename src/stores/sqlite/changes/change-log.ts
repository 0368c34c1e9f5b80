/**
 * Tells what changed: in this process right after the commit, in others through a log in the file. Port clauses 8 and 15.
 *
 * Why a log beside `PRAGMA data_version`: that number moves with every commit of another connection, spends included. The log says
 * which keys changed, so a spend elsewhere flushes nobody's memory.
 */
import type { Change } from "../../../contracts/store.js";
import { type Handle, select } from "../connection/handle.js";

/** Changes that were written in a transaction, to be told once it is durable. */
export interface Recorded {
  readonly changes: readonly Change[];
  readonly first: number;
  readonly last: number;
}

export interface ChangeLog {
  /** Writes changes to the log, inside the transaction that makes them. `undefined`: there was nothing to tell. */
  record(changes: readonly Change[]): Recorded | undefined;
  /** Tells the listeners of this process, after the commit. */
  notify(recorded: Recorded | undefined): void;
  /** Tells the listeners what other connections committed since the last time. */
  poll(): void;
  /** Whether all changes up to this `data_version` were told. */
  isCaughtUp(version: number | undefined): boolean;
  listen(listener: (change: Change) => void): () => void;
}

/** Entries kept. Who has fallen behind further forgets everything it knows. */
const KEPT = 10_000;
/** More digests than this in one transaction are told as "all". */
const MAX_DIGESTS = 1_000;

/** @param isShared others may write through the same handle, which `data_version` does not show */
export function createChangeLog(handle: Handle, isShared: boolean): ChangeLog {
  const insert = handle.prepare("INSERT INTO keystile_changes (what) VALUES (?)");
  const prune = handle.prepare("DELETE FROM keystile_changes WHERE seq <= ?");
  const since = select<{ seq: number; what: string }>(
    handle,
    "SELECT seq, what FROM keystile_changes WHERE seq >= ? ORDER BY seq",
  );
  const dataVersion = select<{ data_version: number }>(handle, "PRAGMA data_version");
  const newestEntry = select<{ seq: number }>(handle, "SELECT max(seq) AS seq FROM keystile_changes");
  const newest = () => Number(newestEntry.get()?.seq);
  const listeners = new Set<(change: Change) => void>();
  // In this order: what is committed between the two reads is read again, not missed.
  let version = dataVersion.get()?.data_version;
  let seen = newest();

  const pass = (change: Change) => {
    for (const listener of listeners) {
      try {
        listener(change);
      } catch (error) {
        // The change is durable and the others must hear of it: the listener's fault rises by itself.
        queueMicrotask(() => {
          throw error;
        });
      }
    }
  };
  return {
    record(changes) {
      const compacted = compact(changes);
      let first = 0;
      let last = 0;
      for (const change of compacted) {
        last = Number(insert.run(toText(change)).lastInsertRowid);
        first ||= last;
      }
      if (last === 0) return undefined;
      prune.run(last - KEPT);
      return { changes: compacted, first, last };
    },
    notify(recorded) {
      if (recorded === undefined) return;
      // Entries of others in between are left for `ask`, which then repeats ours: telling twice does no harm.
      if (recorded.first === seen + 1) seen = recorded.last;
      recorded.changes.forEach(pass);
    },
    poll() {
      const now = dataVersion.get()?.data_version;
      if (now === version && !isShared) return;
      const entries = since.all(seen);
      // The entry seen last must still be there: otherwise the log was pruned past it, or the file is an older one.
      const isWhole = Number(entries[0]?.seq) === seen;
      seen = isWhole ? Number(entries.at(-1)?.seq) : newest();
      version = now;
      if (isWhole) entries.slice(1).forEach(({ what }) => pass(toChange(what)));
      else pass("all");
    },
    isCaughtUp: (at) => at === version && !isShared,
    listen(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
}

/** How the log writes a change. */
function toText(change: Change): string {
  if (change === "all") return "*";
  return change === "created" ? "+" : `=${change.digest}`;
}

function toChange(text: string): Change {
  if (text === "*") return "all";
  return text === "+" ? "created" : { digest: text.slice(1) };
}

/** Each change once; "all" swallows the rest. */
function compact(changes: readonly Change[]): readonly Change[] {
  if (changes.length <= 1) return changes;
  const texts = new Set(changes.map(toText));
  return texts.has("*") || texts.size > MAX_DIGESTS ? ["all"] : [...texts].map(toChange);
}
