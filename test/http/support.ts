/**
 * A world for the tests of the service: a store, root keys, and the service on two hosts, or in workerd. Every answer
 * is held against the OpenAPI document.
 */
import type { ValidateFunction } from "ajv";
import addFormats from "ajv-formats";
import { Ajv2020 } from "ajv/dist/2020.js";
import { expect } from "vitest";
import type { Store } from "../../src/contracts/store.js";
import { toOpenApi } from "../../src/http/docs/openapi.js";
import { createHandler, createServer, type HandlerOptions } from "../../src/http/index.js";
import { createKeyring, type Keyring, memoryStore } from "../../src/index.js";
import type { ObjectOptions } from "../../src/edge/engine.js";
import { absent, IS_IN_WORKERD, worldInWorkerd } from "../edge/contract-world.js";
import type { Parsed } from "./raw.js";

/** 2026-03-10T12:00:00Z */
export const NOON = Date.UTC(2026, 2, 10, 12);

/** All that a root key may be granted, by action. */
export const EVERYTHING = [
  ...["create_api", "read_api", "update_api", "delete_api", "read_analytics"].map((action) => `api.*.${action}`),
  ...["verify_key", "create_key", "read_key", "update_key", "delete_key"].map((action) => `api.*.${action}`),
  ...["create_permission", "read_permission", "delete_permission"].map((action) => `rbac.*.${action}`),
  ...["create_role", "read_role", "delete_role", "add_permission_to_role", "remove_permission_from_role"].map(
    (action) => `rbac.*.${action}`,
  ),
  ...["create_identity", "read_identity", "update_identity", "delete_identity"].map((action) => `identity.*.${action}`),
  ...["limit", "create_namespace", "read_namespace", "set_override", "read_override", "delete_override"].map(
    (action) => `ratelimit.*.${action}`,
  ),
  ...["read_root_key", "delete_root_key", "read_audit"].map((action) => `workspace.*.${action}`),
];

/** The operations that any credential may ask for. */
export const OF_ANYBODY = ["callers.whoami"];

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The envelope. */
  readonly body: Parsed;
}

/** A client's request, with everything that may be wrong in it. */
export interface Asked {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
}

export type Send = (path: string, asked?: Asked) => Promise<Answer>;

/** How the service is reached: as a function of a `Request`, over a socket, or in an object in workerd. */
export type Host = "fetch" | "node" | "workerd";
/** Those of this run. */
export const HOSTS: readonly [Host, ...Host[]] = IS_IN_WORKERD ? ["workerd"] : ["fetch", "node"];

export interface WorldOptions extends Omit<HandlerOptions, "clock"> {
  readonly host?: Host;
  /** Not in workerd, where an object has its own. */
  readonly store?: Store;
  readonly permissions?: readonly string[];
}

export async function world({
  host = HOSTS[0],
  store: given = memoryStore(),
  permissions = EVERYTHING,
  ...options
}: WorldOptions = {}) {
  const time = { now: NOON };
  const clock = () => time.now;
  const { store, keyring, send, close } = await hosts[host](given, { ...options, clock });
  const { apiId } = await keyring.createApi({ name: "documents" });
  const { key: rootKey } = await keyring.createRootKey({ permissions });
  const authorization = `Bearer ${rootKey}`;
  const as = (credential: string) => (name: string, body: unknown) =>
    send(`/v2/${name}`, {
      method: "POST",
      headers: { authorization: `Bearer ${credential}`, ...JSON_TYPE },
      body: JSON.stringify(body),
    });
  /** A root key with these permissions alone, and how to call with it. */
  const rootKeyOf = async (...granted: string[]) => as((await keyring.createRootKey({ permissions: granted })).key);
  const create = (body: object = {}) => keyring.createKey({ apiId, ...body });
  return {
    store,
    keyring,
    apiId,
    rootKey,
    authorization,
    send,
    close,
    call: as(rootKey),
    as,
    rootKeyOf,
    create,
    time,
    clock,
  };
}

export type World = Awaited<ReturnType<typeof world>>;

export const JSON_TYPE = { "content-type": "application/json" };

interface Hosted {
  readonly store: Store;
  readonly keyring: Keyring;
  readonly send: Send;
  readonly close: () => Promise<void>;
}

const hosts: Record<
  Host,
  (store: Store, options: HandlerOptions & { readonly clock: () => number }) => Promise<Hosted>
> = {
  async fetch(store, options) {
    const handler = createHandler(store, options);
    return {
      store,
      keyring: createKeyring(store, { clock: options.clock }),
      send: (path, asked = {}) => sendTo("http://keys.test", handler, path, asked),
      close: () => handler.close(),
    };
  },
  async node(store, options) {
    const server = createServer(store, options);
    const { url } = await server.listen();
    return {
      store,
      keyring: createKeyring(store, { clock: options.clock }),
      send: (path, asked = {}) => sendTo(url, fetch, path, asked),
      close: () => server.close(),
    };
  },
  async workerd(_, { clock, workspaceId, verifier, ...service }) {
    const options = { ...(workspaceId !== undefined && { workspaceId }), ...(verifier && { verifier }), service };
    const { url, keyring, fetch } = worldInWorkerd(options as ObjectOptions, clock);
    return {
      store: absent("the store") as Store,
      keyring,
      send: (path, asked = {}) => sendTo(url, fetch, path, asked),
      close: () => Promise.resolve(),
    };
  },
};

async function sendTo(
  url: string,
  fetching: (request: Request) => Promise<Response>,
  path: string,
  asked: Asked,
): Promise<Answer> {
  const { method = "GET", headers = {}, body } = asked;
  const request = new Request(url + path, { method, headers, ...(body !== undefined && { body: body as string }) });
  const response = await fetching(request);
  const text = await response.text();
  const isJson = /json/.test(response.headers.get("content-type") ?? "");
  const answer: Answer = {
    status: response.status,
    headers: response.headers,
    text,
    body: isJson && text !== "" ? JSON.parse(text) : undefined,
  };
  expect(faultsOf(path.split("?")[0]!, method, answer), `${method} ${path} ${text}`).toEqual([]);
  return answer;
}

const document = JSON.parse(toOpenApi());
const ajv = new Ajv2020({ strict: false, allErrors: true, schemas: [{ $id: "doc", ...document }] });
addFormats(ajv);
const validators = new Map<string, ValidateFunction>();

/** What an answer has that the document does not say of it; none: it conforms. */
export function faultsOf(
  path: string,
  method: string,
  { status, headers, body }: Pick<Answer, "status" | "headers" | "body">,
): string[] {
  const operation = document.paths[path]?.[method.toLowerCase()];
  const isPage = operation === undefined && status === 200;
  if (isPage) return [];
  const type = (headers.get("content-type") ?? "").split(";")[0];
  const faults: string[] = [];
  if (!/^req_[A-Za-z0-9_-]{16,}$/.test(headers.get("x-request-id") ?? "")) faults.push("no x-request-id");
  if (body?.meta?.requestId !== headers.get("x-request-id")) faults.push("the header and meta.requestId differ");
  if (body?.error !== undefined && body.error.status !== status) faults.push("error.status is not the status");
  const described = operation?.responses[String(status)];
  if (operation !== undefined && described === undefined) return [...faults, `status ${status} is not described`];
  const pointer =
    described === undefined
      ? errorPointer(status)
      : (described.$ref ?? `#/paths/${escape(path)}/${method.toLowerCase()}/responses/${status}`);
  const content = at(pointer).content;
  if (content[type ?? ""] === undefined) return [...faults, `content type ${type}`];
  const validate = validatorOf(`doc${pointer}/content/${escape(type!)}/schema`);
  if (!validate(body))
    faults.push(...(validate.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`));
  return faults;
}

const errorPointer = (status: number): string => `#/components/responses/Error${status}`;
const escape = (part: string): string => part.replaceAll("~", "~0").replaceAll("/", "~1");
const at = (pointer: string): Parsed =>
  pointer
    .slice(2)
    .split("/")
    .reduce((value, part) => value?.[part.replaceAll("~1", "/").replaceAll("~0", "~")], document);

function validatorOf(reference: string): ValidateFunction {
  const validate = validators.get(reference) ?? ajv.compile({ $ref: reference });
  validators.set(reference, validate);
  return validate;
}
