/** Splits an import into requests, bounded in keys, bytes and names. */
import { badRequest } from "../../contracts/errors.js";
import type { V2KeysMigrateKeyData } from "../../contracts/types.js";
import { readImport } from "../../keyring/import/import-batches.js";
import type { KeySource } from "./key-source.js";

/** Maximum bytes of a request: below the default limit of the service. */
const MAX_BYTES = 1_000_000;
/** Different permissions that the keys of a request name: the service makes as many. A key has no more. */
const MAX_PERMISSIONS = 1_000;

/** One request of an import. */
export interface Batch {
  readonly keys: readonly V2KeysMigrateKeyData[];
  /** The request as JSON. */
  readonly body: string;
}

/** The fields that all requests of an import share. */
export interface Frame {
  readonly migrationId: string;
  readonly apiId: string;
}

/**
 * Validates every key and splits the import into requests. A list is validated completely before the first request.
 * @param frame as given; it is validated too
 * @param size keys per request
 * @throws KeystileError BAD_REQUEST at `body.keys[i]`, where `i` counts over the whole import; also if there is no key
 */
export async function* toBatches(frame: Partial<Frame>, source: KeySource, size: number): AsyncIterable<Batch> {
  const keys = "list" in source ? source.list : source.read();
  const request = await readImport({ ...frame, keys }, size);
  const head = `{"migrationId":${JSON.stringify(request.migrationId)},"apiId":${JSON.stringify(request.apiId)},"keys":[`;
  let isEmpty = true;
  for await (const validated of request.batches) {
    isEmpty = false;
    yield* cut(validated, head);
  }
  if (isEmpty) throw badRequest([{ location: "body.keys", message: "must hold at least 1 key" }]);
}

function unionSize(names: ReadonlySet<string>, more: readonly string[] = []): number {
  return names.size + new Set(more.filter((name) => !names.has(name))).size;
}

function* cut(keys: readonly V2KeysMigrateKeyData[], head: string): Iterable<Batch> {
  let texts: string[] = [];
  let bytes = 0;
  let start = 0;
  const slugs = new Set<string>();
  for (const [i, key] of keys.entries()) {
    const text = JSON.stringify(key);
    const size = Buffer.byteLength(text) + 1;
    const isOver = bytes + size > MAX_BYTES - 1_024 || unionSize(slugs, key.permissions) > MAX_PERMISSIONS;
    if (isOver && texts.length > 0) {
      yield { keys: keys.slice(start, i), body: `${head}${texts.join(",")}]}` };
      texts = [];
      bytes = 0;
      start = i;
      slugs.clear();
    }
    for (const slug of key.permissions ?? []) slugs.add(slug);
    texts.push(text);
    bytes += size;
  }
  yield { keys: keys.slice(start), body: `${head}${texts.join(",")}]}` };
}
