/** Validation of verification requests, with every bound of spec §8. */
import type { RatelimitCheck } from "../ratelimit/applied-limits.js";
import { badRequest, isKeystileError, type ValidationProblem } from "../contracts/errors.js";
import { hasLength, hasOwnProperty, MAX_KEY_LENGTH } from "../lib/copy-json.js";
import { HIDDEN_PROPERTY, MAX_PROBLEMS, PLAIN_NAME, UNKNOWN_PROPERTY, UNREADABLE } from "../lib/problems.js";

const MAX_TAGS = 20;
const TAG_LENGTH = 512;
const QUERY_LENGTH = 1_000;
const MIGRATION_ID_LENGTH = 256;
const MAX_COST = 1_000_000_000_000;
/** Spec §2.1 sets no bound. All limits of a call are taken in one atomic step, which cannot be cut into turns. */
const MAX_RATELIMITS = 1_000;
const LIMIT_NAME_LENGTH = { min: 3, max: 255 };

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
  for (const name in body) {
    if (!hasOwnProperty.call(body, name)) continue;
    if (name === "key") key = body["key"];
    else if (name === "permissions") permissions = body["permissions"];
    else if (name === "credits") credits = body["credits"];
    else if (name === "ratelimits") ratelimits = body["ratelimits"];
    else if (name === "tags") tags = body["tags"];
    else if (name === "migrationId") migrationId = body["migrationId"];
    else unknownProperty("body", name, problems);
  }
  const request: VerificationRequest = {
    key: readText(key, "body.key", 1, MAX_KEY_LENGTH, problems),
    tags: tags === undefined ? EMPTY : readTags(tags, problems),
    permissions:
      permissions === undefined ? undefined : readText(permissions, "body.permissions", 1, QUERY_LENGTH, problems),
    cost: credits === undefined ? 1 : readCredits(credits, problems),
    ratelimits: ratelimits === undefined ? EMPTY : readRatelimits(ratelimits, problems),
    migrationId:
      migrationId === undefined
        ? undefined
        : readText(migrationId, "body.migrationId", 0, MIGRATION_ID_LENGTH, problems),
  };
  if (problems.length > 0) throw badRequest(problems);
  return request;
}

function readTags(value: unknown, problems: ValidationProblem[]): readonly string[] {
  return readList(value, "body.tags", MAX_TAGS, problems, (tag, location) =>
    readText(tag, location, 1, TAG_LENGTH, problems),
  );
}

function readCredits(value: unknown, problems: ValidationProblem[]): number {
  if (!isObject(value))
    return (
      addProblem(problems, "body.credits", "must be an object", "send { cost }, or leave it out for a cost of 1"),
      0
    );
  let cost: unknown;
  for (const name in value) {
    if (!hasOwnProperty.call(value, name)) continue;
    if (name === "cost") cost = value["cost"];
    else unknownProperty("body.credits", name, problems);
  }
  return readInteger(cost, "body.credits.cost", MAX_COST, problems);
}

function readRatelimits(value: unknown, problems: ValidationProblem[]): readonly RatelimitCheck[] {
  return readList(value, "body.ratelimits", MAX_RATELIMITS, problems, (check, location) =>
    readRatelimit(check, location, problems),
  );
}

function readRatelimit(value: unknown, location: string, problems: ValidationProblem[]): RatelimitCheck {
  let name: unknown, cost: unknown, limit: unknown, duration: unknown;
  if (!isObject(value)) addProblem(problems, location, "must be an object", "send { name }");
  else {
    for (const property in value) {
      if (!hasOwnProperty.call(value, property)) continue;
      if (property === "name") name = value["name"];
      else if (property === "cost") cost = value["cost"];
      else if (property === "limit") limit = value["limit"];
      else if (property === "duration") duration = value["duration"];
      else unknownProperty(location, property, problems);
    }
    name = readText(name, `${location}.name`, LIMIT_NAME_LENGTH.min, LIMIT_NAME_LENGTH.max, problems);
  }
  return {
    name: name as string,
    cost: cost === undefined ? 1 : readInteger(cost, `${location}.cost`, Number.MAX_SAFE_INTEGER, problems),
    limit: limit === undefined ? undefined : readInteger(limit, `${location}.limit`, Number.MAX_SAFE_INTEGER, problems),
    duration:
      duration === undefined
        ? undefined
        : readInteger(duration, `${location}.duration`, Number.MAX_SAFE_INTEGER, problems),
  };
}

function readList<T>(
  value: unknown,
  location: string,
  max: number,
  problems: ValidationProblem[],
  readItem: (item: unknown, location: string) => T,
): readonly T[] {
  if (!Array.isArray(value)) return (addProblem(problems, location, "must be an array"), EMPTY);
  // Read once: a proxy's length may be any value, and differ each time.
  const { length } = value;
  if (!Number.isSafeInteger(length) || length < 0 || length > max)
    return (addProblem(problems, location, `must have at most ${max} items`), EMPTY);
  const items: T[] = [];
  for (let i = 0; i < length; i++) items.push(readItem(value[i], `${location}[${i}]`));
  return items;
}

function readText(value: unknown, location: string, min: number, max: number, problems: ValidationProblem[]): string {
  if (typeof value !== "string") {
    addProblem(problems, location, value === undefined ? "is required" : "must be a string");
    return "";
  }
  if (!hasLength(value, min, max)) addProblem(problems, location, `must have ${min} to ${max} characters`);
  if (!value.isWellFormed()) addProblem(problems, location, "must be well-formed text", "remove the lone surrogate");
  return value;
}

function readInteger(value: unknown, location: string, max: number, problems: ValidationProblem[]): number {
  if (Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= max) return (value as number) + 0;
  addProblem(problems, location, value === undefined ? "is required" : `must be an integer from 0 to ${max}`);
  return 0;
}

function unknownProperty(location: string, name: string, problems: ValidationProblem[]): void {
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
