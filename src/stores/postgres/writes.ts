/** The writes of a store: rows are changed in one transaction, and other nodes are notified of the changed rows. */
import type { AuditEntry } from "../../contracts/audit.js";
import { isKeystileError, KeystileError } from "../../contracts/errors.js";
import { grantChangedBy, timeOfWrites } from "../../contracts/row-changes.js";
import type { KeyRef, NewKey, OnceRefusal, Write, WriteOnce, WrittenBalance } from "../../contracts/store.js";
import { assertRecord } from "../spend-once.js";
import type { Changes } from "./changes.js";
import { type Session, type Statement, writing } from "./client.js";
import { onceFields } from "./credits.js";
import { encodeEntityWrite } from "./entities.js";
import { encodeKeyRow } from "./keys.js";
import type { PostgresSettings } from "./options.js";
import { isStorable, jsonForPeople } from "./texts.js";

/** Keys per statement of `insertKeys`, and statements in flight. */
const BATCH = 1_000;
const IN_FLIGHT = 2;
/** A statement with more new digests than this is notified as "created". */
const MAX_NOTIFIED_DIGESTS = 16;

/** What a function returns that changes rows. */
interface Written {
  readonly outcome: "written" | "conflict" | "taken" | OnceRefusal;
  readonly balances?: readonly WrittenBalance[] | null;
  readonly xid?: string;
  readonly changes?: readonly string[];
  readonly inserted?: readonly number[];
  /** The API of a key to be inserted is deleted, and nothing was. */
  readonly apiDeleted?: true;
}

/** The methods of the port that change rows. */
export function createWrites(
  session: Session,
  changes: Changes,
  { schema, durability, auditRows, lockMs }: PostgresSettings & { readonly lockMs: number },
) {
  const change = (call: string): Statement => writing(`${schema}.${call}`, lockMs);
  const write = change("write_v2($1, $2, $3, $4::text::bigint)");
  const writeOnce = change("write_v3($1, $2, $3, $4::text::bigint, $5)");
  // The APIs are locked against being deleted before the function looks at anything.
  const insert = writing(
    `(CASE WHEN EXISTS (SELECT 1 FROM held WHERE deleted) THEN '{"apiDeleted":true}' ELSE ${schema}.insert_keys_v1(
        $1, $2, $3::text, $4::text::bigint, CASE WHEN $5::text = 'many' THEN ARRAY['created'] END
      )::text END)`,
    lockMs,
    `WITH held AS MATERIALIZED (
        SELECT deleted FROM ${schema}.entities
        WHERE kind = 'apis' AND id IN (SELECT pg_catalog.jsonb_array_elements_text($6::text::jsonb)) ORDER BY id FOR SHARE
      )
      `,
  );
  const adopt = change("adopt_v1($1, $2::text::bigint, $3)");

  /** Runs a statement that changes rows, and notifies of what it changed. */
  const changing = async (statement: Statement, rings: boolean, ...values: (string | null)[]): Promise<Written> => {
    try {
      const [row] = await session.run(statement, ...values);
      const written = JSON.parse(row?.["result"] as string) as Written;
      if (written.xid !== undefined) changes.made(written.changes ?? [], written.xid, rings);
      return written;
    } catch (error) {
      if (isOfUnknownOutcome(error)) changes.lost();
      throw error;
    }
  };
  const insertBatch = async (batch: readonly NewKey[], entry: AuditEntry | undefined): Promise<boolean[]> => {
    const rows = batch.map((key, i) => ({ i, ...encodeKeyRow(key) }));
    const isMany = batch.length > MAX_NOTIFIED_DIGESTS;
    const given = [JSON.stringify(rows), entry === undefined ? null : jsonForPeople(entry)] as const;
    const { inserted = [], apiDeleted } = await changing(
      insert,
      !isMany,
      durability,
      ...given,
      String(auditRows),
      isMany ? "many" : "few",
      JSON.stringify([...new Set(batch.map(({ row }) => row.apiId))]),
    );
    if (apiDeleted) throw new KeystileError("NOT_FOUND", "the API of a key to be stored does not exist");
    const done = new Set(inserted);
    return batch.map((_, i) => done.has(i));
  };

  return {
    async adoptDigest(ref: KeyRef, digest: string): Promise<boolean> {
      if (typeof ref !== "number" || !isStorable(digest)) return false;
      return (await changing(adopt, false, durability, String(ref), digest)).outcome === "written";
    },
    async insertKeys(given: readonly NewKey[], entry?: AuditEntry): Promise<boolean[]> {
      const batches: NewKey[][] = [];
      for (let start = 0; start < given.length; start += BATCH) batches.push(given.slice(start, start + BATCH));
      const results: boolean[][] = [];
      // In order, so that of two keys with one digest the first goes in, unless they are a batch apart and both in
      // flight.
      let next = 0;
      const work = async (): Promise<void> => {
        try {
          while (next < batches.length) {
            const i = next++;
            results[i] = await insertBatch(batches[i] as NewKey[], entry);
          }
        } finally {
          // After one that failed no other is sent.
          next = batches.length;
        }
      };
      const settled = await Promise.allSettled(Array.from({ length: entry === undefined ? IN_FLIGHT : 1 }, work));
      // Not before the others have settled: `close` waits for this call, and then nothing is in flight.
      const reasons = settled.flatMap((one) => (one.status === "rejected" ? [one.reason as unknown] : []));
      if (reasons.length > 0) throw reasons.find(isOfUnknownOutcome) ?? reasons[0];
      return results.flat();
    },
    async write(writes: readonly Write[], entries: readonly AuditEntry[] = [], once?: WriteOnce) {
      if (once !== undefined) assertRecord(once.record);
      const encoded = writes.map((one) =>
        one.table === "keys"
          ? "remove" in one
            ? { table: "keys", remove: one.remove, version: one.version }
            : { table: "keys", row: encodeKeyRow({ row: one.row }), credits: one.credits }
          : encodeEntityWrite(one),
      );
      const time = timeOfWrites(writes, entries, once);
      // The function reads the time in the entries; what is no entry is not kept.
      const isTimeAlone = entries.length === 0 && time !== undefined;
      const grantId = grantChangedBy(writes);
      const kept = entries.map((entry, i) => (i === 0 ? { ...entry, grantId } : entry));
      const given = [JSON.stringify(encoded), jsonForPeople(isTimeAlone ? [{ time }] : kept)] as const;
      const most = isTimeAlone ? "0" : String(auditRows);
      const { outcome, balances } = await (once === undefined
        ? changing(write, true, durability, ...given, most)
        : changing(writeOnce, true, durability, ...given, most, JSON.stringify(onceFields(once))));
      return balances ?? outcome;
    },
  };
}

const isOfUnknownOutcome = (error: unknown): boolean => isKeystileError(error) && error.outcomeUnknown === true;
