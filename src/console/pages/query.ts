/** A playground for permission queries: how one is read, and what it says of a list of permissions. */
import { compileQuery, createGrants, namesInQuery, parseQuery } from "../../access/permission-query.js";
import { isKeystileError } from "../../contracts/errors.js";
import { askForm, type Field } from "../../view/form.js";
import { html, type Html, type Part } from "../../view/html.js";
import { badge, code, section, table } from "../../view/parts.js";
import type { Content, Page, View } from "../view/view.js";
import { mistake } from "./verdict.js";

const MAX_QUERY = 1_000;
const HELP = "Names with AND, OR and parentheses. AND binds tighter than OR.";

async function show(view: View): Promise<Content> {
  const value = (name: string): string => view.query.get(name) ?? "";
  const [text, granted] = [value("query").slice(0, MAX_QUERY), value("granted")];
  const fields: readonly Field[] = [
    { name: "query", label: "Query", value: text, placeholder: "documents.read AND (exports.run OR admin)" },
    { name: "granted", label: "Permissions of the key", value: granted, placeholder: "documents.* exports.run" },
  ];
  const found = text === "" ? html`<p class="ks-empty">${HELP}</p>` : evaluated(text, granted);
  return {
    title: "Permission query",
    about: "What a query means, and whether some permissions satisfy it. Nothing is stored.",
    body: html`${askForm(view, "Permission query", fields, "Evaluate", "/query")}
      <div id="ks-found" aria-live="polite">${found}</div>`,
  };
}

function evaluated(text: string, granted: string): Html {
  const grants = createGrants(granted.split(/[\s,]+/).filter((name) => name !== ""));
  try {
    const tree = parseQuery(text);
    const passes = compileQuery(text).satisfiedBy(grants);
    const word = (name: string): Html => (grants.covers(name) ? badge("good", "has") : badge("bad", "lacks"));
    const rows = namesInQuery(tree).map((name): Part[] => [code(name), word(name)]);
    const read = html`<pre class="ks-pre" tabindex="0" aria-label="The query with all parentheses">${toGroups(tree)}</pre>`;
    return html`<p class="ks-verdict">${passes ? badge("good", "satisfied") : badge("bad", "not satisfied")}</p>
      ${table("Permissions in the query", ["Permission", "Key"], rows, "")}${section("How it is read", read)}`;
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
