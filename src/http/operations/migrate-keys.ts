/** Operation `keys.migrateKeys` (contract 4.2). Keys are validated in batches, so that a request may have thousands. */
import { badRequest } from "../../contracts/errors.js";
import type { Context } from "../../keyring/context.js";
import { checkImport, type ImportFrame, readFrame } from "../../keyring/import/import-batches.js";
import { importKeys } from "../../keyring/import/migrate-keys.js";
import * as schemas from "../../keyring/schemas/imports.js";
import { type JsonSchema, toJsonSchema } from "../../keyring/schemas/json-schema.js";
import type { MigratedKey, MigrationResults } from "../../keyring/schemas/migration-requests.js";
import { readOwnProperties } from "../../lib/copy-json.js";
import { onApi } from "./access.js";
import { type Named, namingInKeys } from "./delegation.js";
import { group, type Operation } from "./operation.js";
import { arrayOf, object, text, texts } from "./responses.js";

/**
 * Permissions that one request may make, as any other operation that names some: they stay. Keys of a batch: so many
 * take about 4 ms in one transaction.
 */
const OPTIONS = { maxNewPermissions: 1_000, specifiedFieldsOnly: true, batchSize: 250 };

/** A frame without problems. */
interface Frame extends ImportFrame {
  readonly apiId: string;
}
type MigrationAnswer = Pick<MigrationResults, "migrated" | "failed">;

const act = (context: Context, frame: Frame): Promise<MigrationAnswer> => importKeys(context, frame, OPTIONS);

const operation = group("keys", ({ keyring }) => keyring)(
  { name: "migrateKeys", act },
  {
    reading: { request: describeRequest(), read: readWholeFrame },
    summary: "Takes in keys that were hashed elsewhere; those that cannot go in are listed in `failed`.",
    // Both are always arrays; of failures only the hashes are listed.
    answer: object<MigrationAnswer>({
      migrated: arrayOf(object<MigratedKey>({ hash: text, keyId: text })),
      failed: texts,
    }),
    access: namingInKeys(onApi("create_key"), namedByKeys),
    show: ({ migrated, failed }) => ({ migrated, failed: failed.map(({ hash }) => hash) }),
  },
);

/**
 * `perform` validates only the frame before it checks the caller; the keys are validated then, a few µs each.
 */
export const migrateKeys: Operation = { ...operation, validate: checkImport };

function readWholeFrame(body: unknown): Frame {
  const frame = readFrame(body);
  if (frame.fields === undefined) throw badRequest(frame.problems);
  return { ...frame, apiId: frame.fields.apiId };
}

/** What the keys of a request name, before they are validated. */
function namedByKeys({ keys }: Frame): readonly Named[] {
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
