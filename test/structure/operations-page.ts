/** The page of all operations over HTTP, from the table that routes and the command line are built from. */
import { format } from "oxfmt";
import { libraryOf } from "../../docs/site/twins.js";
import { OPERATIONS } from "../../src/http/operations/index.js";

/** Asked for with `strictDelegation` alone, by every operation that gives a key something. */
const isStrict = ({ where }: { readonly where?: string | undefined }): boolean =>
  where?.endsWith(" and `strictDelegation` is on") === true;
const strict = [
  ...new Set(OPERATIONS["keys.createKey"]!.also.filter(isStrict).map(({ permission }) => `\`${permission}\``)),
].join(", ");

const HEAD = `# Operations over HTTP

Each is \`POST /v2/<name>\` with a JSON body and \`Authorization: Bearer <root key>\`, and \`keystile api <group> <operation>\` on the command line: \`keystile api keys create-key\`. The second column is its name in a program, where \`keyring\` is \`createKeyring(store)\`, \`verifier\` is \`createVerifier(store)\`, \`ratelimits\` is \`createRatelimits(store)\` and \`analytics\` is \`createAnalytics(store)\`. [\`keystile serve\`](http-service.md) shows every field at \`/docs\`, with a request to copy; \`/openapi.json\` is for programs.

A root key needs one of the permissions in the row; [Callers](callers.md) has the longer form of each. With \`strictDelegation\`, an operation marked _delegates_ needs one more for each kind of thing that it gives to a key: ${strict}. Any operation may also answer 400, 401, 403, 429, 500 or 503: [Errors](errors.md) has their causes.
`;

/** As it is committed. */
export async function operationsPage(): Promise<string> {
  const all = Object.values(OPERATIONS);
  const sections = [...new Set(all.map(groupOf))].map((group) => {
    const rows = all
      .filter((operation) => groupOf(operation) === group)
      .map(({ name, summary, permissions, also, statuses, headers, isList }) => {
        const called = libraryOf(name);
        const library = called === undefined ? "" : `\`${called}\``;
        const further = also
          .filter((one) => !isStrict(one))
          .map(({ permission, where }) => `, and \`${permission}\`${where ? ` where ${where}` : ""}`);
        const more = [
          isList && "in pages",
          also.some(isStrict) && "delegates",
          headers?.["Idempotency-Key"] && "takes `Idempotency-Key`",
          ...statuses,
        ];
        const needed = `${permissions
          .filter((one) => !one.startsWith("<scheme>"))
          .map((one) => `\`${one}\``)
          .join(" ")}${further.join("")}`;
        return `| \`${name}\` | ${library} | ${summary} | ${needed} | ${more.filter(Boolean).join(", ")} |`;
      });
    return `## ${group}\n\n| Operation | Library | What it does | Permission | More |\n| --- | --- | --- | --- | --- |\n${rows.join("\n")}\n`;
  });
  const { code, errors } = await format("http-operations.md", `${HEAD}\n${sections.join("\n")}`);
  if (errors.length > 0) throw new Error(`the page of operations cannot be formatted: ${JSON.stringify(errors)}`);
  return code;
}

const groupOf = ({ name }: { readonly name: string }): string => name.slice(0, name.indexOf("."));
