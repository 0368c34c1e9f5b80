/** What HTTP and the command line add to an operation of `keyring/`: its group, access, answer (contract 9-3). */
import type { Caller } from "../../contracts/caller.js";
import type { MaybePromise } from "../../contracts/types.js";
import type { OfCall, Shared } from "../../keyring/context.js";
import { type Act, runRequest } from "../../keyring/operation.js";
import type { LimitShared } from "../../keyring/ratelimits/limit.js";
import { type JsonSchema, toJsonSchema } from "../../keyring/schemas/json-schema.js";
import { parse, type Schema } from "../../keyring/schemas/parse.js";
import { anyExternalId, externalId } from "../../keyring/schemas/primitives.js";
import type { Verifier } from "../../verify/verifier.js";
import { type Access, type AccessContext, type Asked, requireAnyGrant } from "./access.js";
import { explain } from "./fields.js";
import { empty } from "./responses.js";
import { documentKey, readIdempotencyKey } from "../idempotency-key.js";
import type { BodyShape } from "../long-json.js";

/** What operations work with; `keyring` and `ratelimits` are contexts in the caller's workspace. */
export interface Services extends AccessContext {
  readonly verifier: Verifier<unknown>;
  readonly keyring: Shared;
  readonly ratelimits: LimitShared;
  /** Which external ids new identities may have: those of the specification, or any text that the library takes. */
  readonly externalIds: "specified" | "any";
}

/** One call with an authenticated caller. */
export interface Call {
  readonly caller: Caller;
  /** The parsed JSON; the operation validates it. */
  readonly body: unknown;
  /** For allow-lists. */
  readonly clientAddress?: string;
  /** The value of a header by its lower-case name. */
  readonly header: (name: string) => string | undefined;
  /** Whether nobody waits for the answer any more; absent: it is not known. */
  readonly isGone?: (() => boolean) | undefined;
  /** True: the result as the library has it, with what HTTP leaves out. Default false. */
  readonly isWhole?: boolean;
}

/** One operation: `POST /v2/<name>`. */
export interface Operation extends Asked {
  /** `<group>.<verb>`, such as `keys.createKey` (contract 9-3). */
  readonly name: string;
  /** One sentence. */
  readonly summary: string;
  /** Schema of the whole body. */
  readonly request: JsonSchema;
  /**
   * Bytes that are read of a body, unless an option says otherwise: 128 KiB, or 1 MiB where a legal one may be longer.
   */
  readonly bodyBytes: number;
  /** What a long body may have. */
  readonly bodyShape: BodyShape;
  /** Schema of `data`; for a list, of one item. */
  readonly answer: JsonSchema;
  /** Whether the response has `pagination`, and the request `limit` and `cursor` (contract 1-2). */
  readonly isList: boolean;
  /** Whether `data` may be as long as a page: it is made as one. */
  readonly isLong: boolean;
  /**
   * Headers of this operation, for the documentation: schemas by name. One without `Idempotency-Key` refuses that
   * header.
   */
  readonly headers?: Readonly<Record<string, JsonSchema>>;
  /** Error statuses of this operation, besides those of every operation. */
  readonly statuses: readonly number[];
  /** Whether this caller may do the action anywhere at all; whoever may not gets a 403 whatever it sends. */
  mayAny(caller: Caller): boolean;
  /**
   * Validates a body without doing anything.
   * @param externalIds as in {@link Services}, default `specified`
   * @throws KeystileError BAD_REQUEST with every problem
   */
  validate(body: unknown, externalIds?: Services["externalIds"]): void;
  /**
   * Refuses a caller without any grant of the action, validates the body, checks the caller's permission for what it
   * names, then acts.
   * @returns `data`, or `{ data, pagination }` for a list
   * @throws KeystileError BAD_REQUEST · CALLER_FORBIDDEN · NOT_FOUND · the errors of the action
   */
  perform(services: Services, call: Call): MaybePromise<unknown>;
}

/** How the body of an operation is described and read. */
export interface Reading<B> {
  /** For the documentation. */
  readonly request: JsonSchema;
  /** @throws KeystileError BAD_REQUEST with every problem */
  read(body: unknown, externalIds: Services["externalIds"]): B;
}

/** By a schema alone. */
export function bySchema<B>(schema: Schema<B>): Reading<B> {
  return { request: toJsonSchema(schema), read: (body) => parse(schema, body) };
}

/** By a schema that the service's option for external ids decides. */
export function byExternalIds<B>(schemaOf: (externalId: Schema<string>) => Schema<B>): Reading<B> {
  const schemas = { specified: schemaOf(externalId), any: schemaOf(anyExternalId) };
  return { request: toJsonSchema(schemas.specified), read: (body, ids) => parse(schemas[ids], body) };
}

/** An operation of the library, or of the service alone, which then has no schema. */
interface Declared<C, B, T> {
  readonly name: string;
  readonly schema?: Schema<unknown>;
  readonly act: Act<C, B, T>;
  readonly takesIdempotencyKey?: true;
}

/** What is said of an operation, and who may use it. */
interface Description<A> extends Pick<Operation, "summary"> {
  readonly access: A;
  /** Default: nothing. */
  readonly answer?: JsonSchema;
  /** Default false. */
  readonly isList?: boolean;
  /** Default: whether it is a list. */
  readonly isLong?: boolean;
  /** As in {@link Operation}; default 404. */
  readonly statuses?: readonly number[];
}

/** What HTTP adds to an operation. */
export interface Definition<B, T> extends Description<Access<NoInfer<B>>> {
  /** Of requests that are others than in the library; default: by the schema of the operation. */
  readonly reading?: Reading<B>;
  /** What is shown of what it resolves to; default: all. */
  readonly show?: (result: NoInfer<T>) => unknown;
}

/** All of an operation but what it does. */
export function describe(
  name: string,
  request: JsonSchema,
  {
    summary,
    answer = empty,
    access,
    isList = false,
    isLong = isList,
    statuses = [404],
  }: Description<Omit<Access<never>, "allow">>,
): Omit<Operation, "validate" | "perform"> {
  return {
    name,
    summary,
    request: explain(request, name),
    bodyBytes: longestBytes(request) <= SMALL_BODY_BYTES ? SMALL_BODY_BYTES : LARGE_BODY_BYTES,
    bodyShape: bodyShapeOf(request),
    answer: explain(answer, name),
    isList,
    isLong,
    permissions: access.permissions,
    also: access.also ?? [],
    statuses,
    mayAny: (caller) => caller.mayAny(access.action, access.type),
  };
}

/** What the documents say of an operation that honours an idempotency key. */
const KEYED = documentKey("changes nothing again, for 30 days");

/**
 * Declares operations of a group.
 * @param sharedIn what they work with, of the services of a workspace
 */
export function group<S extends Shared>(groupName: string, sharedIn: (services: Services) => S) {
  return <B, T>(operation: Declared<S & OfCall, B, T>, definition: Definition<B, T>): Operation => {
    const { name, act, takesIdempotencyKey } = operation;
    const { access, show, reading = bySchema(operation.schema as Schema<B>) } = definition;
    const { request, read } = reading;
    return {
      ...describe(`${groupName}.${name}`, request, definition),
      ...(takesIdempotencyKey && { headers: KEYED, statuses: [...(definition.statuses ?? [404]), 422] }),
      validate: (body, externalIds = "specified") => void read(body, externalIds),
      async perform(services, { caller, body, header, isWhole, isGone }) {
        requireAnyGrant(access, caller);
        const request = read(body, services.externalIds);
        const sent = takesIdempotencyKey && header("idempotency-key");
        const idempotencyKey = sent === undefined ? undefined : readIdempotencyKey(sent);
        await access.allow(services, caller, request);
        const call = { context: { ...sharedIn(services), isGone }, operation: name, caller, idempotencyKey };
        const result = await runRequest(call, () => request, act);
        return show === undefined || isWhole === true ? result : show(result);
      },
    };
  };
}

/* How long the longest body is that an operation accepts, and from it what is read and parsed of one. */

/** Read of any body: the longest legal one of most operations is far shorter. */
export const SMALL_BODY_BYTES = 131_072;
/** Read where the longest legal body is longer. */
export const LARGE_BODY_BYTES = 1_048_576;

/** Bytes of a character written as `\u0041`, and of one beyond U+FFFF, which takes two of these. */
const ESCAPED = 6;
const ESCAPED_PAIR = 12;
/** Free-form data may have so many bytes as UTF-8 (`meta`), each of which may be escaped. */
const FREE_FORM_BYTES = 65_536;
/** Of which each value takes two at least. */
const FREE_FORM_VALUES = FREE_FORM_BYTES / 2;
/** The longest number, and the longest of the other words of JSON. */
const NUMBER_BYTES = 24;

/**
 * Bytes of the longest JSON text of a value that the schema accepts, with every character escaped and without blanks;
 * `Infinity` where the schema sets no bound.
 */
export function longestBytes(schema: JsonSchema): number {
  const { enum: values, properties, items, maxItems = Infinity, maxLength = Infinity, pattern } = schema;
  if (values !== undefined) return Math.max(...values.map((value) => JSON.stringify(value).length * ESCAPED));
  if (properties !== undefined)
    return Object.entries(properties).reduce(
      (sum, [name, part]) => sum + escapedBytes(name) + 2 + longestBytes(part),
      2,
    );
  if (items !== undefined) return 2 + maxItems * (longestBytes(items) + 1);
  const types = [schema.type].flat();
  if (types.includes("object")) return FREE_FORM_BYTES * ESCAPED;
  return types.includes("string") ? 2 + maxLength * (pattern === undefined ? ESCAPED_PAIR : ESCAPED) : NUMBER_BYTES;
}

/** What a body with this schema may have: one with an endless list of objects lists keys. */
function bodyShapeOf(schema: JsonSchema): BodyShape {
  const keys = Object.values(schema.properties ?? {}).find(
    ({ items, maxItems }) => items?.properties !== undefined && maxItems === undefined,
  )?.items;
  return { maxValues: mostValues(keys ?? schema), isImport: keys !== undefined };
}

/** Values in the largest value that the schema accepts, itself included; `Infinity` where it sets no bound. */
function mostValues({ properties, items, maxItems = Infinity, type }: JsonSchema): number {
  if (properties !== undefined) return Object.values(properties).reduce((sum, part) => sum + mostValues(part), 1);
  if (items !== undefined) return 1 + maxItems * mostValues(items);
  return [type].flat().includes("object") ? FREE_FORM_VALUES : 1;
}

const escapedBytes = (text: string): number => text.length * ESCAPED + 2;
