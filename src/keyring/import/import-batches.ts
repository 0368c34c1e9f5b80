/** Splits an import request into its other fields and its keys in batches, each validated before it is passed on. */
import { badRequest, type ValidationProblem } from "../../contracts/errors.js";
import type { V2KeysMigrateKeyData } from "../../contracts/types.js";
import { copyBody, readOwnProperties } from "../../lib/copy-json.js";
import { pause } from "../context.js";
import * as schemas from "../schemas/keys.js";
import type { V2KeysMigrateKeysRequestBody } from "../schemas/migration-requests.js";
import { MAX_PROBLEMS, validate } from "../schemas/parse.js";
import { fastAccept } from "./fast-validate.js";

type Batch = readonly V2KeysMigrateKeyData[];

/** An import, ready to be stored. */
export interface Import {
  readonly migrationId: string;
  readonly apiId: string;
  /** All keys of an array; absent for any other iterable. */
  readonly keys: Batch | undefined;
  /** Throws BAD_REQUEST at the first batch that holds an invalid key. */
  readonly batches: Iterable<Batch> | AsyncIterable<Batch>;
}

/** Milliseconds of validation after which others get their turn. */
const TURN_MS = 4;

/**
 * @param turn waits for another turn of the event loop
 * @throws (rejects) KeystileError BAD_REQUEST; for an array also with the problems of every key in it
 */
export async function readImport(
  body: unknown,
  batchSize: number,
  turn: () => Promise<void> = () => pause(0),
): Promise<Import> {
  const reading = readInTurns(body, batchSize);
  for (;;) {
    const { done, value } = reading.next();
    if (done === true) return value;
    await turn();
  }
}

/** Whether an import is well formed. @throws KeystileError as {@link readImport}, without giving others a turn */
export function checkImport(body: unknown): void {
  const reading = readInTurns(body, 1);
  while (reading.next().done !== true);
}

/** Yields where others should get their turn. */
function* readInTurns(body: unknown, batchSize: number): Generator<void, Import> {
  const problems: ValidationProblem[] = [];
  const fields = readOwnProperties(body) ?? body;
  const frame = validate(schemas.migrateKeys, fields, "body", problems);
  const given: unknown = (fields as { readonly keys?: unknown } | null | undefined)?.keys;
  const keys = Array.isArray(given) ? yield* validateAll(given, problems) : undefined;
  if (frame === undefined || problems.length > 0) throw badRequest(problems);
  const { migrationId, apiId } = frame;
  const batches = keys === undefined ? readBatches(frame.keys, batchSize) : slices(keys, batchSize);
  return { migrationId, apiId, keys, batches };
}

function* slices(keys: Batch, batchSize: number): Iterable<Batch> {
  for (let start = 0; start < keys.length; start += batchSize) yield keys.slice(start, start + batchSize);
}

async function* readBatches(keys: V2KeysMigrateKeysRequestBody["keys"], batchSize: number): AsyncIterable<Batch> {
  let index = 0;
  let read = 0;
  let problems: ValidationProblem[] = [];
  let validated: V2KeysMigrateKeyData[] = [];
  const cut = (): Batch => {
    if (problems.length > 0) throw badRequest(problems);
    const batch = validated;
    [read, problems, validated] = [0, [], []];
    return batch;
  };
  // Validated one by one: a thousand parsed lines, if kept, would be copied by every garbage collection.
  for await (const raw of keys) {
    validateOne(raw, index++, problems, validated);
    if (++read === batchSize) yield cut();
  }
  if (read > 0) yield cut();
}

function* validateAll(raw: readonly unknown[], problems: ValidationProblem[]): Generator<void, V2KeysMigrateKeyData[]> {
  const keys: V2KeysMigrateKeyData[] = [];
  const { length } = raw;
  let began = performance.now();
  // Stops once the error is full: 300,000 faulty keys blocked the event loop for 0.3 s.
  for (let i = 0; i < length && problems.length < MAX_PROBLEMS; i++) {
    validateOne(raw[i], i, problems, keys);
    if (performance.now() - began < TURN_MS) continue;
    yield;
    began = performance.now();
  }
  return keys;
}

/** @param index of the key within the import */
function validateOne(raw: unknown, index: number, problems: ValidationProblem[], keys: V2KeysMigrateKeyData[]): void {
  const copy = copyBody(raw);
  const key = fastAccept(copy) ? copy : validate(schemas.migratedKey, copy, `body.keys[${index}]`, problems);
  if (key !== undefined) keys.push(key);
}
