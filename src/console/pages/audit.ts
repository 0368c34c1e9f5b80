/** The audit trail: who changed what, and when; and that of one thing, for its page. */
import type { AuditData } from "../../keyring/schemas/responses.js";
import { ifAble } from "../ask.js";
import { count, number, signed, time } from "../../view/format.js";
import type { Field } from "../../view/form.js";
import { html, type Html, type Part } from "../../view/html.js";
import { asked, searched } from "../view/lists.js";
import { code, link, muted, name, section, table } from "../../view/parts.js";
import type { Content, Page, View } from "../view/view.js";
import { search } from "./search.js";
import { toKey } from "./key-parts.js";

const COLUMNS = ["When", "Who", "What", "Fields", { title: "Credits", isNumber: true }, "Of"];

async function show(view: View): Promise<Content> {
  const filters = asked(view, "id", "actor", "operation");
  const request = { ...filters, limit: 50, ...asked(view, "cursor") };
  const { data, pagination } = await view.ask("audit.listAudit", request);
  const field = (name: string, label: string, placeholder: string): Field => ({
    name,
    label,
    placeholder,
    value: filters[name],
  });
  const fields = [
    field("id", "Id", "key_…"),
    field("actor", "Actor", "rk_…"),
    field("operation", "Operation", "createKey"),
  ];
  const rows = data.map((entry) => row(view, entry));
  return {
    title: "Audit",
    about: "Who changed what, newest first. Of values only amounts of credits are kept.",
    body: searched(view, fields, { title: "Audit", columns: COLUMNS, rows, empty: "No entry is found.", pagination }),
  };
}

function row(view: View, entry: AuditData): Part[] {
  const { time: at, actorKind, actor, operation, fields, ids, count: rows, reason } = entry;
  const who = actor === undefined ? muted(actorKind) : html`${name(actor)} ${muted(actorKind)}`;
  const what = reason === undefined ? code(operation) : html`${code(operation)} ${name(reason)}`;
  return [time(at, view.now), who, what, fields.join(", "), amounts(entry), idsOf(view, ids, rows)];
}

/** What was added, and what was left then. */
function amounts({ credits }: AuditData): Part {
  if (credits === undefined) return undefined;
  const { added, remaining } = credits;
  return html`${signed(added)} ${muted(remaining === null ? "unlimited" : `= ${number(remaining)}`)}`;
}

function idsOf(view: View, ids: readonly string[], rows: number): Part {
  const [first] = ids;
  if (first === undefined) return count(rows, "row");
  const shown = first.startsWith("key_") ? link(view.path(toKey(first)), code(first)) : code(first);
  return ids.length === 1 ? shown : html`${shown} ${muted(`and ${count(ids.length - 1, "other")}`)}`;
}

/** The newest changes, or those of one thing, for whoever may read the trail. */
export async function recent(view: View, title: string, filters: { readonly id?: string } = {}): Promise<Part> {
  if (!view.may("audit.listAudit")) return undefined;
  const found = await ifAble(view.ask("audit.listAudit", { ...filters, limit: 10 }));
  const all = `${view.path("/audit")}?${new URLSearchParams({ ...filters }).toString()}`;
  return found && section(title, changeTable(view, title, found.data), link(all, "All changes"));
}

/** Entries of the trail. */
export function changeTable(view: View, title: string, entries: readonly AuditData[]): Html {
  const rows = entries.map((entry) => row(view, entry));
  return table(title, COLUMNS, rows, "No change is recorded.");
}

/** The page of the audit trail. */
export const auditPages: readonly Page[] = [
  { path: "/audit", needs: "audit.listAudit", isRead: true, show, act: search },
];
