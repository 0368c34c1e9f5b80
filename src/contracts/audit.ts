/** An entry of the audit trail: who changed what, and when. Types only. */

/** One change that administration made. Contains ids and names of fields; no value, key, hash or token. */
export interface AuditEntry {
  /** Unix time, milliseconds. */
  readonly time: number;
  readonly workspaceId: string;
  /**
   * What kind of caller it was: `program` for the program itself, `rootKey` or `proxyToken` for a credential, what an
   * authenticator of your own says, else `caller`.
   */
  readonly actorKind: string;
  /**
   * Id of the root key, subject of the token, or for `program` the option `actor`; at most 1,024 characters. Absent:
   * not known.
   */
  readonly actor?: string;
  /** The operation, such as `createKey` or `setOverride`. */
  readonly operation: string;
  /** Of the rows that were made, changed or removed, at most 100; of an import those of the migration and the API. */
  readonly ids: readonly string[];
  /** Names of the fields that were changed, sorted; empty for what was made or removed. */
  readonly fields: readonly string[];
  /** How many rows were made, changed or removed; of an import: keys. */
  readonly count: number;
}
