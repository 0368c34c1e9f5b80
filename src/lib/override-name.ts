/** The name under which an override is stored. */
import type { OverrideRow } from "../contracts/store.js";

/** The name of an override within its workspace. Ids of namespaces have no spaces. */
export function overrideName({ namespaceId, identifier }: Pick<OverrideRow, "namespaceId" | "identifier">): string {
  return `${namespaceId} ${identifier}`;
}
