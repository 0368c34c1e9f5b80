/** The names of rows. */
import type { NamedTable, Rows, OverrideRow } from "../contracts/store.js";

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

/** The name of an override within its workspace. Ids of namespaces have no spaces. */
export function overrideName({ namespaceId, identifier }: Pick<OverrideRow, "namespaceId" | "identifier">): string {
  return `${namespaceId} ${identifier}`;
}
