/** The contents of a whole store, page by page, as one SQL store hands them to another. */
import type { AccountTable, KeyRow, Rows } from "../../contracts/store.js";
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

/** An identity or a grant, likewise. */
export interface ExportedOwner {
  /** Number of its account. */
  readonly number: number;
  readonly row: Rows[OwningTable];
  /** Its account, without leases; `undefined`: it never had one. */
  readonly account: Account | undefined;
}

/**
 * Tables that no port of a store writes row by row: audit trail, idempotency keys, counts, alerts. Both SQL stores have
 * the same columns in them, of which these are the primary key.
 */
export const SHARED_TABLES = {
  idempotency: ["id"],
  audit: ["number"],
  subjects: ["number"],
  tag_sets: ["number"],
  outcomes_hour: ["bucket", "subject", "tag_set"],
  outcomes_day: ["bucket", "subject", "tag_set"],
  credit_days: ["account", "seq"],
  alerts: ["number"],
} as const;
/** A table of {@link SHARED_TABLES}. Counts of minutes are of one store alone. */
export type SharedTable = keyof typeof SHARED_TABLES;
/** A row by columns, in which a count of 0 may be null. */
export type SharedRow = Readonly<Record<string, string | number | null | readonly string[]>>;
/** Up to 1,000 rows of a table. */
export type SharedPage = { readonly kind: SharedTable; readonly rows: readonly SharedRow[] };

/** Tables beside keys whose rows have an account. */
export type OwningTable = Exclude<AccountTable, "keys">;
/** Tables whose rows have no account. */
export type PlainTable = Exclude<EntityTable, OwningTable>;

/** Up to 1,000 rows of one kind. */
export type ExportedPage =
  | { readonly kind: PlainTable; readonly rows: readonly Rows[PlainTable][] }
  | { readonly kind: OwningTable; readonly rows: readonly ExportedOwner[] }
  | { readonly kind: "keys"; readonly rows: readonly ExportedKey[] }
  | SharedPage;
