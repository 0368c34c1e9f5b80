/** Declares how the keys of an import were hashed, before they are imported. */
import type { Context } from "../context.js";
import type { Operation } from "../operation.js";
import { ownedRow } from "../rows.js";
import { migrationId } from "../schemas/imports.js";
import type { CreateMigrationRequestBody } from "../schemas/migration-requests.js";
import { body, checked, optional, text } from "../schemas/primitives.js";
import type { CreateMigrationResponseData } from "../schemas/responses.js";
import { insertNamed } from "../write.js";
import { explainAlgorithm } from "./imported-hash.js";

/**
 * @throws KeystileError BAD_REQUEST, at `body.algorithm` also for an algorithm that is not known or cannot be looked up
 *   by hash · CONFLICT: the id exists
 */
export const createMigration: Operation<Context, CreateMigrationRequestBody, CreateMigrationResponseData> = {
  name: "createMigration",
  schema: ({ algorithms }) =>
    body<CreateMigrationRequestBody>()({
      id: optional(migrationId),
      algorithm: checked(text(1, 255), (name) => explainAlgorithm(algorithms, name)),
    }),
  async act(context, { id, algorithm }) {
    const now = context.clock();
    const row = { ...ownedRow(context, id ?? context.newId("mig", now)), algorithm };
    await insertNamed(context, { table: "migrations", row }, "A migration with this id");
    return { migrationId: row.id };
  },
};
