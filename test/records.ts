/**
 * Rows of keys, and records as stores return them, made from the table of fields: a field that is new there is in all
 * of them, or does not compile until {@link MADE} has values for it.
 */
import fc from "fast-check";
import { type FieldsThat, fieldsThat, KEY_FIELDS, type KeyField, type Shape } from "../src/contracts/key-fields.js";
import type { KeyRecord, KeyRow } from "../src/contracts/store.js";
import type { Refill } from "../src/contracts/types.js";

const id = (prefix: string): fc.Arbitrary<string> => fc.nat(9).map((n) => `${prefix}_${n}`);
const texts = fc.oneof(fc.constantFrom("", "a", "línea\n", "__proto__"), fc.string({ unit: "binary", maxLength: 40 }));

/** Values of each named shape: falsy ones, the largest, and common ones. */
const SHAPES: Readonly<Record<Extract<Shape, string>, fc.Arbitrary<unknown>>> = {
  text: texts,
  name: fc.constantFrom("requests", "tokens", "línea\n"),
  integer: fc.oneof(fc.constantFrom(0, -1, Number.MAX_SAFE_INTEGER), fc.maxSafeInteger()),
  count: fc.oneof(fc.constantFrom(0, 2 ** 15, 2 ** 40, Number.MAX_SAFE_INTEGER), fc.nat()),
  time: fc.oneof(fc.constantFrom(0, 8.64e15, -8.64e15), fc.nat()),
  flag: fc.boolean(),
  meta: fc.oneof(
    fc.constantFrom({}, { plan: "pro" }, { a: [{ b: null }] }),
    fc.jsonValue().map((value) => JSON.parse(`{"__proto__":${JSON.stringify(value)},"constructor":1}`) as unknown),
  ),
  refill: fc.constantFrom(
    { interval: "daily", amount: 5 },
    { interval: "monthly", amount: 5, refillDay: 31 },
    { interval: "monthly", amount: 5, refillDay: 1 },
  ),
};

function valuesOf(shape: Shape): fc.Arbitrary<unknown> {
  if (typeof shape === "string") return SHAPES[shape];
  if (Array.isArray(shape)) return fc.array(valuesOf(shape[0] as Shape), { maxLength: 3 });
  return fc.record(Object.fromEntries(Object.entries(shape).map(([name, part]) => [name, valuesOf(part)])));
}

type Values<Name extends keyof KeyRecord> = {
  readonly [K in Name]-?: fc.Arbitrary<Exclude<KeyRecord[K], undefined>>;
};

/** Values of the fields that are not a row's. */
const MADE = {
  ref: fc.oneof(fc.nat(), fc.maxSafeNat(), id("ref")),
  keyId: id("key"),
  permissions: fc.constantFrom([], ["a"], ["a", "b.*"], ["a b"]),
  roles: fc.constantFrom([], ["admin"]),
  grantIds: fc.constantFrom([], ["role_1"], ["perm_1", "role_1"]),
  identity: fc.constantFrom(
    { id: "id_1", externalId: "user" },
    { id: "id_2", externalId: "other", meta: { plan: "pro" } },
    {
      id: "id_1",
      externalId: "user",
      ratelimits: [{ id: "rl_shared", name: "shared", limit: 1, duration: 1_000, autoApply: true }],
    },
  ),
  ownerDisabled: fc.constant(true as const),
  ownerExpires: SHAPES.time as fc.Arbitrary<number>,
  hasCredits: SHAPES.flag as fc.Arbitrary<boolean>,
  creditsFrom: fc.constant("identity" as const),
  refill: SHAPES.refill as fc.Arbitrary<Refill>,
  generation: SHAPES.count as fc.Arbitrary<number>,
  account: fc.record({ ref: fc.nat(), id: id("key") }),
  wallets: fc.constant([
    {
      owner: "identity",
      accounts: [
        { ref: 7, generation: 2, priority: 100, createdAt: 0, refill: { interval: "daily", amount: 5 } },
        { ref: "grant_1", generation: 1, grantId: "bonus", priority: 0, createdAt: 5, expires: 9 },
      ],
    },
  ] as const),
  parentDisabled: fc.boolean(),
  unadopted: fc.boolean(),
  startUnknown: fc.constant(true as const),
  ipAllowlists: fc.constantFrom([], [["192.0.2.1"]], [["192.0.2.0/24"], ["192.0.2.1"]]),
} satisfies Values<FieldsThat<{ from: "made" }>>;

const FROM_ROW = Object.fromEntries(
  fieldsThat({ from: "row" }).map((name) => [name, valuesOf((KEY_FIELDS[name] as KeyField).row as Shape)]),
) as unknown as Values<FieldsThat<{ from: "row" }>>;

const NAMES = [...fieldsThat({ from: "row" }), ...fieldsThat({ from: "made" })];
const REQUIRED = NAMES.filter((name) => (KEY_FIELDS[name] as KeyField).absent !== true);

/** Any record. */
export const records: fc.Arbitrary<KeyRecord> = fc.record(
  { ...FROM_ROW, ...MADE },
  { requiredKeys: REQUIRED as never[] },
) as unknown as fc.Arbitrary<KeyRecord>;

/** The names of the fields that may be absent, of rows or of records. */
export const mayBeAbsent = (of: "row" | "record"): readonly (keyof typeof KEY_FIELDS)[] =>
  fieldsThat({ absent: true }).filter((name) => (KEY_FIELDS[name] as KeyField)[of] !== undefined);

/** Any values of the fields of a row, but of these: some of those that may be absent, and all others. */
export function rowFields<Name extends keyof KeyRow>(without: readonly Name[]): fc.Arbitrary<Omit<KeyRow, Name>> {
  const names = (Object.keys(KEY_FIELDS) as (keyof KeyRow)[]).filter(
    (name) => (KEY_FIELDS[name] as KeyField).row !== undefined && !(without as readonly string[]).includes(name),
  );
  // A flag that may be absent is true where it is there.
  const values = names.map((name) => {
    const { row, absent } = KEY_FIELDS[name] as KeyField;
    return [name, row === "flag" && absent === true ? fc.constant(true) : valuesOf(row as Shape)] as const;
  });
  const requiredKeys = names.filter((name) => (KEY_FIELDS[name] as KeyField).absent !== true);
  return fc.record(Object.fromEntries(values), { requiredKeys: requiredKeys as never[] }) as unknown as fc.Arbitrary<
    Omit<KeyRow, Name>
  >;
}

/** Many records, the same at every run. */
export function sampleRecords(count: number): readonly KeyRecord[] {
  return fc.sample(records, { numRuns: count, seed: 1 });
}

const [BLANK] = fc.sample(
  fc.record(Object.fromEntries(REQUIRED.map((name) => [name, { ...FROM_ROW, ...MADE }[name]]))),
  {
    numRuns: 1,
    seed: 1,
  },
);
const USUAL = Object.fromEntries(
  REQUIRED.map((name) => [name, (KEY_FIELDS[name] as KeyField).usual]).filter(([, usual]) => usual !== undefined),
) as Partial<KeyRecord>;

/** A record that can do nothing, with no field that may be absent, and with these. */
export function plainRecord(given: Partial<KeyRecord> = {}): KeyRecord {
  const nothing = { permissions: [], roles: [], parentDisabled: false, unadopted: false };
  const named = { ref: 1, keyId: "key_1", workspaceId: "ws", apiId: "api" };
  return { ...(BLANK as unknown as KeyRecord), ...USUAL, ...nothing, ...named, ...given };
}
