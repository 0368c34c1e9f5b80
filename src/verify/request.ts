/**
 * Validation of verification requests. A table has every field with its bounds; what reads them is written by hand for
 * speed, and the compiler sees that it reads each.
 */
import type { RatelimitCheck } from "../ratelimit/applied-limits.js";
import { badRequest, isKeystileError, type ValidationProblem } from "../contracts/errors.js";
import type { KeysVerifyKeyCredits, KeysVerifyKeyRatelimit, V2KeysVerifyKeyRequestBody } from "../contracts/types.js";
import { hasLength, hasOwnProperty, MAX_KEY_LENGTH } from "../lib/copy-json.js";
import { HIDDEN_PROPERTY, MAX_PROBLEMS, PLAIN_NAME, UNKNOWN_PROPERTY, UNREADABLE } from "../lib/problems.js";

const COUNT = { type: "integer", format: "int64", minimum: 0, maximum: Number.MAX_SAFE_INTEGER } as const;

const CREDITS = { cost: { ...COUNT, maximum: 1_000_000_000_000 } } as const satisfies Schemas<KeysVerifyKeyCredits>;

const RATELIMIT = {
  name: { type: "string", minLength: 3, maxLength: 255, description: "A limit of the key or its identity." },
  cost: { ...COUNT, default: 1 },
  limit: { ...COUNT, description: "Overrides the tokens of a window." },
  duration: { ...COUNT, description: "Overrides the window, milliseconds." },
} as const satisfies Schemas<KeysVerifyKeyRatelimit>;

const REQUEST = {
  key: {
    type: "string",
    minLength: 1,
    maxLength: MAX_KEY_LENGTH,
    description: "The key exactly as the user sent it.",
  },
  tags: { type: "array", maxItems: 20, items: { type: "string", minLength: 1, maxLength: 512 } },
  permissions: {
    type: "string",
    minLength: 1,
    maxLength: 1_000,
    description: "A permission query: names, AND, OR and parentheses, such as `documents.read AND (a OR b)`.",
  },
  credits: {
    type: "object",
    properties: CREDITS,
    required: ["cost"],
    additionalProperties: false,
    description: "Absent: a cost of 1.",
  },
  ratelimits: {
    type: "array",
    // All limits of a call are taken in one atomic step, which cannot be cut into turns.
    maxItems: 1_000,
    items: { type: "object", properties: RATELIMIT, required: ["name"], additionalProperties: false },
    description: "Limits to check besides the automatic ones.",
  },
  migrationId: {
    type: "string",
    minLength: 0,
    maxLength: 256,
    description: "Where a key unknown so far may have been imported.",
  },
} as const satisfies Schemas<V2KeysVerifyKeyRequestBody>;

/** The JSON Schema of a verification request: the one table of its fields, from which {@link readRequest} validates. */
export const REQUEST_SCHEMA = {
  type: "object",
  properties: REQUEST,
  required: ["key"],
  additionalProperties: false,
} as const;

type Schemas<T> = Readonly<Record<keyof T, object>>;
/** A name that the table lacks. The compiler takes no other as unknown: each name of the table must be read before. */
type Unlisted = string & { readonly unlisted: true };
type Text = { readonly minLength: number; readonly maxLength: number };
type Integer = { readonly minimum: number; readonly maximum: number };

/** A validated verification request; every value was read once. */
export interface VerificationRequest {
  readonly key: string;
  readonly tags: readonly string[];
  readonly permissions: string | undefined;
  /** Credits to take; 1 if the request names none. */
  readonly cost: number;
  readonly ratelimits: readonly RatelimitCheck[];
  readonly migrationId: string | undefined;
}

const EMPTY: readonly never[] = Object.freeze([]);

/**
 * Reads and validates a verification request. Own properties only, each read once.
 * @throws KeystileError BAD_REQUEST with every problem of the request, at `body.key`, `body.ratelimits[1].name`, …; at
 *   `body` if it is not an object
 * @see spec 2.1, spec 8 · about 60 ns for a key with a query
 */
export function readRequest(body: unknown): VerificationRequest {
  try {
    return read(body);
  } catch (cause) {
    if (isKeystileError(cause)) throw cause;
    throw badRequest([{ location: "body", ...UNREADABLE }]);
  }
}

function read(body: unknown): VerificationRequest {
  const problems: ValidationProblem[] = [];
  let key: unknown, tags: unknown, permissions: unknown, credits: unknown, ratelimits: unknown, migrationId: unknown;
  if (!isObject(body)) throw badRequest([{ location: "body", message: "must be an object" }]);
  // `for … in` allocates no list of names, and asks a Proxy for one descriptor after the other.
  for (const property in body) {
    if (!hasOwnProperty.call(body, property)) continue;
    const name = property as keyof typeof REQUEST | Unlisted;
    if (name === "key") key = body["key"];
    else if (name === "permissions") permissions = body["permissions"];
    else if (name === "credits") credits = body["credits"];
    else if (name === "ratelimits") ratelimits = body["ratelimits"];
    else if (name === "tags") tags = body["tags"];
    else if (name === "migrationId") migrationId = body["migrationId"];
    else unknownProperty("body", name, problems);
  }
  const request: VerificationRequest = {
    key: readText(key, "body.key", REQUEST.key, problems),
    tags: tags === undefined ? EMPTY : readTags(tags, problems),
    permissions:
      permissions === undefined ? undefined : readText(permissions, "body.permissions", REQUEST.permissions, problems),
    cost: credits === undefined ? 1 : readCredits(credits, problems),
    ratelimits: ratelimits === undefined ? EMPTY : readRatelimits(ratelimits, problems),
    migrationId:
      migrationId === undefined ? undefined : readText(migrationId, "body.migrationId", REQUEST.migrationId, problems),
  };
  if (problems.length > 0) throw badRequest(problems);
  return request;
}

function readTags(value: unknown, problems: ValidationProblem[]): readonly string[] {
  return readList(value, "body.tags", REQUEST.tags, problems, (tag, location) =>
    readText(tag, location, REQUEST.tags.items, problems),
  );
}

function readCredits(value: unknown, problems: ValidationProblem[]): number {
  if (!isObject(value))
    return (
      addProblem(problems, "body.credits", "must be an object", "send { cost }, or leave it out for a cost of 1"),
      0
    );
  let cost: unknown;
  for (const property in value) {
    if (!hasOwnProperty.call(value, property)) continue;
    const name = property as keyof typeof CREDITS | Unlisted;
    if (name === "cost") cost = value["cost"];
    else unknownProperty("body.credits", name, problems);
  }
  return readInteger(cost, "body.credits.cost", CREDITS.cost, problems);
}

function readRatelimits(value: unknown, problems: ValidationProblem[]): readonly RatelimitCheck[] {
  return readList(value, "body.ratelimits", REQUEST.ratelimits, problems, (check, location) =>
    readRatelimit(check, location, problems),
  );
}

function readRatelimit(value: unknown, location: string, problems: ValidationProblem[]): RatelimitCheck {
  let name: unknown, cost: unknown, limit: unknown, duration: unknown;
  if (!isObject(value)) addProblem(problems, location, "must be an object", "send { name }");
  else {
    for (const property in value) {
      if (!hasOwnProperty.call(value, property)) continue;
      const field = property as keyof typeof RATELIMIT | Unlisted;
      if (field === "name") name = value["name"];
      else if (field === "cost") cost = value["cost"];
      else if (field === "limit") limit = value["limit"];
      else if (field === "duration") duration = value["duration"];
      else unknownProperty(location, field, problems);
    }
    name = readText(name, `${location}.name`, RATELIMIT.name, problems);
  }
  return {
    name: name as string,
    cost: cost === undefined ? RATELIMIT.cost.default : readInteger(cost, `${location}.cost`, RATELIMIT.cost, problems),
    limit: limit === undefined ? undefined : readInteger(limit, `${location}.limit`, RATELIMIT.limit, problems),
    duration:
      duration === undefined ? undefined : readInteger(duration, `${location}.duration`, RATELIMIT.duration, problems),
  };
}

function readList<T>(
  value: unknown,
  location: string,
  { maxItems }: { readonly maxItems: number },
  problems: ValidationProblem[],
  readItem: (item: unknown, location: string) => T,
): readonly T[] {
  if (!Array.isArray(value)) return (addProblem(problems, location, "must be an array"), EMPTY);
  // Read once: a proxy's length may be any value, and differ each time.
  const { length } = value;
  if (!Number.isSafeInteger(length) || length < 0 || length > maxItems)
    return (addProblem(problems, location, `must have at most ${maxItems} items`), EMPTY);
  const items: T[] = [];
  for (let i = 0; i < length; i++) items.push(readItem(value[i], `${location}[${i}]`));
  return items;
}

function readText(
  value: unknown,
  location: string,
  { minLength, maxLength }: Text,
  problems: ValidationProblem[],
): string {
  if (typeof value !== "string") {
    addProblem(problems, location, value === undefined ? "is required" : "must be a string");
    return "";
  }
  if (!hasLength(value, minLength, maxLength))
    addProblem(problems, location, `must have ${minLength} to ${maxLength} characters`);
  if (!value.isWellFormed()) addProblem(problems, location, "must be well-formed text", "remove the lone surrogate");
  return value;
}

function readInteger(
  value: unknown,
  location: string,
  { minimum, maximum }: Integer,
  problems: ValidationProblem[],
): number {
  if (Number.isSafeInteger(value) && (value as number) >= minimum && (value as number) <= maximum)
    return (value as number) + 0;
  addProblem(
    problems,
    location,
    value === undefined ? "is required" : `must be an integer from ${minimum} to ${maximum}`,
  );
  return 0;
}

function unknownProperty(location: string, name: Unlisted, problems: ValidationProblem[]): void {
  const isPlain = PLAIN_NAME.test(name);
  const { message, fix } = isPlain ? UNKNOWN_PROPERTY : HIDDEN_PROPERTY;
  addProblem(problems, isPlain ? `${location}.${name}` : location, message, fix);
}

/** @throws KeystileError BAD_REQUEST at the last problem that is told: nothing is read beyond it */
function addProblem(problems: ValidationProblem[], location: string, message: string, fix?: string): void {
  problems.push(fix === undefined ? { location, message } : { location, message, fix });
  if (problems.length >= MAX_PROBLEMS) throw badRequest(problems);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
