/** The audit trail: who changed what, and when; and that of one thing, for its page. */
import type { AuditData, AuditKind } from "../../keyring/schemas/responses.js";
import { ifAble } from "../ask.js";
import { count, number, signed, time } from "../../view/format.js";
import type { Field } from "../../view/form.js";
import { html, type Html, type Part } from "../../view/html.js";
import { asked, searched } from "../view/lists.js";
import { code, link, muted, name, section, table } from "../../view/parts.js";
import type { Content, Page, View } from "../view/view.js";
import { search } from "./search.js";
import { toKey, toOwner } from "./key-parts.js";

const COLUMNS = ["When", "Who", "What", "Fields", { title: "Credits", isNumber: true }, "Of"];

async function show(view: View): Promise<Content> {
  const filters = asked(view, "id", "actorSearch", "operation", "from", "to");
  const { from, to, ...others } = filters;
  const times = { ...(from !== undefined && { from: toTime(from) }), ...(to !== undefined && { to: toTime(to) }) };
  const request = { ...others, ...times, limit: 50, ...asked(view, "cursor") };
  const { data, pagination } = await view.ask("audit.listAudit", request);
  const field = (name: string, label: string, placeholder: string): Field => ({
    name,
    label,
    placeholder,
    value: filters[name],
  });
  const fields = [
    field("id", "Id", "key_…"),
    field("actorSearch", "Actor", "part of a name or id"),
    field("operation", "Operation", "createKey"),
    { ...field("from", "From, UTC", ""), type: "datetime-local" as const },
    { ...field("to", "Before, UTC", ""), type: "datetime-local" as const },
  ];
  const rows = data.map((entry) => row(view, entry));
  return {
    title: "Audit",
    about: "Who changed what, newest first. Of values only amounts of credits are kept.",
    body: searched(view, fields, { title: "Audit", columns: COLUMNS, rows, empty: "No entry is found.", pagination }),
  };
}

/** Those of a statement have no kinds. */
type Entry = Omit<AuditData, "kinds"> & Partial<Pick<AuditData, "kinds">>;

function row(view: View, entry: Entry): Part[] {
  const { time: at, actorKind, actor, actorName, operation, fields, reason, count: rows, entries } = entry;
  const shown = actorName ?? actor;
  const who =
    shown === undefined ? muted(actorKind) : html`${name(shown)} ${muted(actorName === undefined ? actorKind : actor)}`;
  const why = reason === undefined ? "" : html` ${name(reason)}`;
  const many = entries === undefined ? "" : html` ${muted(`${count(rows, "key")} in ${entries} batches`)}`;
  return [
    time(at, view.now),
    who,
    html`${code(operation)}${why}${many}`,
    fields.join(", "),
    amounts(entry),
    idsOf(view, entry),
  ];
}

/** A time of a form, UTC; one that cannot be read is a fault of the request. */
const toTime = (text: string): number => Date.parse(`${text}Z`);

/** What was added, and what was left then. */
function amounts({ credits }: Entry): Part {
  if (credits === undefined) return undefined;
  const { added, remaining } = credits;
  return html`${signed(added)} ${muted(remaining === null ? "unlimited" : `= ${number(remaining)}`)}`;
}

/** The page of each kind that has one; of the others, their entries. */
const PAGES: Readonly<Partial<Record<AuditKind, (id: string) => string>>> = { key: toKey, identity: toOwner };

function idsOf(view: View, { ids, kinds, count: rows }: Entry): Part {
  const [first] = ids;
  if (first === undefined) return count(rows, "row");
  const page = PAGES[kinds?.[0] ?? (first.startsWith("key_") ? "key" : "other")];
  const path = page === undefined ? `${view.path("/audit")}?id=${encodeURIComponent(first)}` : view.path(page(first));
  const shown = link(path, code(first));
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
export function changeTable(view: View, title: string, entries: readonly Entry[]): Html {
  const rows = entries.map((entry) => row(view, entry));
  return table(title, COLUMNS, rows, "No change is recorded.");
}

/** The page of the audit trail. */
export const auditPages: readonly Page[] = [
  { path: "/audit", needs: "audit.listAudit", isRead: true, show, act: search },
];
