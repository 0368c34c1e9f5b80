/** How the store writes rows: `insertKeys` and `write`. */
import type { AuditEntry } from "../../contracts/audit.js";
import { timeOfWrites, withCredits } from "../../contracts/row-changes.js";
import type { Store, WrittenBalance } from "../../contracts/store.js";
import { type EncodedKey, encodeKeys } from "../codec/encoded-keys.js";
import { assertRecord, knownAs, makeSpaceFor } from "../spend-once.js";
import type { LoggedChange } from "./changes/change-log.js";
import type { Locks } from "./connection/lock-queue.js";
import type { Transact } from "./connection/connection.js";
import { afterTurn } from "./connection/waiting.js";
import type { SqliteTables } from "./tables/open-tables.js";
import type { RunWrite } from "./tables/run-write.js";
import { RowWriter } from "./tables/write-rows.js";

/** Keys per transaction of `insertKeys`; the event loop runs between two. */
const BATCH = 1_000;
/** Up to so many keys the log stays as short as after single commits. */
const SMALL_BATCH = 250;
/** A transaction with more new digests than this is notified as "created". */
const MAX_NOTIFIED_DIGESTS = 16;

/** What writes run on. */
export interface WritingOptions {
  readonly locks: Locks;
  readonly runWrite: RunWrite;
  readonly short: Transact;
  /** For imports, which let the log grow longer. */
  readonly long: Transact;
}

export function createWriting(tables: SqliteTables, { locks, runWrite, short, long }: WritingOptions) {
  const { keyWriter, audit, creditDays, recorded } = tables;
  /**
   * {@link Store.insertKeys}, in one transaction.
   * @param deadline when to stop waiting for a lock
   */
  const insertEncoded = async (
    keys: readonly EncodedKey[],
    deadline: number,
    entry?: AuditEntry,
  ): Promise<boolean[]> => {
    let inserted: boolean[] = [];
    const insert = () => {
      inserted = keyWriter.insert(keys);
      const count = inserted.filter(Boolean).length;
      if (entry !== undefined && count > 0) audit.add([{ ...entry, count }]);
      return changesOf(keys.filter((_, i) => inserted[i]));
    };
    // A checkpoint of the long log takes 20 to 60 ms: small batches are those of whoever must not wait.
    await runWrite(keys.length > SMALL_BATCH ? long : short, insert, deadline);
    return inserted;
  };
  const methods: Pick<Store, "insertKeys" | "write"> = {
    async insertKeys(keys, entry) {
      locks.assertOpen();
      const inserted: boolean[] = [];
      const deadline = locks.writes.deadline();
      for (let start = 0; start < keys.length; start += BATCH) {
        if (start > 0) await new Promise<void>(afterTurn);
        inserted.push(...(await insertEncoded(encodeKeys(keys.slice(start, start + BATCH)), deadline, entry)));
      }
      return inserted;
    },
    async write(writes, entries = [], once) {
      if (once !== undefined) assertRecord(once.record);
      let balances: readonly WrittenBalance[] = [];
      const outcome = await runWrite(short, () => {
        const known = once && knownAs(recorded, once);
        if (known !== undefined) return known;
        const effects = creditDays.around(writes, timeOfWrites(writes, entries, once) ?? Date.now(), () =>
          new RowWriter(tables).apply(writes),
        );
        if (typeof effects === "string") return effects;
        if (once !== undefined) {
          if (!makeSpaceFor(recorded, once)) return "full";
          recorded.add(once.record);
        }
        ({ balances } = effects);
        audit.add(entries.map((entry, i) => (i === 0 ? withCredits(entry, writes, balances) : entry)));
        return effects.changes;
      });
      return outcome === "written" && balances.length > 0 ? balances : outcome;
    },
  };
  return { insertEncoded, methods };
}

/** The changes of new keys that a find could see. Keys without a digest can be found by their foreign digest. */
function changesOf(keys: readonly EncodedKey[]): LoggedChange[] {
  const digests: LoggedChange[] = [];
  for (const { digest } of keys) {
    if (digest !== null) digests.push({ digest });
    if (digests.length > MAX_NOTIFIED_DIGESTS) return ["created"];
  }
  return digests.length < keys.length ? [...digests, "created"] : digests;
}
