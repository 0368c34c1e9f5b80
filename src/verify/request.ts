/**
 * Validation of verification requests. A table lists every field with its bounds. The reader is written by hand for
 * speed; the compiler makes sure that it reads every field.
 */
import type { QueryCompiler } from "../access/permission-query.js";
import type { RatelimitCheck } from "../ratelimit/applied-limits.js";
import { badRequest, isKeystileError, type ValidationProblem } from "../contracts/errors.js";
import type { KeysVerifyKeyCredits, KeysVerifyKeyRatelimit, V2KeysVerifyKeyRequestBody } from "../contracts/types.js";
import { hasLength, hasOwnProperty, isObject, MAX_KEY_LENGTH } from "../lib/copy-json.js";
import type { Mutable } from "../lib/mutable.js";
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
    // All limits of a call are taken in one atomic step, during which the event loop cannot run.
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
/** A name that the table lacks. Because of this type, code that does not read every name of the table won't compile. */
type Unlisted = string & { readonly unlisted: true };
/** A field as it is read. `field`: its name; "": an item of a list. */
type Text = { readonly field: string; readonly minLength: number; readonly maxLength: number };
type Integer = { readonly field: string; readonly minimum: number; readonly maximum: number };
type List<T> = { readonly field: string; readonly maxItems: number; readonly readItem: ItemReader<T> };
type ItemReader<T> = (item: unknown, reading: Reading) => T;

/** Fields with their names. */
function named<T extends Readonly<Record<string, object>>>(fields: T) {
  const entries = Object.entries(fields).map(([field, schema]) => [field, { ...schema, field }]);
  return Object.fromEntries(entries) as { readonly [K in keyof T]: T[K] & { readonly field: string } };
}

const FIELDS = named(REQUEST);
const RATELIMIT_FIELDS = named(RATELIMIT);
const CREDITS_FIELDS = named(CREDITS);
const TAG = { field: "", ...REQUEST.tags.items };
const TAGS: List<string> = { ...FIELDS.tags, readItem: (tag, reading) => readText(tag, TAG, reading) };
const RATELIMITS: List<RatelimitCheck> = { ...FIELDS.ratelimits, readItem: readRatelimit };

/** A validated verification request. */
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

/** The values of a request before it is read. */
export const NO_REQUEST: VerificationRequest = Object.freeze({
  key: "",
  tags: EMPTY,
  permissions: undefined,
  cost: 1,
  ratelimits: EMPTY,
  migrationId: undefined,
});

/**
 * Reads and validates a verification request. Own properties only, each read once.
 * @throws KeystileError BAD_REQUEST with every problem of the request, at `body.key`, `body.ratelimits[1].name`, …; at
 *   `body` if it is not an object
 * @see contract 2.1, contract 8 · about 60 ns for a key with a query
 */
export function readRequest(body: unknown): VerificationRequest {
  const request = { ...NO_REQUEST };
  fillRequest(request, body);
  return request;
}

/**
 * {@link readRequest} into an object that has the values of {@link NO_REQUEST}. A verification reads its request into
 * itself, which saves an object per call.
 */
export function fillRequest(request: Mutable<VerificationRequest>, body: unknown): void {
  const reading: Reading = { problems: undefined, path: "body", index: -1 };
  let key: unknown, tags: unknown, permissions: unknown, credits: unknown, ratelimits: unknown, migrationId: unknown;
  try {
    if (!isObject(body)) throw badRequest([{ location: "body", message: "must be an object" }]);
    // `for … in` allocates no list of names, and reads a Proxy's descriptors one at a time.
    for (const property in body) {
      if (!hasOwnProperty.call(body, property)) continue;
      const name = property as keyof typeof REQUEST | Unlisted;
      if (name === "key") key = body["key"];
      // A field that narrows a request must not be undefined: the program lost a value. Null fails validation.
      else if (name === "permissions") permissions = body["permissions"] ?? null;
      else if (name === "credits") credits = body["credits"];
      else if (name === "ratelimits") ratelimits = body["ratelimits"] ?? null;
      else if (name === "tags") tags = body["tags"];
      else if (name === "migrationId") migrationId = body["migrationId"];
      else unknownProperty(name, reading);
    }
    request.key = readText(key, FIELDS.key, reading);
    if (tags !== undefined) request.tags = readList(tags, TAGS, reading);
    if (permissions !== undefined) request.permissions = readText(permissions, FIELDS.permissions, reading);
    if (credits !== undefined) request.cost = readCredits(credits, reading);
    if (ratelimits !== undefined) request.ratelimits = readList(ratelimits, RATELIMITS, reading);
    if (migrationId !== undefined) request.migrationId = readText(migrationId, FIELDS.migrationId, reading);
  } catch (cause) {
    if (isKeystileError(cause)) throw cause;
    throw badRequest([{ location: "body", ...UNREADABLE }]);
  }
  if (reading.problems !== undefined) throw badRequest(reading.problems);
}

/**
 * Validates a request without its key, for any number of calls.
 * @returns `request`, whose `key` is a placeholder, and its query
 * @throws KeystileError BAD_REQUEST as {@link readRequest}, and at `body.key` if there is one; PERMISSIONS_QUERY_SYNTAX
 */
export function planRequest(compileQuery: QueryCompiler, body: unknown) {
  if (!isObject(body)) throw badRequest([{ location: "body", message: "must be an object" }]);
  if (Object.hasOwn(body, "key"))
    throw badRequest([{ location: "body.key", message: "must be left out", fix: "give it to each call" }]);
  const request = readRequest({ key: "-", ...body });
  for (const check of request.ratelimits) Object.freeze(check);
  for (const list of [request.tags, request.ratelimits]) Object.freeze(list);
  const { permissions } = request;
  const query = permissions === undefined ? undefined : compileQuery(permissions);
  return Object.freeze({ request: Object.freeze(request), query });
}

/** A validated request without its key, for many calls. */
export type RequestPlan = ReturnType<typeof planRequest>;

/** Copies a validated request, and reads the key. @throws KeystileError BAD_REQUEST at `body.key` */
export function fillWithKey(request: Mutable<VerificationRequest>, plan: VerificationRequest, key: unknown): void {
  const reading: Reading = { problems: undefined, path: "body", index: -1 };
  request.key = readText(key, FIELDS.key, reading);
  if (reading.problems !== undefined) throw badRequest(reading.problems);
  request.tags = plan.tags;
  request.permissions = plan.permissions;
  request.cost = plan.cost;
  request.ratelimits = plan.ratelimits;
  request.migrationId = plan.migrationId;
}

/** Only the request of a call; equal requests give equal JSON. */
export function requestOf(call: VerificationRequest): VerificationRequest {
  const { key, tags, permissions, cost, ratelimits, migrationId } = call;
  return { key, tags, permissions, cost, ratelimits, migrationId };
}

/** The place being read, and the problems so far. Texts of locations are built only for problems. */
interface Reading {
  /** `undefined`: none. */
  problems: ValidationProblem[] | undefined;
  /** The object or list whose parts are read; `index` is the item of a list, or −1. */
  path: string;
  index: number;
}

function readCredits(value: unknown, reading: Reading): number {
  reading.path = "body.credits";
  let cost: unknown;
  if (!isObject(value)) addProblem(reading, "", NO_CREDITS);
  else {
    for (const property in value) {
      if (!hasOwnProperty.call(value, property)) continue;
      const name = property as keyof typeof CREDITS | Unlisted;
      if (name === "cost") cost = value["cost"];
      else unknownProperty(name, reading);
    }
    cost = readInteger(cost, CREDITS_FIELDS.cost, reading);
  }
  reading.path = "body";
  return cost as number;
}

const NO_CREDITS = { message: "must be an object", fix: "send { cost }, or leave it out for a cost of 1" };

function readRatelimit(value: unknown, reading: Reading): RatelimitCheck {
  let name: unknown, cost: unknown, limit: unknown, duration: unknown;
  if (!isObject(value)) addProblem(reading, "", { message: "must be an object", fix: "send { name }" });
  else {
    for (const property in value) {
      if (!hasOwnProperty.call(value, property)) continue;
      const field = property as keyof typeof RATELIMIT | Unlisted;
      if (field === "name") name = value["name"];
      else if (field === "cost") cost = value["cost"];
      // As above: each of them narrows the limit.
      else if (field === "limit") limit = value["limit"] ?? null;
      else if (field === "duration") duration = value["duration"] ?? null;
      else unknownProperty(field, reading);
    }
    name = readText(name, RATELIMIT_FIELDS.name, reading);
  }
  return {
    name: name as string,
    cost: cost === undefined ? RATELIMIT.cost.default : readInteger(cost, RATELIMIT_FIELDS.cost, reading),
    limit: limit === undefined ? undefined : readInteger(limit, RATELIMIT_FIELDS.limit, reading),
    duration: duration === undefined ? undefined : readInteger(duration, RATELIMIT_FIELDS.duration, reading),
  };
}

function readList<T>(value: unknown, { field, maxItems, readItem }: List<T>, reading: Reading): readonly T[] {
  if (!Array.isArray(value)) return (addProblem(reading, field, { message: "must be an array" }), EMPTY);
  // Read once: a proxy's length may be any value, and differ each time.
  const { length } = value;
  if (!Number.isSafeInteger(length) || length < 0 || length > maxItems)
    return (addProblem(reading, field, { message: `must have at most ${maxItems} items` }), EMPTY);
  const items: T[] = [];
  reading.path = `body.${field}`;
  for (let i = 0; i < length; i++) {
    reading.index = i;
    items.push(readItem(value[i], reading));
  }
  reading.path = "body";
  reading.index = -1;
  return items;
}

function readText(value: unknown, { field, minLength, maxLength }: Text, reading: Reading): string {
  if (typeof value !== "string") {
    addProblem(reading, field, { message: value === undefined ? "is required" : "must be a string" });
    return "";
  }
  if (!hasLength(value, minLength, maxLength))
    addProblem(reading, field, { message: `must have ${minLength} to ${maxLength} characters` });
  if (!value.isWellFormed())
    addProblem(reading, field, { message: "must be well-formed text", fix: "remove the lone surrogate" });
  return value;
}

function readInteger(value: unknown, { field, minimum, maximum }: Integer, reading: Reading): number {
  if (Number.isSafeInteger(value) && (value as number) >= minimum && (value as number) <= maximum)
    return (value as number) + 0;
  const message = value === undefined ? "is required" : `must be an integer from ${minimum} to ${maximum}`;
  addProblem(reading, field, { message });
  return 0;
}

function unknownProperty(name: Unlisted, reading: Reading): void {
  const isPlain = PLAIN_NAME.test(name);
  addProblem(reading, isPlain ? name : "", isPlain ? UNKNOWN_PROPERTY : HIDDEN_PROPERTY);
}

/**
 * @param field the field that has the problem; "": the object or item itself
 * @throws KeystileError BAD_REQUEST once there are {@link MAX_PROBLEMS}: nothing more is read
 */
function addProblem(reading: Reading, field: string, problem: Omit<ValidationProblem, "location">): void {
  const { path, index } = reading;
  const parent = index < 0 ? path : `${path}[${index}]`;
  const location = field === "" ? parent : `${parent}.${field}`;
  const problems = (reading.problems ??= []);
  problems.push({ location, ...problem });
  if (problems.length >= MAX_PROBLEMS) throw badRequest(problems);
}
