/** The table of operations, from which routes, OpenAPI and the command line are built (contract 4, 9-3). */
import { analyticsOperations } from "./analytics.js";
import { apiOperations } from "./apis.js";
import { identityOperations } from "./identities.js";
import { explainKey } from "./explain-key.js";
import { grantOperations, keyOperations } from "./keys.js";
import { migrateKeys } from "./migrate-keys.js";
import type { Operation } from "./operation.js";
import { permissionOperations } from "./permissions.js";
import { ratelimitOperations } from "./ratelimits.js";
import { verifyKey } from "./verify-key.js";
import { workspaceOperations } from "./workspace.js";

/**
 * Every operation that needs a caller, by name: `OPERATIONS["keys.verifyKey"]`. Each is `POST /v2/<name>`.
 *
 * `GET /v2/liveness` needs none and is not in the table. Root keys and migrations are created on the database, so that
 * no root key can create another.
 */
export const OPERATIONS: Readonly<Record<string, Operation>> = Object.freeze(
  Object.assign(
    Object.create(null) as Record<string, Operation>,
    Object.fromEntries(
      [
        verifyKey,
        explainKey,
        ...keyOperations,
        migrateKeys,
        ...grantOperations,
        ...apiOperations,
        ...identityOperations,
        ...permissionOperations,
        ...ratelimitOperations,
        ...analyticsOperations,
        ...workspaceOperations,
      ].map((operation) => [operation.name, operation]),
    ),
  ),
);
