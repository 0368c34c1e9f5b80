/**
 * Readers of what a store may return: one table for each type of the port, complete because the compiler checks its
 * fields.
 */
import type { AuditChange, AuditCredits, AuditSlice } from "../../contracts/audit.js";
import type { AlertRow } from "../../contracts/alerts.js";
import { type FieldsThat, fieldsThat, KEY_FIELDS, type KeyField, type Shape } from "../../contracts/key-fields.js";
import { type CreditDay, type FlushResult, OUTCOMES, type OutcomeRow, type Refusal } from "../../contracts/outcomes.js";
import type * as Port from "../../contracts/store.js";
import type { Identity, Json, RatelimitResponse, Refill } from "../../contracts/types.js";
import { MAX_DATE_MS } from "../check-options.js";
import {
  type Fields,
  flag,
  integer,
  json,
  list,
  Malformed,
  object,
  oneOf,
  optional,
  orNull,
  type Reader,
  text,
} from "./readers.js";

/** An id or another name. */
const name = text(1);
const names = list(name);
const anyText = text(0);
const count = integer(0);
const signedCount = integer(Number.MIN_SAFE_INTEGER);
const time = integer(-MAX_DATE_MS, MAX_DATE_MS);
/** True, or absent. */
const trueOnly = (value: unknown): true => {
  if (value !== true) throw new Malformed("must be true where it is there");
  return value;
};

/** What is told of a change. */
const part: Reader<Json> = (value) => json({ value })["value"] as Json;

const ref: Reader<Port.KeyRef> = (value) =>
  typeof value === "number" ? integer(Number.MIN_SAFE_INTEGER)(value) : name(value);

const limits = list(
  object<RatelimitResponse>({
    id: name,
    name,
    limit: count,
    duration: count,
    autoApply: flag,
  }),
);

const refillFields = {
  interval: oneOf("hourly", "daily", "weekly", "monthly"),
  amount: count,
  refillDay: optional(integer(1, 31)),
  timeZone: optional(name),
  rollover: optional(count),
};
const refillOf =
  <R extends Refill>(read: Reader<object>): Reader<R> =>
  (value) => {
    const parts = read(value) as R;
    // As read: a store of the program's own may lack the day.
    const { interval, refillDay }: Pick<Refill, "interval"> & { readonly refillDay?: number } = parts;
    if ((interval === "weekly" || interval === "monthly") && refillDay === undefined)
      throw new Malformed(`must be there with a ${interval} refill`, "refillDay");
    if (interval === "weekly" && refillDay! > 7)
      throw new Malformed("must be 1 to 7 with a weekly refill", "refillDay");
    return parts;
  };
const refill = refillOf<Refill>(object(refillFields));
const numberedRefill = refillOf<Port.NumberedRefill>(object({ ...refillFields, calendar: optional(count) }));

const identity = object<Identity>({
  id: name,
  externalId: name,
  meta: optional(json),
  ratelimits: optional(limits),
});

/** The reader of each named shape. */
const SHAPES: { readonly [S in Extract<Shape, string>]: Reader<unknown> } = {
  text: anyText,
  name,
  integer: integer(Number.MIN_SAFE_INTEGER),
  count,
  time,
  flag,
  meta: json,
  refill,
};

function readerOf(shape: Shape): Reader<unknown> {
  if (typeof shape === "string") return SHAPES[shape];
  if (isListShape(shape)) return list(readerOf(shape[0]));
  return object(Object.fromEntries(Object.entries(shape).map(([part, inner]) => [part, readerOf(inner)])));
}

const isListShape = (shape: Exclude<Shape, string>): shape is readonly [Shape] => Array.isArray(shape);

/** Readers of the row fields in KEY_FIELDS. */
const SHAPED = Object.fromEntries(
  Object.entries<KeyField>(KEY_FIELDS).flatMap(([field, { row, absent }]) => {
    if (row === undefined) return [];
    return [[field, absent === true ? optional(readerOf(row)) : readerOf(row)]];
  }),
) as Fields<Port.KeyRow>;
const { workspaceId: _, ...ofRow } = SHAPED;

/** A result of `findWallet`. */
export const ownedWallet = object<Port.OwnedWallet>({
  owner: oneOf("key", "identity"),
  accounts: list(
    object<Port.DrawnAccount>({
      ...{ ref, generation: count, grantId: optional(name), priority: integer(0, 255), createdAt: time },
      ...{ expires: optional(time), refill: optional(numberedRefill) },
    }),
  ),
});

/** Result of a find. */
export const keyRecord = object<Port.KeyRecord>({
  ...(Object.fromEntries(fieldsThat({ from: "row" }).map((field) => [field, SHAPED[field]])) as Pick<
    Fields<Port.KeyRow>,
    FieldsThat<{ from: "row" }>
  >),
  ref,
  keyId: name,
  hasCredits: flag,
  creditsFrom: optional(oneOf("identity")),
  refill: optional(numberedRefill),
  generation: SHAPED.generation,
  workspaceId: name,
  apiId: name,
  permissions: names,
  roles: names,
  grantIds: optional(names),
  identity: optional(identity),
  ownerDisabled: optional(trueOnly),
  ownerExpires: optional(time),
  ratelimits: limits,
  parentDisabled: flag,
  unadopted: flag,
  startUnknown: optional(trueOnly),
  ipAllowlists: list(names),
  account: optional(object<Port.SharedAccount>({ ref, id: name })),
  wallets: optional(list(ownedWallet)),
});

/** Result of a spend. */
export const spend = object<Port.Spend>({
  ok: flag,
  remaining: orNull(count),
  least: optional(integer(0, 1)),
  forfeited: optional(count),
  stale: optional(trueOnly),
  refused: optional(oneOf("full", "open")),
  balances: optional(list(list(orNull(count)))),
});

const settlementParts = object<{ settled: boolean; reason?: string | undefined; kept?: readonly number[] | undefined }>(
  {
    settled: flag,
    kept: optional(list(count)),
    reason: optional(oneOf("settled", "expired", "voided", "unknown", "exceeds")),
  },
);
/** Result of `settleCredits`. */
export const settlement: Reader<Port.Settlement> = (value) => {
  const parts = settlementParts(value);
  if (parts.settled === (parts.reason !== undefined))
    throw new Malformed("must be there where it is not settled, and only there", "reason");
  return parts as Port.Settlement;
};

/** Result of `spendOnce`. */
export const onceSpend = object<Port.OnceSpend>({
  outcome: oneOf("done", "repeated", "mismatch", "full"),
  spend: optional(spend),
});

/** Result of a draw. */
export const draw = object<Port.Draw>({
  drawn: count,
  generation: count,
  remaining: orNull(count),
  forfeited: optional(count),
  stale: optional(trueOnly),
  ended: optional(trueOnly),
});

const totals = {
  credited: count,
  refilled: count,
  adjusted: signedCount,
  spent: count,
  forfeited: count,
  expired: optional(count),
};

/** A result of `readBalances`. */
export const balance = object<Port.CountedBalance>({
  remaining: orNull(count),
  period: count,
  reserved: count,
  totals: optional(object<Port.CreditTotals>(totals)),
});

/** Result of `countOutcomes`. @param cells of the flush */
export const flushResult = (cells: number): Reader<FlushResult> =>
  object<FlushResult>({
    outcome: oneOf("counted", "repeated", "gap"),
    folded: list(integer(0, cells - 1), cells),
    busy: optional(count),
  });

/** A part of the result of `write`. */
export const writtenBalance = object<Port.WrittenBalance>({
  remaining: orNull(count),
  reserved: count,
  added: signedCount,
});

/** A result of `readOutcomes`. */
export const outcomeRow = object<OutcomeRow>({
  time: optional(time),
  apiId: optional(anyText),
  keyId: optional(anyText),
  externalId: optional(anyText),
  tags: optional(list(name)),
  counts: list(count, OUTCOMES.length),
  spent: count,
  rows: count,
});

/** A result of `readCreditDays`. */
export const creditDay = object<CreditDay>({
  ...totals,
  ...{ account: name, externalId: optional(anyText), isCap: optional(flag), day: time, balance: count },
  ...{ keyId: optional(name), identityId: optional(name), grantId: optional(name), expires: optional(time) },
});

const refusedCode = oneOf(...OUTCOMES.filter((code) => code !== "VALID" && code !== "NOT_FOUND"));
/** A part of the result of `readRefusals`. */
export const refusal = object<Refusal>({
  ...{ time, code: refusedCode, kind: optional(oneOf("spend")), cost: count, remaining: optional(count) },
  ...{ decidedBy: optional(oneOf("identity", "api")), permissions: optional(anyText), address: optional(anyText) },
  ratelimit: optional(
    object<NonNullable<Refusal["ratelimit"]>>({
      ...{ name: anyText, limit: count, duration: count, remaining: count, reset: count },
    }),
  ),
  tags: optional(list(anyText)),
});

/** A result of `listAlerts` and `takeAlerts`. */
export const alertRow = object<AlertRow>({
  ...{ number: count, kind: name, subject: name, body: name, tries: count, due: optional(time) },
});

const versioned = { id: name, version: count };
const owned = { ...versioned, workspaceId: name };

/** Readers of the fields of rows, by table. */
const ROWS: { readonly [T in Port.Table]: Fields<Port.Rows[T]> } = {
  workspaces: { ...versioned, enabled: flag },
  apis: {
    ...owned,
    name: anyText,
    enabled: flag,
    ipAllowlist: names,
    deleted: flag,
    createdAt: time,
  },
  identities: {
    ...owned,
    externalId: name,
    meta: optional(json),
    enabled: optional(flag),
    expires: optional(time),
    ratelimits: limits,
    hasCredits: optional(flag),
    refill: optional(refill),
    refillCursor: optional(integer(Number.MIN_SAFE_INTEGER)),
    refillCalendar: optional(count),
    generation: optional(SHAPED.generation),
    hasGrants: optional(trueOnly),
  },
  roles: {
    ...owned,
    name,
    description: optional(anyText),
    permissions: names,
  },
  permissions: {
    ...owned,
    name: anyText,
    slug: name,
    description: optional(anyText),
  },
  migrations: { ...owned, algorithm: name },
  rootKeys: {
    ...owned,
    digest: name,
    start: anyText,
    name: optional(anyText),
    permissions: names,
    expires: optional(time),
    enabled: flag,
    deleted: optional(trueOnly),
    createdAt: time,
  },
  namespaces: {
    ...owned,
    name,
    wildcards: optional(list(object<Port.WildcardRef>({ id: name, identifier: anyText }))),
    createdAt: time,
  },
  overrides: {
    ...owned,
    namespaceId: name,
    identifier: anyText,
    limit: count,
    duration: count,
  },
  grants: {
    ...owned,
    identityId: optional(name),
    accountId: optional(name),
    grantId: name,
    amount: count,
    priority: integer(0, 255),
    expires: optional(time),
    reason: optional(anyText),
    createdAt: time,
    endedAt: optional(time),
    hasCredits: flag,
    refill: optional(refill),
    refillCursor: optional(integer(Number.MIN_SAFE_INTEGER)),
    refillCalendar: optional(count),
    generation: SHAPED.generation,
  },
  keys: {
    ...ofRow,
    ...owned,
    apiId: name,
    digest: optional(name),
    foreignDigest: optional(name),
    identityId: optional(name),
    creditsFrom: optional(oneOf("none", "key")),
    hasGrants: optional(trueOnly),
    permissions: names,
    roles: names,
    ratelimits: limits,
    ipAllowlist: names,
    createdAt: time,
  },
};

/** Readers of rows, by table. */
export const rows = Object.fromEntries(
  Object.entries(ROWS).map(([table, fields]) => [table, object(fields as Fields<object>)]),
) as unknown as { readonly [T in Port.Table]: Reader<Port.Rows[T]> };

/** A result of `searchKeys`. */
export const keySlice = (limit: number): Reader<Port.KeySlice> =>
  object<Port.KeySlice>({
    keys: list(rows.keys, limit),
    looked: count,
    last: optional(object<Port.KeyPosition>({ id: name, expires: optional(time) })),
  });

/** A result of `countKeys`. */
export const keyCounts = object<Port.KeyCounts>({
  total: count,
  disabled: count,
  expired: count,
  last: optional(name),
});

/** A result of `readAudit`. */
export const auditSlice = (limit: number): Reader<AuditSlice> =>
  object<AuditSlice>({
    entries: list(
      object<AuditSlice["entries"][number]>({
        number: count,
        time,
        workspaceId: name,
        actorKind: name,
        actor: optional(anyText),
        operation: name,
        ids: names,
        fields: names,
        reason: optional(anyText),
        changes: optional(
          list(
            object<AuditChange>({
              ...{ field: name, from: optional(part), to: optional(part) },
              ...{ removed: optional(list(part)), added: optional(list(part)) },
            } satisfies Fields<AuditChange>),
          ),
        ),
        credits: optional(
          object<AuditCredits>({
            added: signedCount,
            remaining: orNull(count),
            grantId: optional(anyText),
          }),
        ),
        count,
      }),
      limit,
    ),
    next: optional(count),
  });
