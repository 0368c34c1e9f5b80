/** Reads a key's stored metadata through the program's schema: a result never shows metadata that does not fit. */
import { KeystileError } from "../contracts/errors.js";
import type { StandardSchema } from "../contracts/standard-schema.js";
import type { JsonObject, MaybePromise } from "../contracts/types.js";
import { type MetaOutcome, validateMeta } from "../lib/meta-schema.js";
import { isThenable } from "../lib/thenable.js";

/** Metadata as the schema returns it. */
export interface MetaRead {
  readonly value: unknown;
}

/**
 * @param keyId names the key in the error
 * @returns a promise only if the schema does
 * @throws KeystileError META_INVALID: names the places that do not fit, not their values
 */
export function metaReader(schema: StandardSchema): (meta: JsonObject, keyId: string) => MaybePromise<MetaRead> {
  return (meta, keyId) => {
    const outcome = validateMeta(schema, meta);
    return isThenable(outcome) ? outcome.then((settled) => readOutcome(settled, keyId)) : readOutcome(outcome, keyId);
  };
}

function readOutcome(outcome: MetaOutcome, keyId: string): MetaRead {
  if ("value" in outcome) return outcome;
  const places = [...new Set(outcome.problems.map(({ location }) => location.slice("body.".length)))].join(", ");
  throw new KeystileError("META_INVALID", `the stored metadata of ${keyId} does not fit options.meta, at ${places}`);
}
