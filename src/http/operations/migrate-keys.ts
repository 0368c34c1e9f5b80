/** Operation `keys.migrateKeys` (spec §4.2). Keys are validated in batches, so that a request may have thousands. */
import { badRequest, type ValidationProblem } from "../../contracts/errors.js";
import { checkImport } from "../../keyring/import/import-batches.js";
import { type JsonSchema, toJsonSchema } from "../../keyring/schemas/json-schema.js";
import * as schemas from "../../keyring/schemas/keys.js";
import type { V2KeysMigrateKeysRequestBody } from "../../keyring/schemas/migration-requests.js";
import { validate } from "../../keyring/schemas/parse.js";
import { readOwnProperties } from "../../lib/copy-json.js";
import { onApi } from "./access.js";
import { define, type Operation } from "./operation.js";
import * as answer from "./responses.js";
import { type Named, namingInKeys } from "./role-access.js";

/**
 * Permissions that one request may make, as any other operation that names some: they stay. Keys of a batch: so many
 * take about 4 ms in one transaction.
 */
const OPTIONS = { maxNewPermissions: 1_000, specifiedFieldsOnly: true, batchSize: 250 };

const operation = define({
  name: "keys.migrateKeys",
  summary: "Takes in keys that were hashed elsewhere; those that cannot go in are listed in `failed`.",
  schema: schemas.migrateKeys,
  request: describeRequest(),
  read: readFrame,
  answer: answer.migration,
  access: namingInKeys(onApi("create_key"), namedByKeys),
  async act({ keyring }, request) {
    const { migrated, failed } = await keyring.migrateKeys(request, OPTIONS);
    return { migrated, failed: failed.map(({ hash }) => hash) };
  },
});

/**
 * `perform` validates only the frame before it checks the caller; the keyring then validates the keys, a few µs each.
 */
export const migrateKeys: Operation = { ...operation, validate: checkImport };

function readFrame(body: unknown): V2KeysMigrateKeysRequestBody {
  const problems: ValidationProblem[] = [];
  const frame = validate(schemas.migrateKeys, readOwnProperties(body) ?? body, "body", problems);
  if (frame === undefined) throw badRequest(problems);
  return frame;
}

/** What the keys of a request name, before they are validated. */
function namedByKeys({ keys }: V2KeysMigrateKeysRequestBody): readonly Named[] {
  const named: Named[] = [];
  for (const key of Array.isArray(keys) ? (keys as readonly unknown[]) : []) {
    const { permissions, roles, externalId } = readOwnProperties(key) ?? {};
    named.push({
      permissions: textsOf(permissions),
      roles: textsOf(roles),
      ...(typeof externalId === "string" && { externalId }),
    });
  }
  return named;
}

function textsOf(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((text) => typeof text === "string") : [];
}

function describeRequest(): JsonSchema {
  const frame = toJsonSchema(schemas.migrateKeys);
  const keys = { ...frame.properties?.["keys"], items: toJsonSchema(schemas.migratedKey) };
  return { ...frame, properties: { ...frame.properties, keys } };
}
