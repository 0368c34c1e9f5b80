/** Splits an import request into its other fields and its keys in batches, each validated before it is passed on. */
import { badRequest, type ValidationProblem } from "../../contracts/errors.js";
import type { V2KeysMigrateKeyData } from "../../contracts/types.js";
import { copyBody, readOwnProperties } from "../../lib/copy-json.js";
import * as schemas from "../schemas/imports.js";
import type { FailedKey, V2KeysMigrateKeysRequestBody } from "../schemas/migration-requests.js";
import { MAX_PROBLEMS, UNREADABLE } from "../../lib/problems.js";
import { readBody, type Schema, validate } from "../schemas/parse.js";

type Batch = readonly V2KeysMigrateKeyData[];

/** An import, ready to be stored. */
export interface Import {
  readonly migrationId: string;
  readonly apiId: string;
  /** All keys of an array; absent for any other iterable. */
  readonly keys: Batch | undefined;
  /** Keys of an array, or the valid ones of any other iterable. */
  readonly batches: Iterable<Batch> | AsyncIterable<Batch>;
}

/** Milliseconds of validation after which others get their turn. */
const TURN_MS = 4;
/** Permissions, roles and rate limits of the keys in one batch of an array: a store writes so many in about 4 ms. */
const MAX_NAMED = 8_000;

/** What an import says besides its keys, which are validated later. */
export interface ImportFrame {
  /** `undefined`: there are problems. */
  readonly fields: V2KeysMigrateKeysRequestBody | undefined;
  /** The keys as they were given. */
  readonly keys: unknown;
  readonly problems: readonly ValidationProblem[];
}

/** Reads the own properties of an import's body, each once. @throws KeystileError BAD_REQUEST: it cannot be read */
export function readFrame(body: unknown): ImportFrame {
  const problems: ValidationProblem[] = [];
  const given = readBody(body, readOwnProperties) ?? body;
  const fields = validate(schemas.migrateKeys, given, "body", problems);
  return { fields, keys: (given as { readonly keys?: unknown } | null | undefined)?.keys, problems };
}

/** How the keys of an import are read. */
export interface Reading {
  /** Keys per batch. */
  readonly batchSize: number;
  /** Waits for another turn of the event loop. */
  readonly turn: () => Promise<void>;
  /** Whether keys may have the fields of `ImportedKeyData` besides those of the specification. */
  readonly extraFields?: boolean;
  /** Takes the keys of an iterable that break the schema. */
  readonly onInvalid: (failed: FailedKey) => void;
}

/** @throws (rejects) KeystileError BAD_REQUEST; for an array also with the problems of every key in it */
export async function readImport(frame: ImportFrame, reading: Reading): Promise<Import> {
  const steps = readInTurns(frame, reading);
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
    await reading.turn();
  }
}

/** Whether an import is well formed. @throws KeystileError as {@link readImport}, without giving others a turn */
export function checkImport(body: unknown): void {
  const reading = { batchSize: 1, turn: () => Promise.resolve(), onInvalid: () => undefined };
  const steps = readInTurns(readFrame(body), reading);
  while (steps.next().done !== true);
}

/** Yields where others should get their turn. */
function* readInTurns(frame: ImportFrame, reading: Reading): Generator<void, Import> {
  const { fields, keys: given } = frame;
  const problems = [...frame.problems];
  const keys = Array.isArray(given) ? yield* readAll(given, problems, reading) : undefined;
  if (fields === undefined || problems.length > 0) throw badRequest(problems);
  const { migrationId, apiId } = fields;
  const batches = keys === undefined ? readBatches(fields.keys, reading) : slices(keys, reading);
  return { migrationId, apiId, keys, batches };
}

/** A batch ends early where its keys name much; from the second on each begins in a turn of its own. */
async function* slices(keys: Batch, { batchSize, turn }: Reading): AsyncIterable<Batch> {
  for (let start = 0, end = 0; start < keys.length; start = end) {
    if (start > 0) await turn();
    for (let named = 0; end < keys.length && end - start < batchSize; end++) {
      const { permissions, roles, ratelimits } = keys[end] as V2KeysMigrateKeyData;
      named += (permissions?.length ?? 0) + (roles?.length ?? 0) + (ratelimits?.length ?? 0);
      if (named > MAX_NAMED && end > start) break;
    }
    yield keys.slice(start, end);
  }
}

async function* readBatches(keys: V2KeysMigrateKeysRequestBody["keys"], reading: Reading): AsyncIterable<Batch> {
  let index = 0;
  let read = 0;
  let validated: V2KeysMigrateKeyData[] = [];
  const cut = (): Batch => {
    const batch = validated;
    [read, validated] = [0, []];
    return batch;
  };
  // Validated one by one: a thousand parsed lines, if kept, would be copied by every garbage collection.
  for await (const raw of keys) {
    const { copy, key, problems } = readKey(raw, index, reading);
    if (key !== undefined) validated.push(key);
    if (problems.length > 0) reading.onInvalid(toFailed(copy, index, problems));
    index++;
    if (++read === reading.batchSize) yield cut();
  }
  if (read > 0) yield cut();
}

/** Problems of one key that are listed. */
const MAX_LISTED = 5;

/** @param copy of the key, as {@link readKey} returns it */
function toFailed(copy: unknown, index: number, problems: readonly ValidationProblem[]): FailedKey {
  const hash = (copy as { readonly hash?: unknown } | null | undefined)?.hash;
  const listed = problems.slice(0, MAX_LISTED).map(({ location, message }) => `${location}: ${message}`);
  if (problems.length > MAX_LISTED) listed.push(`${problems.length - MAX_LISTED} more`);
  return { hash: typeof hash === "string" ? hash : "", index, reason: "INVALID_KEY", message: listed.join("; ") };
}

function* readAll(
  raw: readonly unknown[],
  problems: ValidationProblem[],
  reading: Reading,
): Generator<void, V2KeysMigrateKeyData[]> {
  const keys: V2KeysMigrateKeyData[] = [];
  const { length } = raw;
  let began = performance.now();
  // Stops once the error is full: 300,000 faulty keys blocked the event loop for 0.3 s.
  for (let i = 0; i < length && problems.length < MAX_PROBLEMS; i++) {
    const read = readKey(raw[i], i, reading);
    if (read.key !== undefined) keys.push(read.key);
    problems.push(...read.problems.slice(0, MAX_PROBLEMS - problems.length));
    if (performance.now() - began < TURN_MS) continue;
    yield;
    began = performance.now();
  }
  return keys;
}

interface ReadKey {
  /** What was validated; `undefined`: the key cannot be read. */
  readonly copy?: unknown;
  /** `undefined`: there are problems. */
  readonly key?: V2KeysMigrateKeyData | undefined;
  readonly problems: readonly ValidationProblem[];
}

/** @param index of the key within the import */
function readKey(raw: unknown, index: number, { extraFields = false }: Reading): ReadKey {
  const location = `body.keys[${index}]`;
  let copy: unknown;
  try {
    copy = copyBody(raw);
  } catch {
    return { problems: [{ location, ...UNREADABLE }] };
  }
  const schema: Schema<V2KeysMigrateKeyData> = extraFields ? schemas.importedKey : schemas.migratedKey;
  const problems: ValidationProblem[] = [];
  return { copy, key: validate(schema, copy, location, problems), problems };
}
