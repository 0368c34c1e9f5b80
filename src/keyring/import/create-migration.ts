/** Declares how the keys of an import were hashed, before they are imported. */
import { badRequest, type ValidationProblem } from "../../contracts/errors.js";
import { copyBody } from "../../lib/copy-json.js";
import type { Context } from "../context.js";
import { insertNamed } from "../create-row.js";
import { ownedRow } from "../rows.js";
import * as schemas from "../schemas/keys.js";
import type { CreateMigrationRequestBody } from "../schemas/migration-requests.js";
import { readBody, validate } from "../schemas/parse.js";
import type { CreateMigrationResponseData } from "../schemas/responses.js";
import { problemsWithAlgorithm } from "./imported-hash.js";

/**
 * @throws KeystileError BAD_REQUEST, at `body.algorithm` also for an algorithm that is not known or cannot be looked up
 *   by hash · CONFLICT: the id exists
 */
export async function createMigration(
  context: Context,
  body: CreateMigrationRequestBody,
): Promise<CreateMigrationResponseData> {
  const problems: ValidationProblem[] = [];
  const copy = readBody(body, copyBody);
  const request = validate(schemas.createMigration, copy, "body", problems);
  const algorithm = (copy as { readonly algorithm?: unknown } | null | undefined)?.algorithm;
  const isValidated = problems.some(({ location }) => location === "body.algorithm");
  if (typeof algorithm === "string" && !isValidated)
    problems.push(...problemsWithAlgorithm(context.algorithms, algorithm));
  if (request === undefined || problems.length > 0) throw badRequest(problems);
  const now = context.clock();
  const row = { ...ownedRow(context, request.id ?? context.newId("mig", now)), algorithm: request.algorithm };
  await insertNamed(context, { table: "migrations", row }, "A migration with this id");
  return { migrationId: row.id };
}
