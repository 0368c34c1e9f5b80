/**
 * Change notifications: to listeners in this process right after the commit, to other processes through a log in the
 * file.
 *
 * Why a log beside `PRAGMA data_version`: that number changes with every commit of another connection, spends included.
 * The log says which keys changed, so that a spend elsewhere does not flush caches.
 */
import type { Change, RowChange } from "../../../contracts/store.js";
import { createListeners } from "../../listeners.js";
import type { Connection } from "../connection/connection.js";
import { select } from "../connection/handle.js";

/**
 * What the log tells: a row that keys refer to as `all`, since older processes that share the file read the log too.
 */
export type LoggedChange = Exclude<Change, RowChange>;

/**
 * Changes written in a transaction, to be notified once it is durable. `first` and `last` are their `seq` in the log.
 */
export interface Recorded {
  readonly changes: readonly LoggedChange[];
  readonly first: number;
  readonly last: number;
}

export interface ChangeLog {
  /** Writes changes to the log, inside the transaction that makes them. `undefined`: there were none. */
  record(changes: readonly LoggedChange[]): Recorded | undefined;
  /** Notifies the listeners of this process. Call after the commit. */
  notify(recorded: Recorded | undefined): void;
  /** Notifies the listeners of what other connections committed since the last poll. */
  poll(): void;
  /** Whether listeners were notified of all changes up to this `data_version`. */
  isCaughtUp(version: number | undefined): boolean;
  listen(listener: (change: LoggedChange) => void): () => void;
}

/** Entries kept. A process that has fallen further behind clears its caches. */
const KEPT = 10_000;
/** A transaction with more digests than this is logged as "all". */
const MAX_DIGESTS = 1_000;

/**
 * Asks the connection for its `assertSchema` when others have committed, before their changes are read: if it throws,
 * they are read by the next poll.
 */
export function createChangeLog({ handle, isShared, dataVersion, assertSchema }: Connection): ChangeLog {
  const insert = handle.prepare("INSERT INTO keystile_changes (what) VALUES (?)");
  const prune = handle.prepare("DELETE FROM keystile_changes WHERE seq <= ?");
  const since = select<{ seq: number; what: string }>(
    handle,
    "SELECT seq, what FROM keystile_changes WHERE seq >= ? ORDER BY seq",
  );
  const newestEntry = select<{ seq: number }>(handle, "SELECT max(seq) AS seq FROM keystile_changes");
  const newest = () => Number(newestEntry.get()?.seq);
  const listeners = createListeners<LoggedChange>();
  // In this order, so that a commit between the two reads is read again instead of missed.
  let version = dataVersion();
  let seen = newest();

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
      // With entries of other connections in between, `poll` reads from there and repeats ours, which is harmless.
      if (recorded.first === seen + 1) seen = recorded.last;
      listeners.notify(recorded.changes);
    },
    poll() {
      const now = dataVersion();
      if (now === version && !isShared) return;
      assertSchema();
      const entries = since.all(seen);
      // If the last entry seen is missing, the log was pruned past it, or the file was replaced by an older copy.
      const isWhole = Number(entries[0]?.seq) === seen;
      seen = isWhole ? Number(entries.at(-1)?.seq) : newest();
      version = now;
      listeners.notify(isWhole ? entries.slice(1).map(({ what }) => toChange(what)) : ["all"]);
    },
    isCaughtUp: (at) => at === version && !isShared,
    listen: listeners.add,
  };
}

/** A change as the log stores it. */
function toText(change: LoggedChange): string {
  if (change === "all") return "*";
  return change === "created" ? "+" : `=${change.digest}`;
}

function toChange(text: string): LoggedChange {
  if (text === "*") return "all";
  return text === "+" ? "created" : { digest: text.slice(1) };
}

/** Removes duplicates; "all" replaces everything else. */
function compact(changes: readonly LoggedChange[]): readonly LoggedChange[] {
  if (changes.length <= 1) return changes;
  const texts = new Set(changes.map(toText));
  return texts.has("*") || texts.size > MAX_DIGESTS ? ["all"] : [...texts].map(toChange);
}
