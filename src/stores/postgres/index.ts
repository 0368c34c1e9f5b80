/**
 * The entry `keystile/postgres`: keys in PostgreSQL, for any number of nodes. Imports no client: give it yours.
 * @module keystile/postgres
 */
export type { MaybePromise } from "../../contracts/types.js";
export type { PostgresClient, PostgresRow } from "./client.js";
export type { PostgresAuditOptions, PostgresOutageOptions, PostgresStoreOptions } from "./options.js";
export { setUpScript } from "./schema.js";
export type { PostgresStatus } from "./status.js";
export { postgresStore, type PostgresStore } from "./store.js";
