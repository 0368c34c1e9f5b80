/** The contents of a whole store, page by page, as one SQL store hands them to another. */
import type { IdentityRow, KeyRow, OnceRecord, Rows } from "../../contracts/store.js";
import type { Account } from "../../credits/account.js";
import type { EntityTable } from "./entity-codec.js";

/** A key with what its row alone does not say. */
export interface ExportedKey {
  /** Its number, which its ref is. */
  readonly number: number;
  /** Number of the account that it shares; `undefined`: its own. */
  readonly sharedAccount: number | undefined;
  readonly row: KeyRow;
  /** Its account, without leases; `undefined`: it never had one. */
  readonly account: Account | undefined;
}

/** An identity, likewise. */
export interface ExportedIdentity {
  /** Number of its account. */
  readonly number: number;
  readonly row: IdentityRow;
  /** Its account, without leases; `undefined`: it never had one. */
  readonly account: Account | undefined;
}

/** An entry of the audit trail, as people read it. */
export interface ExportedAudit {
  readonly number: number;
  readonly time: string;
  readonly workspaceId: string;
  readonly actorKind: string;
  readonly actor: string | null;
  readonly operation: string;
  readonly ids: readonly string[];
  readonly fields: readonly string[];
  readonly count: number;
}

/** Tables of counts and alerts, with the columns of their primary keys: the same in both SQL stores. */
export const COUNT_TABLES = {
  subjects: ["number"],
  tag_sets: ["number"],
  outcomes_hour: ["bucket", "subject", "tag_set"],
  outcomes_day: ["bucket", "subject", "tag_set"],
  credit_days: ["account", "seq"],
  alerts: ["number"],
} as const;
/** A table of counts. Those of minutes are of one store alone. */
export type CountTable = keyof typeof COUNT_TABLES;
/** A row by columns, in which 0 may be null. */
export type CountRow = Readonly<Record<string, string | number | null>>;

/** Tables whose rows have no account. */
export type PlainTable = Exclude<EntityTable, "identities">;

/** Up to 1,000 rows of one kind. */
export type ExportedPage =
  | { readonly kind: PlainTable; readonly rows: readonly Rows[PlainTable][] }
  | { readonly kind: "identities"; readonly rows: readonly ExportedIdentity[] }
  | { readonly kind: "keys"; readonly rows: readonly ExportedKey[] }
  | { readonly kind: "idempotency"; readonly rows: readonly OnceRecord[] }
  | { readonly kind: "audit"; readonly rows: readonly ExportedAudit[] }
  | { readonly kind: CountTable; readonly rows: readonly CountRow[] };
