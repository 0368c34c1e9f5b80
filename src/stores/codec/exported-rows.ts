/** The contents of a whole store, page by page, as one SQL store hands them to another. Types only. */
import type { KeyRow, OnceRecord, Rows } from "../../contracts/store.js";
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

/** Up to 1,000 rows of one kind. */
export type ExportedPage =
  | { readonly kind: EntityTable; readonly rows: readonly Rows[EntityTable][] }
  | { readonly kind: "keys"; readonly rows: readonly ExportedKey[] }
  | { readonly kind: "idempotency"; readonly rows: readonly OnceRecord[] }
  | { readonly kind: "audit"; readonly rows: readonly ExportedAudit[] };
