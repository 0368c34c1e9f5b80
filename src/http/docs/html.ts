/**
 * The documentation as plain HTML pages without external resources; the list of operations has one small script. All of
 * their text is from this package.
 */
import { type KeystileErrorCode, listProblemTypes, type ProblemType } from "../../contracts/errors.js";
import type { Json } from "../../contracts/types.js";
import type { JsonSchema } from "../../keyring/schemas/json-schema.js";
import { describePermissions } from "../operations/access.js";
import type { Operation } from "../operations/operation.js";
import { requestSample, sampleOf } from "./samples.js";
import { statusesOf } from "./statuses.js";

/** `/docs/style.css`. */
export const STYLE = `:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;background:#fff}
code{font:14px/1.4 ui-monospace,monospace;background:#f2f2f2;padding:0 .2em;overflow-wrap:anywhere}
h1,h2{overflow-wrap:anywhere}
h2{border-top:1px solid #ddd;padding-top:1rem;margin-top:2rem}input{font:inherit;width:min(100%,20rem)}
pre{overflow-x:auto;background:#f2f2f2;padding:.6rem}pre code{padding:0;overflow-wrap:normal}
table{border-collapse:collapse;width:100%;display:block;overflow-x:auto}
td code{overflow-wrap:normal}
td,th{border-bottom:1px solid #e5e5e5;padding:.3rem .6rem .3rem 0;text-align:left;vertical-align:top}
@media (prefers-color-scheme:dark){body{color:#e8e8e8;background:#161616}code,pre{background:#2a2a2a}td,th,h2{border-color:#333}a{color:#8ab4f8}}
`;

/** What to do about each error that is not a fault of the service, and about one that more space mends. */
const REMEDIES: Readonly<Partial<Record<KeystileErrorCode, string>>> = {
  BAD_REQUEST:
    "Each entry of errors says where the request is faulty, what rule it broke and, where that is plain, what would be right.",
  PERMISSIONS_QUERY_SYNTAX:
    "The permission query is malformed. errors says at which character, what was found and what was expected.",
  AUTH_MISSING: "No credential was sent. Send the header Authorization: Bearer <ROOT_KEY>.",
  AUTH_MALFORMED:
    "The Authorization header is not one Bearer and one token. Send it once, as Authorization: Bearer <ROOT_KEY>.",
  AUTH_KEY_NOT_FOUND:
    "The root key does not exist, was deleted or disabled, has expired, or belongs elsewhere; ordinary keys are no root keys. Make a new root key.",
  AUTH_TOKEN_INVALID:
    "The proxy token does not hold: its signature, issuer, audience, times or claims. Mint a new one.",
  CALLER_FORBIDDEN:
    "The credential is valid and lacks the permission. The detail names it, or those of which one suffices.",
  PROTECTED_RESOURCE: "The resource is protected from this change.",
  NOT_FOUND: "It does not exist, was deleted, or is not yours to see; which of these is not told.",
  METHOD_NOT_ALLOWED: "Use a method that the Allow header names.",
  REQUEST_TIMEOUT: "The request did not arrive in time. Send it again.",
  CONFLICT: "Something with this name exists already. Choose another, or change the one that is there.",
  KEY_LIMIT_REACHED: "The owner has as many keys as it may have. Delete one first.",
  IDEMPOTENCY_IN_FLIGHT: "A request with this Idempotency-Key has not ended yet. Repeat yours once it has.",
  IDEMPOTENCY_MISMATCH:
    "The Idempotency-Key was used with another body. Send the body of the first request again, or take a new key.",
  IDEMPOTENCY_FULL:
    "The workspace has used up its share of the space for Idempotency-Keys, until older ones " +
    "expire. Try again later, or send the request without the header.",
  RESERVATIONS_FULL:
    "The balance has as many open reservations as it may have. Settle some, or wait for their time-out.",
  PAYLOAD_TOO_LARGE: "The body is larger than the service accepts. Send less at once.",
  UNSUPPORTED_MEDIA_TYPE:
    "Send the body as Content-Type: application/json in UTF-8, without a Content-Encoding and without a Transfer-Encoding but chunked.",
  ANALYTICS_TOO_LARGE: "The query reads more than it may. Ask for less time, or for some keys, owners or APIs.",
  TOO_MANY_REQUESTS: "The workspace has made its calls for now. Wait for the seconds that Retry-After says.",
  HEADERS_TOO_LARGE: "The headers are larger than the service accepts. Send fewer or shorter ones.",
};
const DEFAULT_REMEDY =
  "A fault of the service, not of the request. Try again; if it stays, give support the requestId.";

/** The page of an error type. @param base path below which the service is mounted */
export function errorPage({ title, status, type, code }: ProblemType, base = ""): string {
  const body = [
    `<h1>${escape(title)}</h1>`,
    `<p>Status ${status}, type <code>${escape(type)}</code>.</p>`,
    `<p>${escape(REMEDIES[code] ?? DEFAULT_REMEDY)}</p>`,
    `<p>Quote <code>meta.requestId</code> of the answer when you ask for help. <a href="${base}/docs">All operations</a></p>`,
  ];
  return page(base, `${title} (${status})`, body);
}

/** The page at the root of the service: where to go. @param base as in {@link errorPage} */
export function startPage(base = ""): string {
  return page(base, "keystile", [
    "<h1>keystile</h1>",
    "<p>This service verifies API keys.</p>",
    `<ul><li><a href="${base}/docs">All operations</a></li><li><a href="${base}/openapi.json">OpenAPI</a></li>`,
    `<li><a href="${base}/ready">Health</a></li></ul>`,
  ]);
}

/** `/docs/filter.js`: shows the box, and of the list what has all of its words. Without it the list is whole. */
export const FILTER = `const box = document.querySelector("input");
box.closest("p").hidden = false;
box.addEventListener("input", () => {
  const words = box.value.toLowerCase().split(/\\s+/);
  for (const group of document.querySelectorAll("section")) {
    const items = [...group.querySelectorAll("li")];
    for (const item of items) item.hidden = !words.every((word) => item.textContent.toLowerCase().includes(word));
    group.hidden = items.every((item) => item.hidden);
  }
});
`;

/** The list of all operations, in groups. @param base as in {@link errorPage} */
export function indexPage(groups: ReadonlyMap<string, readonly Operation[]>, base = ""): string {
  const item = ({ name, summary }: Operation): string =>
    `<li id="${name}"><a href="${base}/docs/${name}">${name}</a> ${escape(summary)}</li>`;
  return page(base, "keystile", [
    "<h1>keystile</h1>",
    "<p>Verifies API keys: permissions, rate limits and credits in one call. Each operation is <code>POST /v2/&lt;name&gt;</code> with a",
    "JSON body, <code>Content-Type: application/json</code> and <code>Authorization: Bearer &lt;ROOT_KEY&gt;</code>. Answers are",
    "<code>{ meta, data }</code>, lists also have <code>pagination</code>, errors are <code>{ meta, error }</code>.",
    `<a href="${base}/openapi.json">OpenAPI</a>. <code>GET /v2/liveness</code> says whether the service is up and can read its store.</p>`,
    '<p hidden><label>Filter <input type="search"></label></p>',
    ...[...groups].map(
      ([title, members]) => `<section><h2>${title}</h2>\n<ul>${members.map(item).join("\n")}</ul></section>`,
    ),
    `<script src="${base}/docs/filter.js"></script>`,
  ]);
}

/** The page of one operation. @param base as in {@link errorPage} */
export function operationPage(operation: Operation, base = ""): string {
  const { name, summary, request, answer, isList, headers } = operation;
  const data = sampleOf(answer, "data", false);
  return page(base, name, [
    `<p><a href="${base}/docs">All operations</a></p>`,
    `<h1>${name}</h1><p>${escape(summary)}</p>`,
    `<p>Takes ${describePermissions(operation, (permission) => `<code>${escape(permission)}</code>`)}.</p>`,
    "<h2>Request</h2>",
    block(toCurl(`${base}/v2/${name}`, requestSample(operation))),
    "<p><code>KEYSTILE_API_URL</code>: where this service is; <code>KEYSTILE_ROOT_KEY</code>: a root key.</p>",
    ...(headers === undefined ? [] : ["<h3>Headers</h3>", table({ type: "object", properties: headers })]),
    table(request),
    `<h2>Answer: <code>data</code>${isList ? ", a list of" : ""}</h2>`,
    block(
      toText({
        meta: { requestId: "req_2tP0bV7hQ4mZ9xKc" },
        data: isList ? [data] : data,
        ...(isList && { pagination: { hasMore: false } }),
      }),
    ),
    table(answer),
    "<h2>Errors</h2>",
    errors(operation, base),
  ]);
}

function toCurl(path: string, body: Json): string {
  return [
    `curl "$KEYSTILE_API_URL${path}" \\`,
    '  -H "Authorization: Bearer $KEYSTILE_ROOT_KEY" \\',
    '  -H "Content-Type: application/json" \\',
    `  -d '${toText(body).replaceAll("'", "'\\''")}'`,
  ].join("\n");
}

const toText = (value: Json): string => JSON.stringify(value, null, 2);

const block = (text: string): string => `<pre><code>${escape(text)}</code></pre>`;

/** The error types of an operation, by status, each with its page. */
function errors(operation: Operation, base: string): string {
  const statuses = new Set(statusesOf(operation));
  const links = listProblemTypes()
    .filter(({ status }) => statuses.has(status) && status < 500)
    .map(({ status, title, type }) => `<li>${status} <a href="${base}/docs/errors/${type}">${escape(title)}</a></li>`);
  return `<ul>${links.join("")}<li>500, 503: a fault of the service, not of the request</li></ul>`;
}

function table(schema: JsonSchema): string {
  const rows = fieldsOf(schema.items ?? schema, "");
  if (rows.length === 0) return "<p>An empty object.</p>";
  return `<table><tr><th>Field</th><th>Type</th><th></th><th>Meaning</th></tr>${rows.join("")}</table>`;
}

/**
 * A row for each field, those of nested objects and lists below theirs: `credits.refill.amount`, `ratelimits[].name`.
 */
function fieldsOf({ properties = {}, required = [] }: JsonSchema, before: string): string[] {
  return Object.entries(properties).flatMap(([name, schema]) => {
    const need = required.includes(name) ? "required" : "";
    const path = before + name;
    return [
      `<tr><td><code>${escape(path)}</code></td><td>${escape(typeOf(schema))}</td><td>${need}</td><td>${escape(schema.description ?? "")}</td></tr>`,
      ...fieldsOf(schema, `${path}.`),
      ...fieldsOf(schema.items ?? {}, `${path}[].`),
    ];
  });
}

function typeOf({ type = "", enum: values, minLength, maxLength, minimum, maximum, items }: JsonSchema): string {
  const name = typeof type === "string" ? type : type.join(" or ");
  const of = items?.type === undefined ? "" : ` of ${String(items.type)}`;
  if (values !== undefined) return values.map(String).join(", ");
  if (maxLength !== undefined) return `${name}, ${minLength ?? 0} to ${maxLength} characters`;
  if (minimum !== undefined && maximum !== undefined) return `${name}, ${minimum} to ${maximum}`;
  return name + of;
}

function page(base: string, title: string, body: readonly string[]): string {
  const head = `<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${escape(title)}</title>`;
  return `<!doctype html>\n<html lang="en"><head>${head}<link rel="stylesheet" href="${base}/docs/style.css"></head>\n<body>\n${body.join("\n")}\n</body></html>\n`;
}

function escape(text: string): string {
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;");
}
