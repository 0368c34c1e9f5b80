/**
 * Packs encoded keys for transfer to the writer thread.
 *
 * Why encoded before the transfer: an import waits for the writer thread, and a list of strings transfers at a
 * fifteenth of the cost of objects. Sending a key as an object took 2.0 µs and receiving it 2.9; as strings 0.2 and
 * 0.1.
 */
import type { NewBalance } from "../../../contracts/store.js";
import type { EncodedKey } from "../../codec/encoded-keys.js";

/** Keys as transferred between threads: {@link TEXTS} strings and {@link NUMBERS} numbers per key. */
export interface PackedKeys {
  readonly texts: readonly (string | null)[];
  readonly numbers: Float64Array<ArrayBuffer>;
}

const TEXTS = 7;
/** The numbers of a balance; a rollover that is absent is NaN. A field that is left out does not compile. */
const BALANCE = Object.keys({
  remaining: true,
  amount: true,
  period: true,
  rollover: true,
} satisfies Record<keyof NewBalance, true>) as (keyof NewBalance)[];
/** Numbers before those of the balance. */
const OF_KEY = 4;
const NUMBERS = OF_KEY + BALANCE.length;

/** Packs keys for transfer to another thread. */
export function packKeys(keys: readonly EncodedKey[]): PackedKeys {
  const texts: (string | null)[] = [];
  const numbers = new Float64Array(keys.length * NUMBERS);
  let at = 0;
  for (const key of keys) {
    const { balance } = key;
    texts.push(key.id, key.apiId, key.identityId, key.digest, key.foreignDigest, key.grants, key.body);
    numbers[at++] = key.version;
    numbers[at++] = key.deleted ? 1 : 0;
    numbers[at++] = key.generation;
    numbers[at++] = balance === undefined ? 0 : 1;
    for (const name of BALANCE) numbers[at++] = balance?.[name] ?? NaN;
  }
  return { texts, numbers };
}

/** Reads what {@link packKeys} packed. */
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
      balance: numbers[n + 3] === 1 ? balanceAt(numbers, n + OF_KEY) : undefined,
    });
  }
  return keys;
}

function balanceAt(numbers: PackedKeys["numbers"], start: number): NewBalance {
  const given = BALANCE.map((name, i) => [name, numbers[start + i]] as const);
  return Object.fromEntries(
    given.filter(([name, value]) => name !== "rollover" || !Number.isNaN(value)),
  ) as unknown as NewBalance;
}
