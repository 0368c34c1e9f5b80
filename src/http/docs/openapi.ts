/** The OpenAPI 3.1 document, generated from the schemas that validate requests (contract 1, 2.4, 7, 9-2). */
import { listProblemTypes } from "../../contracts/errors.js";
import type { JsonSchema } from "../../keyring/schemas/json-schema.js";
import { JSON_TYPE, PROBLEM_TYPE } from "../envelope.js";
import { IDEMPOTENCY_KEY } from "../idempotency-key.js";
import { describePermissions } from "../operations/access.js";
import { OPERATIONS } from "../operations/index.js";
import type { Operation } from "../operations/operation.js";
import * as answers from "../operations/responses.js";
import { requestSample } from "./samples.js";
import { statusesOf } from "./statuses.js";

/** Version of the interface (contract 9-2). */
const VERSION = "2.0.0";

const text: JsonSchema = { type: "string" };
const ref = (name: string): JsonSchema => ({ $ref: `#/components/schemas/${name}` });
const object = (properties: Readonly<Record<string, JsonSchema>>, required = Object.keys(properties)): JsonSchema => ({
  type: "object",
  properties,
  required,
  additionalProperties: false,
});

const base = { title: text, detail: text, status: { type: "integer" }, type: { ...text, format: "uri-reference" } };

const SCHEMAS: Readonly<Record<string, JsonSchema>> = {
  Meta: object({ requestId: { ...text, minLength: 20, description: "Unique to the request; support asks for it." } }),
  Pagination: object(
    {
      cursor: { ...text, minLength: 1, maxLength: 1_024 },
      hasMore: { type: "boolean" },
      searched: { type: "integer", description: "Of a search: keys that this page looked at." },
      asOf: { type: "integer", description: "Of an order that is worked out: when that was, Unix milliseconds." },
    },
    ["hasMore"],
  ),
  ValidationError: object({ location: text, message: text, fix: text }, ["location", "message"]),
  BaseError: object(base),
  BadRequestError: object({ ...base, errors: { type: "array", minItems: 1, items: ref("ValidationError") } }),
  ErrorResponse: object({ meta: ref("Meta"), error: ref("BaseError") }),
  BadRequestResponse: object({ meta: ref("Meta"), error: ref("BadRequestError") }),
};

const REQUEST_ID = { "x-request-id": { description: "The same as meta.requestId.", schema: text } };

/** The document as JSON. */
export function toOpenApi(basePath = ""): string {
  const paths: Record<string, object> = { "/v2/liveness": { get: liveness() } };
  for (const operation of Object.values(OPERATIONS)) paths[`/v2/${operation.name}`] = { post: describe(operation) };
  return JSON.stringify({
    openapi: "3.1.0",
    info: {
      title: "keystile",
      version: VERSION,
      description:
        "Verifies API keys: permissions, rate limits and credits in one call. An operation without the parameter " +
        `${IDEMPOTENCY_KEY} refuses that header with a 400.`,
    },
    servers: [{ url: basePath === "" ? "/" : basePath }],
    security: [{ rootKey: [] }],
    paths,
    components: {
      schemas: SCHEMAS,
      responses: Object.fromEntries(
        statuses().map(([status, title]) => [nameOf(status), errorResponse(status, title)]),
      ),
      securitySchemes: { rootKey: { type: "http", scheme: "bearer", description: "A root key, or a proxy token." } },
    },
  });
}

function describe(operation: Operation): object {
  const { name, summary, request, answer, isList, headers = {} } = operation;
  const data: JsonSchema = isList ? { type: "array", items: answer } : answer;
  const envelope = object({ meta: ref("Meta"), data, ...(isList && { pagination: ref("Pagination") }) });
  return {
    operationId: name,
    tags: [name.slice(0, name.indexOf("."))],
    summary,
    description: `Takes ${describePermissions(operation, (permission) => `\`${permission}\``)}.`,
    ...(operation.headers !== undefined && {
      parameters: Object.entries(headers).map(([header, { description, ...schema }]) => ({
        name: header,
        in: "header",
        required: false,
        description,
        schema,
      })),
    }),
    requestBody: {
      required: true,
      content: { [JSON_TYPE]: { schema: request, example: requestSample(operation) } },
    },
    responses: { "200": success(envelope), ...errorsOf(statusesOf(operation)) },
  };
}

function liveness(): object {
  const envelope = object({ meta: ref("Meta"), data: answers.alive });
  return {
    operationId: "liveness",
    tags: ["liveness"],
    summary: "Whether the service is up and can read its store. Takes no caller.",
    security: [],
    responses: { "200": success(envelope), ...errorsOf([500, 503]) },
  };
}

const success = (schema: JsonSchema): object => ({
  description: "Done.",
  headers: REQUEST_ID,
  content: { [JSON_TYPE]: { schema } },
});

function errorsOf(codes: readonly number[]): Record<string, JsonSchema> {
  return Object.fromEntries(codes.map((status) => [`${status}`, { $ref: `#/components/responses/${nameOf(status)}` }]));
}

function errorResponse(status: number, title: string): object {
  const type = status === 429 ? PROBLEM_TYPE : JSON_TYPE;
  const schema = ref(status === 400 ? "BadRequestResponse" : "ErrorResponse");
  return { description: title, headers: REQUEST_ID, content: { [type]: { schema } } };
}

/** Each status of the catalogue once, with its title. */
const statuses = (): [status: number, title: string][] => [
  ...new Map(listProblemTypes().map(({ status, title }) => [status, title])),
];
const nameOf = (status: number): string => `Error${status}`;
