/**
 * Parses an unknown value into a typed request: runs a schema, turns its issues into problems at JSON paths. Contract
 * 2.4.
 */
import * as v from "valibot";
import { badRequest, type ValidationProblem } from "../../contracts/errors.js";
import { copyBody } from "../../lib/copy-json.js";
import { HIDDEN_PROPERTY, MAX_PROBLEMS, PLAIN_NAME, UNKNOWN_PROPERTY, UNREADABLE } from "../../lib/problems.js";

/** A schema of what comes in, for requests of type `T`. */
export type Schema<T> = v.GenericSchema<unknown, T>;

/** A type with all properties required and readonly: schemas infer mutable lists, and `undefined` counts as absent. */
type Fixed<T> = string extends keyof T
  ? T
  : T extends readonly (infer Item)[]
    ? readonly Fixed<Item>[]
    : T extends (...args: never) => unknown
      ? T
      : T extends object
        ? { readonly [K in keyof T]-?: Fixed<Exclude<T[K], undefined>> }
        : T;
/** The names of the properties that may be left out. */
export type OptionalKey<T> = { [K in keyof T]-?: object extends Pick<T, K> ? K : never }[keyof T];
type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : false) : false;
/** Whether two request types are equal: the same properties, the same of them optional, and each of the same type. */
export type Exact<A, B> = [Same<keyof A, keyof B>, Same<OptionalKey<A>, OptionalKey<B>>, Same<Fixed<A>, Fixed<B>>];

/** What the compiler says of a schema that is not that of its type: the properties in which they differ. */
export type Differing<A, B> = `the schema and its type differ in ${{
  [K in keyof A | keyof B]: Exact<Pick<A, K & keyof A>, Pick<B, K & keyof B>> extends [true, true, true]
    ? never
    : K & string;
}[keyof A | keyof B]}`;

/** Separates a message from its fix in the schemas, since a schema's message is one text. */
const FIX = "\n";

/** A message with its fix. */
export function withFix(message: string, fix: string): string {
  return message + FIX + fix;
}

/**
 * Copies the body once and validates the copy, so that getters and later changes have no effect.
 * @throws KeystileError BAD_REQUEST with every problem of the request
 */
export function parse<T>(schema: Schema<T>, body: unknown): T {
  const problems: ValidationProblem[] = [];
  const value = validate(schema, readBody(body, copyBody), "body", problems);
  if (value === undefined) throw badRequest(problems);
  return value;
}

/** What `copy` makes of a request. @throws KeystileError BAD_REQUEST: it cannot be read */
export function readBody<T>(body: unknown, copy: (body: unknown) => T): T {
  try {
    return copy(body);
  } catch {
    throw badRequest([{ location: "body", ...UNREADABLE }]);
  }
}

/**
 * Validates a value that is already a copy of the caller's.
 * @param problems receives every problem found, up to 100 in all
 * @returns `undefined` when there was one
 */
export function validate<T>(
  schema: Schema<T>,
  value: unknown,
  location: string,
  problems: ValidationProblem[],
): T | undefined {
  // Explicit, since a program may have changed valibot's global defaults.
  const result = v.safeParse(schema, value, { abortEarly: false, abortPipeEarly: false });
  // Not the output, whose objects inherit from a possibly polluted prototype. No schema here changes what it accepts.
  if (result.success) return value as T;
  for (const issue of result.issues) {
    if (problems.length < MAX_PROBLEMS) problems.push(toProblem(issue, location));
  }
  return undefined;
}

function toProblem(issue: v.BaseIssue<unknown>, root: string): ValidationProblem {
  let location = root;
  for (const { key } of issue.path ?? []) {
    if (typeof key === "number") location += `[${key}]`;
    else if (PLAIN_NAME.test(String(key))) location += `.${String(key)}`;
    else return { location, ...HIDDEN_PROPERTY };
  }
  if (isUnknownProperty(issue)) return { location, ...UNKNOWN_PROPERTY };
  if (issue.path?.at(-1)?.origin === "key") return { location, message: "is required" };
  const [message = "", fix] = issue.message.split(FIX);
  return fix === undefined ? { location, message } : { location, message, fix };
}

/** Whether valibot found a property that the object may not have. It names only the first of an object. */
export function isUnknownProperty(issue: v.BaseIssue<unknown>): boolean {
  return issue.expected === "never" && issue.path?.at(-1)?.origin === "key";
}
