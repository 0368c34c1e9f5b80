/** What an operation of the service is, for every shell: its name, its schemas, who may, and what it does. Spec §9-3. Knows no HTTP. */
import type { Caller } from "../../contracts/caller.js";
import type { Store } from "../../contracts/store.js";
import type { MaybePromise } from "../../contracts/types.js";
import type { Keyring } from "../../keyring/keyring.js";
import type { Ratelimits } from "../../keyring/ratelimits/create-ratelimits.js";
import { type JsonSchema, toJsonSchema } from "../../keyring/schemas/json-schema.js";
import { parse, type Schema } from "../../keyring/schemas/parse.js";
import type { Verifier } from "../../verify/verifier.js";
import type { Access, Asked } from "./access.js";
import { explain } from "./fields.js";

/** What operations work with; administration is that of the caller's workspace. */
export interface Services {
  /** Says which API a key belongs to. */
  readonly store: Store;
  readonly verifier: Verifier;
  readonly keyring: Keyring;
  readonly ratelimits: Ratelimits;
}

/** One call, once its caller is known. */
export interface Call {
  readonly caller: Caller;
  /** As it came; the operation judges it. */
  readonly body: unknown;
  /** For allow-lists (ruling A4). */
  readonly clientAddress?: string;
}

/** One operation: `POST /v2/<name>`. */
export interface Operation extends Asked {
  /** `<group>.<verb>`, such as `keys.createKey` (spec §9-3). */
  readonly name: string;
  /** One sentence. */
  readonly summary: string;
  /** Of the whole body. */
  readonly request: JsonSchema;
  /** Of `data`; of one item of it when this is a list. */
  readonly answer: JsonSchema;
  /** The answer has `pagination`, and the request `limit` and `cursor` (spec §1-2). */
  readonly isList: boolean;
  /** Statuses that are the operation's own, besides those that any call can get. */
  readonly statuses: readonly number[];
  /** Judges the form of a body without doing anything. @throws KeystileError BAD_REQUEST with every problem */
  validate(body: unknown): void;
  /**
   * Judges the body, then the caller, then acts.
   * @returns `data`, or `{ data, pagination }` when this is a list
   * @throws KeystileError BAD_REQUEST · CALLER_FORBIDDEN · NOT_FOUND · whatever the verb throws
   */
  perform(services: Services, call: Call): MaybePromise<unknown>;
}

/** How an operation is declared: schema, permission, then the act. */
export interface Definition<B> {
  readonly name: string;
  readonly summary: string;
  readonly schema: Schema<B>;
  /** Where the schema alone cannot tell it. */
  readonly request?: JsonSchema;
  /** Reads what `access` and `act` need of the body; default: the schema. */
  readonly read?: (body: unknown) => B;
  readonly answer: JsonSchema;
  readonly isList?: boolean;
  readonly access: Access<NoInfer<B>>;
  /** Of {@link Operation}; default 404. */
  readonly statuses?: readonly number[];
  readonly act: (services: Services, request: NoInfer<B>, caller: Caller) => MaybePromise<unknown>;
}

/** Makes an operation of its parts. */
export function define<B>(definition: Definition<B>): Operation {
  const { name, summary, schema, access, answer, isList = false, statuses = [404], act } = definition;
  const { read = (body: unknown) => parse(schema, body) } = definition;
  return {
    name,
    summary,
    request: explain(definition.request ?? toJsonSchema(schema)),
    answer: explain(answer),
    isList,
    permissions: access.permissions,
    also: access.also ?? [],
    statuses,
    validate: (body) => void read(body),
    async perform(services, { caller, body }) {
      const request = read(body);
      await access.allow(services, caller, request);
      return act(services, request, caller);
    },
  };
}
