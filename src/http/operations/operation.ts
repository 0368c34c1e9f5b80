/**
 * Definition of an operation, used by HTTP and the command line: name, schemas, access check and action (spec §9-3).
 */
import type { Caller } from "../../contracts/caller.js";
import type { MaybePromise } from "../../contracts/types.js";
import { actingFor, type Keyring } from "../../keyring/keyring.js";
import type { Ratelimits } from "../../keyring/ratelimits/create-ratelimits.js";
import { type JsonSchema, toJsonSchema } from "../../keyring/schemas/json-schema.js";
import { parse, type Schema } from "../../keyring/schemas/parse.js";
import type { Verifier } from "../../verify/verifier.js";
import { type Access, type AccessContext, type Asked, requireAnyGrant } from "./access.js";
import { explain } from "./fields.js";
import type { BodyShape } from "../long-json.js";
import { bodyBytesOf, bodyShapeOf } from "./largest-body.js";

/** What operations work with; keyring and ratelimits are those of the caller's workspace. */
export interface Services extends AccessContext {
  readonly verifier: Verifier<unknown>;
  readonly keyring: Keyring;
  readonly ratelimits: Ratelimits;
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
}

/** One operation: `POST /v2/<name>`. */
export interface Operation extends Asked {
  /** `<group>.<verb>`, such as `keys.createKey` (spec §9-3). */
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
  /** Whether the response has `pagination`, and the request `limit` and `cursor` (spec §1-2). */
  readonly isList: boolean;
  /** Headers of this operation, for the documentation: schemas by name. */
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

/** How an operation is declared. */
export interface Definition<B> {
  readonly name: string;
  readonly summary: string;
  readonly schema: Schema<B>;
  /** The same with any external id, where a request names a new identity. */
  readonly wideSchema?: Schema<NoInfer<B>>;
  /** JSON Schema for the documentation; default: derived from `schema`. */
  readonly request?: JsonSchema;
  /** Reads the part of the body that `access` and `act` need; default: `schema` parses all of it. */
  readonly read?: (body: unknown) => B;
  readonly answer: JsonSchema;
  readonly isList?: boolean;
  readonly access: Access<NoInfer<B>>;
  /** As in {@link Operation}; default 404. */
  readonly statuses?: readonly number[];
  readonly act: (services: Services, request: NoInfer<B>, caller: Caller) => MaybePromise<unknown>;
}

/** Builds an operation from its definition. */
export function define<B>(definition: Definition<B>): Operation {
  const { name, summary, schema, access, answer, isList = false, statuses = [404], act } = definition;
  const { read = (body: unknown) => parse(schema, body) } = definition;
  const { wideSchema } = definition;
  const readWide = wideSchema === undefined ? read : (body: unknown) => parse(wideSchema, body);
  const request = definition.request ?? toJsonSchema(schema);
  return {
    name,
    summary,
    request: explain(request),
    bodyBytes: bodyBytesOf(request),
    bodyShape: bodyShapeOf(request),
    answer: explain(answer),
    isList,
    permissions: access.permissions,
    also: access.also ?? [],
    statuses,
    mayAny: (caller) => caller.mayAny(access.action, access.type),
    validate: (body, externalIds) => void (externalIds === "any" ? readWide : read)(body),
    async perform(services, { caller, body }) {
      requireAnyGrant(access, caller);
      const request = services.externalIds === "any" ? readWide(body) : read(body);
      await access.allow(services, caller, request);
      return act({ ...services, keyring: actingFor(services.keyring, caller) }, request, caller);
    },
  };
}
