/** The one table of operations: routes, OpenAPI and the command line are made of it. Spec §4, §9-3. Knows no shell. */
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
 * Every operation that takes a caller, by name: `OPERATIONS["keys.verifyKey"]`. Each is `POST /v2/<name>`.
 *
 * `GET /v2/liveness` takes none and is the server's own. Root keys and migrations are made on the file itself, so that no root
 * key can make another.
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
