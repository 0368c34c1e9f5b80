/** An import cut into requests: so many keys, and so many bytes, at most. Rulings E2, G1. Knows no server. */
import { badRequest } from "../../contracts/errors.js";
import type { V2KeysMigrateKeyData } from "../../contracts/types.js";
import { readImport } from "../../keyring/import/import-batches.js";
import type { KeySource } from "./key-source.js";

/** Bytes of a request: below what every server takes (ruling G1). */
const MAX_BYTES = 1_000_000;

/** One request of an import. */
export interface Batch {
  readonly keys: readonly V2KeysMigrateKeyData[];
  /** The request as JSON. */
  readonly body: string;
}

/** What all requests of an import share. */
export interface Frame {
  readonly migrationId: string;
  readonly apiId: string;
}

/**
 * Judges every key and cuts the import into requests. A list is judged whole before the first one.
 * @param frame as given: it is judged too
 * @param size keys a request
 * @throws KeystileError BAD_REQUEST at `body.keys[i]`, where `i` counts over the whole import; no key at all is one too
 */
export async function* toBatches(frame: Partial<Frame>, source: KeySource, size: number): AsyncIterable<Batch> {
  const keys = "list" in source ? source.list : source.read();
  const request = readImport({ ...frame, keys }, size);
  const head = `{"migrationId":${JSON.stringify(request.migrationId)},"apiId":${JSON.stringify(request.apiId)},"keys":[`;
  let isEmpty = true;
  for await (const validated of request.batches) {
    isEmpty = false;
    yield* cut(validated, head);
  }
  if (isEmpty) throw badRequest([{ location: "body.keys", message: "must hold at least 1 key" }]);
}

function* cut(keys: readonly V2KeysMigrateKeyData[], head: string): Iterable<Batch> {
  let texts: string[] = [];
  let bytes = 0;
  let start = 0;
  for (const [i, key] of keys.entries()) {
    const text = JSON.stringify(key);
    const size = Buffer.byteLength(text) + 1;
    if (bytes + size > MAX_BYTES - 1_024 && texts.length > 0) {
      yield { keys: keys.slice(start, i), body: `${head}${texts.join(",")}]}` };
      texts = [];
      bytes = 0;
      start = i;
    }
    texts.push(text);
    bytes += size;
  }
  yield { keys: keys.slice(start), body: `${head}${texts.join(",")}]}` };
}
