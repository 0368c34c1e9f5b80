/**
 * Every field of a key, defined once: the shape of its value, where a verification keeps it, and how administration
 * reads and writes it. Every store, the verification cache and the keyring derive their part from this table, and the
 * compiler checks it against {@link KeyRow} and {@link KeyRecord}.
 */
import type { KeyRecord, KeyRow } from "./store.js";
import type { JsonObject, Refill } from "./types.js";

/** The named shapes, and the types of their values. */
interface NamedShapes {
  text: string;
  /** Part of a bucket's name: at most 512 UTF-16 units. */
  name: string;
  /** A safe integer, also one that is a time but that no `Date` can hold. */
  integer: number;
  /** An integer ≥ 0. */
  count: number;
  /** Unix time, milliseconds, that a `Date` can hold: at most 8_640_000_000_000_000 before or after 1970. */
  time: number;
  flag: boolean;
  /** Free-form data. */
  meta: JsonObject;
  refill: Refill;
}
/** The shape of a value: a named shape, a list of one shape, or an object with all of these properties. */
export type Shape = keyof NamedShapes | readonly [Shape] | { readonly [property: string]: Shape };

/** The shapes that fit a value of type `T`. */
type ShapeOf<T> = [T] extends [boolean]
  ? "flag"
  : [T] extends [number]
    ? "integer" | "count" | "time"
    : [T] extends [string]
      ? "text" | "name"
      : [T] extends [Refill]
        ? "refill"
        : [T] extends [readonly (infer Item)[]]
          ? readonly [ShapeOf<Item>]
          : [JsonObject] extends [T]
            ? "meta"
            : [T] extends [object]
              ? { readonly [K in keyof T]-?: ShapeOf<T[K]> }
              : never;

/**
 * Where a verification keeps a field of the record. `policy`: in the part that many keys share; keys that differ in it
 * never share one. `grants` and `limits`: shared likewise, but compiled; ids of limits stay with the key. `key`: with
 * the key itself. `rare`: in an extra object, for the few keys that have it. `find`: used when the key is found, and
 * not kept.
 */
export type RecordPart = "policy" | "grants" | "limits" | "key" | "rare" | "find";

/** How a field of {@link KeyRow} is described. */
interface RowField<T> {
  readonly row: ShapeOf<T>;
  /** Requests set it under this name, in its stored form. `clearable`: null removes it or restores the default. */
  readonly given?: "clearable" | "set";
  /** Responses show it under this name, in its stored form: `always`, or only when present and not the default. */
  readonly shown?: "always" | "unusual";
  /** All keys of an account have the same, so that a change of one changes the others. */
  readonly shared?: true;
  /** How the audit trail tells a change of it: not at all, or as one of the `credits`. Absent: under this name. */
  readonly audit?: "never" | "credits";
}
/**
 * How a field of {@link KeyRecord} is described: it equals the row's field of the same name, or
 * `src/stores/key-record.ts` computes it.
 */
interface RecordField<K, Same> {
  /** Only these fields can be grants or limits, because the code that compiles them names them. */
  readonly record: K extends "permissions" | "roles"
    ? "grants"
    : K extends "ratelimits"
      ? "limits"
      : Exclude<RecordPart, "grants" | "limits">;
  readonly from: Same extends true ? "row" | "made" : "made";
}
/** Keys without a value either lack the property, or have the default, which a store may omit. */
type Absence<T, K extends keyof T> =
  object extends Pick<T, K>
    ? { readonly absent: true; readonly usual?: never }
    : { readonly absent?: never; readonly usual?: T[K] };

type Fields = {
  readonly [K in keyof KeyRow | keyof KeyRecord]: (K extends keyof KeyRow
    ? RowField<Exclude<KeyRow[K], undefined>> & Absence<KeyRow, K>
    : { readonly row?: never }) &
    (K extends keyof KeyRecord
      ? RecordField<K, K extends keyof KeyRow ? (KeyRow[K] extends KeyRecord[K] ? true : false) : false> &
          Absence<KeyRecord, K>
      : { readonly record?: never });
};

const NONE: readonly never[] = Object.freeze([]);
const LIMIT = { id: "text", name: "name", limit: "count", duration: "count", autoApply: "flag" } as const;

/** The table. Stores that serialise a key's fields as one text write them in this order. */
export const KEY_FIELDS = {
  id: { row: "text" },
  version: { row: "integer", audit: "never" },
  workspaceId: { row: "text", record: "policy", from: "row" },
  apiId: { row: "text", record: "policy", from: "row" },
  identityId: { row: "text", absent: true },
  digest: { row: "text", absent: true },
  foreignDigest: { row: "text", absent: true },
  lastUsedAt: { row: "integer", absent: true, shown: "unusual", audit: "never" },
  permissions: { row: ["text"], record: "grants", from: "made" },
  roles: { row: ["text"], record: "grants", from: "made" },

  start: { row: "text", shown: "always" },
  createdAt: { row: "integer", shown: "always" },
  name: { row: "text", absent: true, record: "key", from: "row", given: "clearable", shown: "unusual" },
  meta: { row: "meta", absent: true, record: "rare", from: "row", given: "clearable", shown: "unusual" },
  expires: { row: "time", absent: true, record: "key", from: "row", given: "clearable", shown: "unusual" },
  enabled: { row: "flag", usual: true, record: "policy", from: "row", given: "set", shown: "always" },
  ratelimits: { row: [LIMIT], usual: NONE, record: "limits", from: "row" },
  ipAllowlist: { row: ["text"], usual: NONE, given: "clearable", shown: "unusual" },
  hasCredits: { row: "flag", usual: false, record: "policy", from: "made", shared: true, audit: "credits" },
  creditsFrom: { row: "text", absent: true, record: "policy", from: "made", shared: true, audit: "credits" },
  refill: { row: "refill", absent: true, record: "policy", from: "made", shared: true, audit: "credits" },
  refillCursor: { row: "integer", absent: true, audit: "never" },
  generation: { row: "integer", usual: 0, record: "key", from: "made", shared: true, audit: "never" },
  deleted: { row: "flag", usual: false },
  updatedAt: { row: "integer", absent: true, shown: "unusual", audit: "never" },
  migrationId: { row: "text", absent: true },
  hash: { row: "text", absent: true },
  accountId: { row: "text", absent: true },
  rerolledFrom: { row: "text", absent: true, shown: "unusual" },
  rerolledTo: { row: "text", absent: true, shown: "unusual" },
  hasGrants: { row: "flag", absent: true, shared: true, audit: "never" },
  refillCalendar: { row: "count", absent: true, shared: true, audit: "never" },
  // Last in a body: taking the tables back to a version without them cuts them off its end.
  deletedAt: { row: "time", absent: true, shown: "unusual", audit: "never" },
  deletedBy: { row: "text", absent: true, shown: "unusual", audit: "never" },

  ref: { record: "key", from: "made" },
  keyId: { record: "key", from: "made" },
  identity: { absent: true, record: "rare", from: "made" },
  ownerDisabled: { absent: true, record: "policy", from: "made" },
  ownerExpires: { absent: true, record: "rare", from: "made" },
  account: { absent: true, record: "rare", from: "made" },
  wallets: { absent: true, record: "rare", from: "made" },
  grantIds: { absent: true, record: "policy", from: "made" },
  parentDisabled: { record: "policy", from: "made" },
  unadopted: { record: "find", from: "made" },
  startUnknown: { absent: true, record: "key", from: "made" },
  ipAllowlists: { usual: NONE, record: "rare", from: "made" },
} as const satisfies Fields;

type Table = typeof KEY_FIELDS;
/** One entry of the table. */
export interface KeyField extends Omit<RowField<unknown>, "row"> {
  readonly row?: Shape;
  readonly absent?: true;
  readonly usual?: unknown;
  readonly record?: RecordPart;
  readonly from?: "row" | "made";
}
/** The names of the fields whose entry matches all of `Said`. */
export type FieldsThat<Said extends KeyField> = { [K in keyof Table]: Table[K] extends Said ? K : never }[keyof Table];

/** {@link FieldsThat} as values, in the order of the table. */
export function fieldsThat<const Said extends KeyField>(said: Said): readonly FieldsThat<Said>[] {
  const fits = (field: KeyField) =>
    Object.entries(said).every(([what, value]) => field[what as keyof KeyField] === value);
  return (Object.keys(KEY_FIELDS) as (keyof Table)[]).filter((name) => fits(KEY_FIELDS[name])) as FieldsThat<Said>[];
}
