/**
 * New keys as they are written, and as they cross over to the writer thread. Ruling E6. Knows no SQL.
 *
 * Why encoded on this side: the thread is what an import waits for, and a list of texts crosses over at a fifteenth of the price of the
 * rows that they come from. A key took 2.0 µs to send as objects and 2.9 to receive, as texts 0.2 and 0.1.
 */
import type { KeyRow, NewBalance, NewKey } from "../../../contracts/store.js";
import { encodeBody, encodeGrants } from "./key-codec.js";

/** A new key: every text that is bound, ready-made. */
export interface EncodedKey {
  readonly id: string;
  readonly apiId: string;
  readonly identityId: string | null;
  readonly version: number;
  readonly digest: string | null;
  readonly foreignDigest: string | null;
  readonly deleted: boolean;
  readonly grants: string;
  readonly body: string;
  readonly generation: number;
  readonly balance?: NewBalance | undefined;
}

/** Keys on their way: texts and numbers of each, one after another. */
export interface PackedKeys {
  readonly texts: readonly (string | null)[];
  readonly numbers: Float64Array<ArrayBuffer>;
}

/** Texts and numbers a key. */
const TEXTS = 7;
const NUMBERS = 7;

/** What is written of a row. `version` and the balance are as the row has them. */
export function encodeKey(row: KeyRow, balance?: NewBalance, grants = encodeGrants(row)): EncodedKey {
  return {
    id: row.id,
    apiId: row.apiId,
    identityId: row.identityId ?? null,
    version: row.version,
    digest: row.digest ?? null,
    foreignDigest: row.foreignDigest ?? null,
    deleted: row.deleted,
    grants,
    body: encodeBody(row),
    generation: row.generation,
    balance,
  };
}

/** The same of many. Keys that were granted the same are often given the same lists, one after another. */
export function encodeKeys(keys: readonly NewKey[]): EncodedKey[] {
  // Not kept from call to call: lists are the caller's, who may have changed them since.
  let last: readonly [row: KeyRow, text: string] | undefined;
  return keys.map(({ row, balance }) => {
    if (last?.[0].permissions !== row.permissions || last[0].roles !== row.roles) last = [row, encodeGrants(row)];
    return encodeKey(row, balance, last[1]);
  });
}

/** Keys, for the way. */
export function packKeys(keys: readonly EncodedKey[]): PackedKeys {
  const texts: (string | null)[] = [];
  const numbers = new Float64Array(keys.length * NUMBERS);
  let at = 0;
  for (const {
    id,
    apiId,
    identityId,
    digest,
    foreignDigest,
    grants,
    body,
    version,
    deleted,
    generation,
    balance,
  } of keys) {
    texts.push(id, apiId, identityId, digest, foreignDigest, grants, body);
    numbers[at++] = version;
    numbers[at++] = deleted ? 1 : 0;
    numbers[at++] = generation;
    numbers[at++] = balance === undefined ? 0 : 1;
    numbers[at++] = balance?.remaining ?? NaN;
    numbers[at++] = balance?.amount ?? NaN;
    numbers[at++] = balance?.period ?? NaN;
  }
  return { texts, numbers };
}

/** The same keys, on the other side. */
export function unpackKeys({ texts, numbers }: PackedKeys): EncodedKey[] {
  const keys: EncodedKey[] = [];
  const text = (i: number) => texts[i] as string;
  const number = (i: number) => numbers[i] as number;
  for (let t = 0, n = 0; n < numbers.length; t += TEXTS, n += NUMBERS) {
    keys.push({
      id: text(t),
      apiId: text(t + 1),
      identityId: texts[t + 2] ?? null,
      digest: texts[t + 3] ?? null,
      foreignDigest: texts[t + 4] ?? null,
      grants: text(t + 5),
      body: text(t + 6),
      version: number(n),
      deleted: numbers[n + 1] === 1,
      generation: number(n + 2),
      balance:
        numbers[n + 3] === 1 ? { remaining: number(n + 4), amount: number(n + 5), period: number(n + 6) } : undefined,
    });
  }
  return keys;
}
