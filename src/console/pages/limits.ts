/** Rate limits of anything: namespaces, and the identifiers that have a limit of their own in one. */
import { number, window } from "../../view/format.js";
import { type Field, form } from "../../view/form.js";
import { html, type Part } from "../../view/html.js";
import { asked, listed } from "../view/lists.js";
import { code, link, name, section } from "../../view/parts.js";
import type { Content, Done, Page, View } from "../view/view.js";
import { toNumber } from "./key-fields.js";

const toNamespace = (id: string): string => `/limits/${encodeURIComponent(id)}`;
const FIELDS: readonly Field[] = [
  { name: "identifier", label: "Identifier", hint: "Exactly, or with * for any text: user_*", isRequired: true },
  { name: "limit", label: "Tokens", type: "number", hint: "0: nothing passes.", isRequired: true },
  { name: "duration", label: "Seconds", type: "number", isRequired: true },
];

async function list(view: View): Promise<Content> {
  const request = { limit: 50, ...asked(view, "cursor") };
  const { data, pagination } = await view.ask("ratelimit.listNamespaces", request);
  const rows = data.map(({ id, name: called }): Part[] => [link(view.path(toNamespace(id)), name(called)), code(id)]);
  const empty = "No namespace yet: the first check of one makes it. Limits of keys and owners are on their pages.";
  return {
    title: "Limits",
    about: "Limits that a program checks by a name of its own, without a key.",
    body: listed(view, { title: "Namespaces", columns: ["Namespace", "Id"], rows, empty, pagination }),
  };
}

async function show(view: View, namespace: string): Promise<Content> {
  const request = { namespace, limit: 50, ...asked(view, "cursor") };
  const { data, pagination } = await view.ask("ratelimit.listOverrides", request);
  const to = toNamespace(namespace);
  const removal = (removed: string): Part => {
    if (!view.may("ratelimit.deleteOverride")) return undefined;
    return form(view, { to: `${to}/delete`, hidden: { removed }, submit: "Remove", tone: "quiet", isInline: true });
  };
  const rows = data.map(({ identifier, limit, duration }): Part[] => [
    name(identifier),
    `${number(limit)} per ${window(duration)}`,
    removal(identifier),
  ]);
  const columns = ["Identifier", "Limit", "Action"];
  const setting = form(view, { to, fields: FIELDS, submit: "Set", cancel: "/limits" });
  return {
    title: "Overrides",
    about: html`Namespace ${code(namespace)}. An override replaces the limit that a check asks for.`,
    body: html`${listed(view, { title: "Overrides", columns, rows, empty: "No overrides.", pagination })}
      ${view.may("ratelimit.setOverride") && section("Set an override", setting)}`,
  };
}

async function set(view: View, namespace: string): Promise<Done> {
  const [identifier = "", limit = "", seconds = ""] = FIELDS.map((field) => view.form.get(field.name) ?? "");
  const length = toNumber(seconds);
  const duration = typeof length === "number" ? Math.round(length * 1_000) : length;
  await view.ask("ratelimit.setOverride", { namespace, identifier, limit: toNumber(limit), duration });
  return { to: toNamespace(namespace), notice: "changed" };
}

async function remove(view: View, namespace: string): Promise<Done> {
  await view.ask("ratelimit.deleteOverride", { namespace, identifier: view.form.get("removed") ?? "" });
  return { to: toNamespace(namespace), notice: "deleted" };
}

/** The pages of limits. */
export const limitPages: readonly Page[] = [
  { path: "/limits", needs: "ratelimit.listNamespaces", show: list },
  { path: "/limits/:id", needs: "ratelimit.listOverrides", show, act: set },
  { path: "/limits/:id/delete", needs: "ratelimit.deleteOverride", show, act: remove },
];
