/** A playground for permission queries: how one is read, and what it says of a list of permissions. */
import { compileQuery, createGrants, namesInQuery, parseQuery } from "../../access/permission-query.js";
import { isKeystileError } from "../../contracts/errors.js";
import { askForm, type Field } from "../../view/form.js";
import { html, type Html, type Part } from "../../view/html.js";
import { badge, code, link, section, table } from "../../view/parts.js";
import type { Content, Page, View } from "../view/view.js";
import { keyLink, ownerLink, toKey } from "./key-parts.js";
import { explainAsked, mistake } from "./verdict.js";

const MAX_QUERY = 1_000;
/** Keys of a text that a query is asked of. */
const MAX_KEYS = 8;
const HELP = "Names with AND, OR and parentheses. AND binds tighter than OR.";

async function show(view: View): Promise<Content> {
  const value = (name: string): string => view.query.get(name) ?? "";
  const [text, granted, key] = [value("query").slice(0, MAX_QUERY), value("granted"), value("key").trim()];
  const fields: readonly Field[] = [
    { name: "query", label: "Query", value: text, placeholder: "documents.read AND (exports.run OR admin)" },
    ...(view.may("keys.searchKeys")
      ? [{ name: "key", label: "Of a key", value: key, placeholder: "Name, owner or id" }]
      : []),
    { name: "granted", label: "Or of permissions", value: granted, placeholder: "documents.* exports.run" },
  ];
  const ofKeys = text !== "" && key !== "" && (await ofFound(view, text, key));
  const found = text === "" ? html`<p class="ks-empty">${HELP}</p>` : ofKeys || evaluated(text, granted);
  return {
    title: "Permission query",
    about: "Whether a key, or a list of permissions, satisfies a query. Nothing is stored.",
    body: html`${askForm(view, "Permission query", fields, "Evaluate", "/query")}
      <div id="ks-found" aria-live="polite">${found}</div>`,
  };
}

/** What some keys that hold a text may; undefined: what is wrong with the query is said of any permissions. */
async function ofFound(view: View, permissions: string, search: string): Promise<Html | undefined> {
  const { data } = await view.ask("keys.searchKeys", { search, limit: MAX_KEYS });
  const rows = await Promise.all(
    data.map(async (key): Promise<Part[] | undefined> => {
      const asked = { query: permissions, cost: "", address: "", isLast: false };
      const found = await explainAsked(view, key, asked);
      if (!("checks" in found)) return undefined;
      const check = found.checks.find(({ code: of }) => of === "INSUFFICIENT_PERMISSIONS");
      const to = `${view.path(toKey(key.keyId))}?${new URLSearchParams({ query: permissions }).toString()}`;
      const said = check?.passes === true ? badge("good", "satisfied") : badge("bad", "not satisfied");
      return [keyLink(view, key), ownerLink(view, key), said, link(to, "Every check")];
    }),
  );
  if (rows.includes(undefined)) return undefined;
  const columns = ["Key", "Owner", "Query", "Explain"];
  return table("Keys", columns, rows as Part[][], "No key is found.");
}

function evaluated(text: string, granted: string): Html {
  const grants = createGrants(granted.split(/[\s,]+/).filter((name) => name !== ""));
  try {
    const tree = parseQuery(text);
    const passes = compileQuery(text).satisfiedBy(grants);
    const word = (name: string): Html => (grants.covers(name) ? badge("good", "present") : badge("bad", "missing"));
    const names = namesInQuery(tree);
    const read = html`<pre class="ks-pre" tabindex="0" aria-label="The query with all parentheses">${toGroups(tree)}</pre>`;
    if (granted === "")
      return html`<p class="ks-empty">Name a key, or permissions, to see whether they satisfy it.</p>
        ${table(
          "Permissions in the query",
          ["Permission"],
          names.map((name) => [code(name)]),
          "",
        )}${section("How it is read", read)}`;
    const rows = names.map((name): Part[] => [code(name), word(name)]);
    return html`<p class="ks-verdict">${passes ? badge("good", "satisfied") : badge("bad", "not satisfied")}</p>
      ${table("Permissions in the query", ["Permission", "Granted"], rows, "")}${section("How it is read", read)}`;
  } catch (error) {
    if (!isKeystileError(error)) throw error;
    return mistake(error, text);
  }
}

/** A query with all its parentheses. */
function toGroups(node: ReturnType<typeof parseQuery>): string {
  if (node.kind === "permission") return node.name;
  return `(${toGroups(node.left)} ${node.kind.toUpperCase()} ${toGroups(node.right)})`;
}

/** The page of the playground. */
export const queryPages: readonly Page[] = [{ path: "/query", show }];
