/** Validates metadata of keys with the program's schema, where it is written. */
import { badRequest } from "../contracts/errors.js";
import type { JsonObject } from "../contracts/types.js";
import { validateMeta } from "../lib/meta-schema.js";
import type { Context } from "./context.js";

/**
 * Metadata is stored as it was given, and not as the schema made it: each verification reads it anew.
 * @param meta null and undefined: none, which every schema admits
 * @throws KeystileError BAD_REQUEST at `body.meta`
 */
export async function requireMeta({ meta: schema }: Context, meta: JsonObject | null | undefined): Promise<void> {
  if (schema === undefined || meta == null) return;
  const outcome = await validateMeta(schema, meta);
  if ("problems" in outcome) throw badRequest(outcome.problems);
}
