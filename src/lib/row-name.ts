/** The names of rows. */
import type { NamedTable, Rows } from "../contracts/store.js";
import { overrideName } from "./override-name.js";

/** The name of a row in its workspace. */
export const NAME_OF: { readonly [T in NamedTable]: (row: Rows[T]) => string } = {
  identities: ({ externalId }) => externalId,
  roles: ({ name }) => name,
  permissions: ({ slug }) => slug,
  migrations: ({ id }) => id,
  rootKeys: ({ digest }) => digest,
  namespaces: ({ name }) => name,
  overrides: overrideName,
  grants: ({ identityId, accountId, grantId }) => `${identityId ?? accountId} ${grantId}`,
};
