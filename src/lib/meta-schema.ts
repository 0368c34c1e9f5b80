/** Metadata of keys read through a program's own Standard Schema, where it is written and where it is verified. */
import type { ValidationProblem } from "../contracts/errors.js";
import type { SchemaIssue, StandardSchema } from "../contracts/standard-schema.js";
import type { JsonObject, MaybePromise } from "../contracts/types.js";
import type { Check } from "./check-options.js";
import { MAX_PROBLEMS, PLAIN_NAME } from "./problems.js";
import { isThenable } from "./thenable.js";

/** Longest message of a schema that is passed on. */
const MAX_MESSAGE = 200;

/** What a schema made of metadata, or the problems that it found. */
export type MetaOutcome = { readonly value: unknown } | { readonly problems: readonly ValidationProblem[] };

/** A Standard Schema: an object, or as in arktype a function. */
export const standardSchema: Check = (value, path) => {
  const isAny = (typeof value === "object" && value !== null) || typeof value === "function";
  const standard = isAny ? (value as Partial<StandardSchema>)["~standard"] : undefined;
  if (standard?.version !== 1 || typeof standard.validate !== "function")
    throw new TypeError(`${path} must be a Standard Schema, such as one of zod, valibot or arktype`);
};

/**
 * Validates metadata.
 * @param meta plain data; the schema gets it as it is
 * @throws what the schema throws; TypeError if what it returns is neither a value nor a list of issues
 */
export function validateMeta(schema: StandardSchema, meta: JsonObject): MaybePromise<MetaOutcome> {
  const validating = schema["~standard"].validate(meta);
  return isThenable(validating) ? Promise.resolve(validating).then(toOutcome) : toOutcome(validating);
}

/** The value must be the result's own: a polluted prototype makes nothing pass. Issues may be a getter of a class. */
function toOutcome(result: unknown): MetaOutcome {
  if (typeof result !== "object" || result === null) throw malformed();
  const { value, issues } = result as { readonly value?: unknown; readonly issues?: unknown };
  if (issues === undefined && Object.hasOwn(result, "value")) return { value };
  if (!Array.isArray(issues) || issues.length === 0) throw malformed();
  return { problems: (issues as readonly SchemaIssue[]).slice(0, MAX_PROBLEMS).map(toProblem) };
}

const malformed = (): TypeError => new TypeError("options.meta must return a value or a list of issues");

function toProblem({ message, path = [] }: SchemaIssue): ValidationProblem {
  let location = "body.meta";
  for (const step of path) {
    const key = typeof step === "object" ? step.key : step;
    if (typeof key === "number") location += `[${key}]`;
    else if (typeof key === "string" && PLAIN_NAME.test(key)) location += `.${key}`;
    else break;
  }
  return { location, message: message.slice(0, MAX_MESSAGE) };
}
