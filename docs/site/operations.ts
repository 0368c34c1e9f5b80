/** A page for each operation: what it is called in the library, over HTTP and on the command line, and its fields. */
import { listProblemTypes } from "../../src/contracts/errors.js";
import { requestSample, sampleOf } from "../../src/http/docs/samples.js";
import { statusesOf } from "../../src/http/docs/statuses.js";
import { describePermissions } from "../../src/http/operations/access.js";
import { OPERATIONS } from "../../src/http/operations/index.js";
import type { Operation } from "../../src/http/operations/operation.js";
import type { JsonSchema } from "../../src/keyring/schemas/json-schema.js";
import type { Help } from "./commands.js";
import { commandOf, libraryOf } from "./twins.js";

/** Where an operation's page is, as a path of the repository that has no file. */
export const pathOf = (operation: string): string => `docs/http/${operation}.md`;

/** @param help of commands, by their words */
export function operationPages(help: Help): ReadonlyMap<string, string> {
  return new Map(
    Object.values(OPERATIONS).map((operation) => [pathOf(operation.name), operationPage(operation, help)]),
  );
}

function operationPage(operation: Operation, help: Help): string {
  const { name, summary, request, answer, isList, headers } = operation;
  const library = libraryOf(name);
  const command = commandOf(name);
  const data = sampleOf(answer, "data", false);
  const answered = { meta: { requestId: "req_2tP0bV7hQ4mZ9xKc" }, data: isList ? [data] : data };
  return [
    `# ${name}`,
    summary,
    table(
      ["Where", "Called"],
      [
        ["In the library", library === undefined ? "not there: only a service has callers" : `\`${library}\``],
        ["Over HTTP", `\`POST /v2/${name}\``],
        ["On the command line", `\`keystile ${command}\``],
      ],
    ),
    `A root key needs ${describePermissions(operation, (permission) => `\`${permission}\``)}. [Callers](../callers.md) has the longer form of permissions.`,
    "## Request",
    fence("sh", toCurl(name, JSON.stringify(requestSample(operation), null, 2))),
    ...(headers === undefined ? [] : ["### Headers", fields({ type: "object", properties: headers })]),
    "### Body",
    fields(request),
    `## Answer`,
    `${isList ? "A page of these, in `data`" : "In `data`"}:`,
    fence("json", JSON.stringify({ ...answered, ...(isList && { pagination: { hasMore: false } }) }, null, 2)),
    fields(answer),
    "## Errors",
    table(
      ["Status", "Codes"],
      statusesOf(operation).map((status) => [
        `${status}`,
        listProblemTypes()
          .filter((type) => type.status === status)
          .map(({ code }) => `[\`${code}\`](../errors.md#${code})`)
          .join(" "),
      ]),
    ),
    "## On the command line",
    fence("text", help.get(command) ?? ""),
  ].join("\n\n");
}

function toCurl(name: string, body: string): string {
  return [
    `curl "$KEYSTILE_API_URL/v2/${name}" \\`,
    '  -H "Authorization: Bearer $KEYSTILE_ROOT_KEY" \\',
    '  -H "Content-Type: application/json" \\',
    `  -d '${body.replaceAll("'", "'\\''")}'`,
  ].join("\n");
}

const fence = (language: string, text: string): string => `\`\`\`${language}\n${text}\n\`\`\``;

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");
}

function fields(schema: JsonSchema): string {
  const rows = fieldsOf(schema.items ?? schema, "");
  return rows.length === 0 ? "An empty object." : table(["Field", "Type", "", "Meaning"], rows);
}

/** A row for each field, those of objects and lists below theirs: `credits.refill.amount`, `ratelimits[].name`. */
function fieldsOf({ properties = {}, required = [] }: JsonSchema, before: string): string[][] {
  return Object.entries(properties).flatMap(([name, schema]) => [
    [
      `\`${before}${name}\``,
      typeOf(schema).replaceAll("|", "\\|"),
      required.includes(name) ? "required" : "",
      (schema.description ?? "").replaceAll("|", "\\|").replaceAll("<", "\\<").replaceAll("*", "\\*"),
    ],
    ...fieldsOf(schema, `${before}${name}.`),
    ...fieldsOf(schema.items ?? {}, `${before}${name}[].`),
  ]);
}

function typeOf({
  type = "",
  enum: values,
  minLength,
  maxLength,
  minimum,
  maximum,
  default: value,
  items,
}: JsonSchema): string {
  const name = typeof type === "string" ? type : type.join(" or ");
  const of = items?.type === undefined ? "" : ` of ${String(items.type)}`;
  const notes = [
    ...(maxLength === undefined ? [] : [`${minLength ?? 0} to ${maxLength} characters`]),
    ...(minimum === undefined || maximum === undefined ? [] : [`${minimum} to ${maximum}`]),
    ...(value === undefined ? [] : [`default ${JSON.stringify(value)}`]),
  ];
  return [
    values === undefined
      ? name + of
      : values.map((one) => `\`${JSON.stringify(one).replace(/^"(.*)"$/, "$1")}\``).join(" "),
    ...notes,
  ].join(", ");
}
