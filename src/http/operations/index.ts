/** The table of operations, from which routes, OpenAPI and the command line are built (spec §4, §9-3). */
import { apis } from "./apis.js";
import { identities } from "./identities.js";
import { keyGrants } from "./key-grants.js";
import { keys } from "./keys.js";
import { migrateKeys } from "./migrate-keys.js";
import type { Operation } from "./operation.js";
import { permissions } from "./permissions.js";
import { ratelimits } from "./ratelimits.js";
import { verifyKey } from "./verify-key.js";

/**
 * Every operation that needs a caller, by name: `OPERATIONS["keys.verifyKey"]`. Each is `POST /v2/<name>`.
 *
 * `GET /v2/liveness` needs none and is not in the table. Root keys and migrations are created on the database file, so
 * that no root key can create another.
 */
export const OPERATIONS: Readonly<Record<string, Operation>> = Object.freeze(
  Object.assign(
    Object.create(null) as Record<string, Operation>,
    Object.fromEntries(
      [verifyKey, ...keys, migrateKeys, ...keyGrants, ...apis, ...identities, ...permissions, ...ratelimits].map(
        (operation) => [operation.name, operation],
      ),
    ),
  ),
);
