/** The audit trail: who changed what, and when; and that of one thing, for its page. */
import type { Json, RatelimitResponse, Refill } from "../../contracts/types.js";
import type { AuditData, AuditKind } from "../../keyring/schemas/responses.js";
import { CHANGES, ifAble, ifThere } from "../ask.js";
import { count, fromField, number, signed, time, toDate, words } from "../../view/format.js";
import type { Field, Options } from "../../view/form.js";
import { html, type Html, type Part } from "../../view/html.js";
import { asked, searched } from "../view/lists.js";
import { code, link, muted, name, section, table } from "../../view/parts.js";
import type { Content, Page, View } from "../view/view.js";
import { search } from "./search.js";
import { toLimitLines, toRefill } from "./key-fields.js";
import { keysById, toKey, toOwner } from "./key-parts.js";

const COLUMNS = ["When", "Who", "What", "Changed", { title: "Credits", isNumber: true }, "Key or owner"];

async function show(view: View): Promise<Content> {
  const filters = asked(view, "id", "actorSearch", "operation", "from", "to");
  const { from, to, ...others } = filters;
  const times = {
    ...(from !== undefined && { from: fromField(from) }),
    ...(to !== undefined && { to: fromField(to) }),
  };
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
    field("actorSearch", "Who", "name or id"),
    { ...field("operation", "What", ""), type: "select" as const, options: choices(filters["operation"]) },
    { ...field("from", "From, UTC", ""), type: "datetime-local" as const },
    { ...field("to", "Before, UTC", ""), type: "datetime-local" as const },
  ];
  const rows = await rowsOf(view, data);
  return {
    title: "Audit",
    about: "Who changed what, newest first, and what it was before.",
    body: searched(view, fields, { title: "Audit", columns: COLUMNS, rows, empty: "No entry is found.", pagination }),
  };
}

type Entry = Omit<AuditData, "kinds"> & Partial<Pick<AuditData, "kinds">>;

/** Ids of an entry that are shown. */
const SHOWN = 3;

async function rowsOf(view: View, entries: readonly Entry[]): Promise<Part[][]> {
  const names = await namesOf(view, entries);
  return entries.map((entry) => row(view, entry, names));
}

/** What keys and owners are called, by id; those that are gone, or that the caller may not see, are left out. */
async function namesOf(view: View, entries: readonly Entry[]): Promise<ReadonlyMap<string, string>> {
  const idsOf = (wanted: AuditKind): string[] => [
    ...new Set(
      entries.flatMap((entry) => entry.ids.slice(0, SHOWN).filter((id, i) => kindOf(entry, id, i) === wanted)),
    ),
  ];
  const [keys, owners] = [
    await keysById(view, idsOf("key")),
    view.may("identities.getIdentity") ? idsOf("identity") : [],
  ];
  const found = await Promise.all(owners.map((identity) => ifThere(view.ask("identities.getIdentity", { identity }))));
  return new Map([
    ...[...keys.values()].flatMap(({ keyId, name: called }) =>
      called === undefined ? [] : [[keyId, called] as const],
    ),
    ...found.flatMap((owner) => (owner === undefined ? [] : [[owner.id, owner.externalId] as const])),
  ]);
}

/** Entries of a statement have no kinds. */
const kindOf = ({ kinds }: Entry, id: string, i: number): AuditKind =>
  kinds?.[i] ?? (id.startsWith("key_") ? "key" : "other");

/** `createKey` as `Create key`, in the words of the console. */
function verb(operation: string): string {
  const said = words(operation).replace("reroll", "rotate").replace("identity", "owner");
  return said.charAt(0).toUpperCase() + said.slice(1);
}

/** The operations that one can look for, with the one that is looked for. */
function choices(asked?: string): Options {
  const all = new Set([...(asked === undefined ? [] : [asked]), ...CHANGES]);
  return [
    ["", "Anything"],
    ...[...all].map((name) => [name, verb(name)] as const).sort(([, a], [, b]) => (a < b ? -1 : 1)),
  ];
}

/** Fields whose names say too little, or another word than the console. */
const FIELDS: Readonly<Record<string, string>> = {
  rerolledTo: "replaced by",
  rerolledFrom: "replaces",
  externalId: "owner",
  identityId: "owner",
  ipAllowlist: "allowed addresses",
  meta: "metadata",
};

function row(view: View, entry: Entry, names: ReadonlyMap<string, string>): Part[] {
  const { time: at, actorKind, actor, actorName, operation, reason, count: rows, entries } = entry;
  const shown = actorName ?? actor;
  // Beside the id of a root key its name; a program says who it acts for.
  const kind = actorKind === "program" ? "" : words(actorKind);
  const who =
    shown === undefined
      ? muted(kind || "the program")
      : html`${name(shown)} ${muted(actorName === undefined ? kind : name(actor ?? ""))}`;
  const why = reason === undefined ? "" : html`<div>${muted("Reason:")} ${name(reason)}</div>`;
  const many = entries === undefined ? "" : html` ${muted(`${count(rows, "key")} in ${entries} batches`)}`;
  const what = html`${verb(operation)}${why}${many}`;
  return [time(at, view.now), who, what, changed(entry), amounts(entry), of(view, entry, names)];
}

/** What each field was and is; of others only their names. */
function changed({ fields, changes = [] }: Entry): Part {
  const called = (field: string): string => (Object.hasOwn(FIELDS, field) && FIELDS[field]) || words(field);
  const told = changes.map(({ field, from, to, removed = [], added = [] }): Part => {
    const items = [...removed.map((one) => ["−", one] as const), ...added.map((one) => ["+", one] as const)];
    const listed = items.map(([sign, one], i) => html`${i > 0 && ", "}${sign} ${valueOf(field, one)}`);
    const values = items.length > 0 ? listed : html`${valueOf(field, from)} → ${valueOf(field, to)}`;
    return html`<div>${called(field)}: ${values}</div>`;
  });
  const others = fields.filter((field) => changes.every((change) => change.field !== field)).map(called);
  return html`${told}${others.join(", ")}`;
}

/** A value of a field in words. */
function valueOf(field: string, value: Json | undefined): Part {
  if (value === undefined || value === null) return muted(field === "expires" ? "never" : "none");
  if (field === "expires" && typeof value === "number") return toDate(value);
  if (field === "ratelimits") return code(toLimitLines([value as unknown as RatelimitResponse]));
  if (field === "refill") return toRefill(value as unknown as Refill);
  if (typeof value === "boolean") return value ? "yes" : "no";
  return typeof value === "string" ? name(value) : JSON.stringify(value);
}

/** What was added, and what was left then. */
function amounts({ credits }: Entry): Part {
  if (credits === undefined) return undefined;
  const { added, remaining } = credits;
  const left = remaining === null ? "now unlimited" : `now ${number(remaining)}`;
  return html`${added === 0 ? "none added" : signed(added)}<br> ${muted(left)}`;
}

/** The page of each kind that has one; of the others, their entries. */
const PAGES: Readonly<Partial<Record<AuditKind, (id: string) => string>>> = { key: toKey, identity: toOwner };

function of(view: View, entry: Entry, names: ReadonlyMap<string, string>): Part {
  const { ids, count: rows } = entry;
  if (ids.length === 0) return count(rows, "row");
  const shown = ids.slice(0, SHOWN).map((id, i): Part => {
    const page = PAGES[kindOf(entry, id, i)];
    const path = page === undefined ? `${view.path("/audit")}?id=${encodeURIComponent(id)}` : view.path(page(id));
    const called = names.get(id);
    return html`<div>${link(path, called === undefined ? code(id) : name(called))}</div>`;
  });
  return ids.length <= SHOWN ? shown : html`${shown}${muted(`and ${count(ids.length - SHOWN, "other")}`)}`;
}

/** The newest changes, or those of one thing, for whoever may read the trail. */
export async function recent(view: View, title: string, filters: { readonly id?: string } = {}): Promise<Part> {
  if (!view.may("audit.listAudit")) return undefined;
  const found = await ifAble(view.ask("audit.listAudit", { ...filters, limit: 10 }));
  const all = `${view.path("/audit")}?${new URLSearchParams({ ...filters }).toString()}`;
  return found && section(title, await changeTable(view, title, found.data), link(all, "All changes"));
}

/** Entries of the trail. */
export async function changeTable(view: View, title: string, entries: readonly Entry[]): Promise<Html> {
  return table(title, COLUMNS, await rowsOf(view, entries), "No change is recorded.");
}

/** The page of the audit trail. */
export const auditPages: readonly Page[] = [
  { path: "/audit", needs: "audit.listAudit", isRead: true, show, act: search },
];
