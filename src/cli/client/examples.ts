/** Example command lines for the help of each operation. A test checks that every example is a valid request. */
import type { Flag } from "./flags.js";

/** Sample values by property, valid for every operation. */
const SAMPLES: Readonly<Record<string, string>> = {
  apiId: "api_4fY2rTqL",
  duration: "60000",
  expiration: "86400000",
  externalId: "user_17",
  identifier: "user_17",
  identity: "user_17",
  key: "sk_3vQy8H…",
  keyId: "key_9mKp2XwZ",
  keys: `'[{"hash":"d04b98f48e8f8bcc…"}]'`,
  limit: "100",
  migrationId: "mig_2019",
  name: '"first key"',
  namespace: "emails",
  operation: "increment",
  permission: "documents.read",
  permissions: `'["documents.read"]'`,
  role: "reader",
  roleId: "role_7Gd3",
  roles: `'["reader"]'`,
  slug: "documents.read",
  value: "100",
};

/** Optional flags that examples show. */
const SHOWN_OPTIONAL: ReadonlySet<string> = new Set(["value"]);

/** A command line with each required flag. */
export function exampleOf(command: string, flags: readonly Flag[]): string {
  const shown = flags.filter(({ name, isRequired }) => isRequired || SHOWN_OPTIONAL.has(name));
  const given = shown.map(({ name, flag }) => `${flag} ${SAMPLES[name] ?? "…"}`);
  return ["keystile", "api", command, ...given].join(" ");
}
