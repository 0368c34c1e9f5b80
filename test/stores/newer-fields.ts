/** Fields of a key, and of an identity, that are newer than the first schema. */
import { KEY_FIELDS, type KeyField } from "../../src/contracts/key-fields.js";
import type { IdentityRow, KeyRow } from "../../src/contracts/store.js";
import { identity } from "../../src/testing/store/rows.js";
import { fullRow } from "../../src/testing/store/samples.js";
import { keyRow } from "./suite.js";

/** Those that keys have had since the first schema of each store: this list never grows. */
const FIRST = new Set(
  `id version workspaceId apiId identityId digest foreignDigest lastUsedAt permissions roles start createdAt name meta
  expires enabled ratelimits ipAllowlist hasCredits creditsFrom refill refillCursor generation deleted updatedAt
  migrationId hash accountId rerolledFrom rerolledTo`.split(/\s+/),
);

/**
 * For each newer field a key that has it. An earlier version would misread such a key: a step must cut the field off on
 * the way back, or refuse.
 */
export const NEWER_FIELDS: readonly (readonly [name: string, row: KeyRow])[] = Object.entries<KeyField>(
  KEY_FIELDS,
).flatMap(([name, { row }]) => {
  if (row === undefined || FIRST.has(name)) return [];
  const value = fullRow(1)[name as keyof ReturnType<typeof fullRow>];
  return [[name, { ...keyRow(1), deleted: name.startsWith("deleted"), [name]: value }] as const];
});

type FirstOfIdentities =
  | ("id" | "version" | "workspaceId" | "externalId" | "meta" | "ratelimits")
  | ("hasCredits" | "refill" | "refillCursor" | "generation");
const OF_IDENTITIES = {
  enabled: false,
  expires: 5,
  hasGrants: true,
  refillCalendar: 1,
} satisfies Required<Omit<IdentityRow, FirstOfIdentities>>;

/** The same of an identity. */
export const NEWER_OF_IDENTITIES = Object.entries(OF_IDENTITIES).map(
  ([name, value]) => [name, identity("user", { [name]: value })] as const,
);
