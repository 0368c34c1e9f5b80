/** The request of an import → its frame and its keys in batches, each judged before it is passed on. Ruling E2. Knows no store. */
import { badRequest, type ValidationProblem } from "../errors.js";
import { copyBody, readOwn } from "../plain.js";
import type { V2KeysMigrateKeyData } from "../types.js";
import { judge } from "./parse.js";
import type { V2KeysMigrateKeysRequestBody } from "./requests.js";
import * as schemas from "./schemas.js";

type Batch = readonly V2KeysMigrateKeyData[];

/** An import, ready to be stored. */
export interface Import {
  readonly migrationId: string;
  readonly apiId: string;
  /** Throws BAD_REQUEST at the first batch that holds a key that breaks the schema. */
  readonly batches: Iterable<Batch> | AsyncIterable<Batch>;
}

/** @throws VerifierError BAD_REQUEST; for an array also with the problems of every key in it */
export function readImport(body: unknown, batchSize: number): Import {
  const problems: ValidationProblem[] = [];
  const own = readOwn(body) ?? body;
  const frame = judge(schemas.migrateKeys, own, "body", problems);
  const keys: unknown = (own as { readonly keys?: unknown } | null | undefined)?.keys;
  const judged = Array.isArray(keys) ? judgeAll(keys, 0, problems) : undefined;
  if (frame === undefined || problems.length > 0) throw badRequest(problems);
  const { migrationId, apiId } = frame;
  const batches = judged === undefined ? readBatches(frame.keys, batchSize) : slices(judged, batchSize);
  return { migrationId, apiId, batches };
}

function* slices(keys: Batch, batchSize: number): Iterable<Batch> {
  for (let start = 0; start < keys.length; start += batchSize) yield keys.slice(start, start + batchSize);
}

async function* readBatches(keys: V2KeysMigrateKeysRequestBody["keys"], batchSize: number): AsyncIterable<Batch> {
  let index = 0;
  let raw: unknown[] = [];
  for await (const key of keys) {
    raw.push(key);
    if (raw.length < batchSize) continue;
    yield judgeBatch(raw, index);
    index += raw.length;
    raw = [];
  }
  if (raw.length > 0) yield judgeBatch(raw, index);
}

function judgeBatch(raw: readonly unknown[], first: number): Batch {
  const problems: ValidationProblem[] = [];
  const keys = judgeAll(raw, first, problems);
  if (problems.length > 0) throw badRequest(problems);
  return keys;
}

/** @param first index of the first of these within the import */
function judgeAll(raw: readonly unknown[], first: number, problems: ValidationProblem[]): V2KeysMigrateKeyData[] {
  const keys: V2KeysMigrateKeyData[] = [];
  const { length } = raw;
  for (let i = 0; i < length; i++) {
    const key = judge(schemas.migratedKey, copyBody(raw[i]), `body.keys[${first + i}]`, problems);
    if (key !== undefined) keys.push(key);
  }
  return keys;
}
