/** Splits an import into requests, bounded in keys, bytes and names; keys that are invalid are put aside. */
import { badRequest } from "../../contracts/errors.js";
import type { V2KeysMigrateKeyData } from "../../contracts/types.js";
import { readFrame, readImport } from "../../keyring/import/import-batches.js";
import { wrongTimesInKey } from "../../lib/seconds.js";
import type { KeySource } from "./key-source.js";
import type { SourceRow } from "./values.js";
import { pause } from "../../keyring/context.js";

/** Maximum bytes of a request: below the default limit of the service. */
const MAX_BYTES = 1_000_000;
/** Bytes of a request besides its keys. */
const FRAME_BYTES = 1_024;
/** Different permissions that the keys of a request name: the service makes as many. */
const MAX_PERMISSIONS = 1_000;

/** A valid key and where it was read. */
export interface Row {
  /** As {@link SourceRow.number}. */
  readonly number: number;
  readonly key: V2KeysMigrateKeyData;
}

/** A row that is no valid key. */
export interface InvalidRow extends SourceRow {
  /** What is wrong, in words. */
  readonly message: string;
}

/** One request of an import. */
export interface Batch {
  /** May be empty, if all that was read was invalid. */
  readonly rows: readonly Row[];
  /** The request as JSON. */
  readonly body: string;
  /** Read along with these keys. */
  readonly invalid: readonly InvalidRow[];
}

/** The fields that all requests of an import share. */
export interface Frame {
  readonly migrationId: string;
  readonly apiId: string;
}

/**
 * Validates every key and splits the import into requests. An invalid key stops nothing.
 * @param frame as given; it is validated too
 * @param size keys per request
 * @param extraFields whether keys may have the fields that only the library takes
 * @throws KeystileError BAD_REQUEST at a field of the frame; at `body.keys` if there is no key
 */
export async function* toBatches(
  frame: Partial<Frame>,
  source: KeySource,
  size: number,
  extraFields: boolean,
): AsyncIterable<Batch> {
  let last: SourceRow | undefined;
  let numbers: number[] = [];
  let invalid: InvalidRow[] = [];
  // Each row is validated before the next one is read.
  const keys = (async function* () {
    for await (const row of source.read()) {
      last = row;
      numbers.push(row.number);
      // What has a problem is refused as a key that is none.
      yield (row.problem === undefined ? row.value : undefined) as V2KeysMigrateKeyData;
    }
  })();
  const request = await readImport(readFrame({ ...frame, keys }), {
    batchSize: size,
    turn: () => pause(0),
    extraFields,
    onInvalid({ index, message }) {
      const row = last as SourceRow;
      numbers.pop();
      invalid.push({ ...row, message: row.problem ?? withoutIndex(message, `body.keys[${index}]`) });
    },
  });
  const head = `{"migrationId":${JSON.stringify(request.migrationId)},"apiId":${JSON.stringify(request.apiId)},"keys":[`;
  for await (const validated of request.batches) {
    const all = validated.map((key, i): Row => ({ number: numbers[i] ?? 0, key }));
    // The service takes them, as the contract has it, and says so in its log.
    const late = extraFields ? all.flatMap(withWrongTimes) : [];
    const rows = late.length === 0 ? all : all.filter(({ number }) => !late.some((row) => row.number === number));
    const read = { rows, invalid: [...invalid, ...late] };
    [numbers, invalid] = [[], []];
    yield* cut(read, head);
  }
  if (last === undefined)
    throw badRequest([{ location: "body.keys", message: "must be an array of at least 1 item, or lines" }]);
}

const withWrongTimes = ({ number, key }: Row): InvalidRow[] =>
  wrongTimesInKey(key).map(({ name, message, fix }) => ({ number, value: key, message: `${name} ${message}; ${fix}` }));

/** The place is told by its line. */
function withoutIndex(message: string, location: string): string {
  return message.replaceAll(`${location}.`, "").replaceAll(`${location}: `, "");
}

function unionSize(names: ReadonlySet<string>, more: readonly string[] = []): number {
  return names.size + new Set(more.filter((name) => !names.has(name))).size;
}

function* cut(read: Omit<Batch, "body">, head: string): Iterable<Batch> {
  const invalid = [...read.invalid];
  let rows: Row[] = [];
  let texts: string[] = [];
  let bytes = 0;
  const slugs = new Set<string>();
  const take = (): Batch => {
    const batch = { rows, body: `${head}${texts.join(",")}]}`, invalid: invalid.splice(0) };
    [rows, texts, bytes] = [[], [], 0];
    slugs.clear();
    return batch;
  };
  for (const row of read.rows) {
    const text = JSON.stringify(row.key);
    const size = Buffer.byteLength(text) + 1;
    if (size > MAX_BYTES - FRAME_BYTES) {
      invalid.push({ number: row.number, value: row.key, message: "longer than a request may be, some 1 MB" });
      continue;
    }
    const isOver = bytes + size > MAX_BYTES - FRAME_BYTES || unionSize(slugs, row.key.permissions) > MAX_PERMISSIONS;
    if (isOver && rows.length > 0) yield take();
    for (const slug of row.key.permissions ?? []) slugs.add(slug);
    rows.push(row);
    texts.push(text);
    bytes += size;
  }
  if (rows.length > 0 || invalid.length > 0) yield take();
}
