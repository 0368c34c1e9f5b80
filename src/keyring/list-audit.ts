/** Reads the audit trail: the operation `audit.listAudit`. */
import type { AuditEntry, AuditQuery } from "../contracts/audit.js";
import { hasIdForm } from "../lib/hash.js";
import type { Mutable } from "../lib/mutable.js";
import { requirePower } from "../lib/guards/powers.js";
import type { Context } from "./context.js";
import { operation } from "./operation.js";
import { readCursor, writeCursor } from "./schemas/cursor.js";
import { page } from "./schemas/page.js";
import { body, nameGiven, optional, text, time } from "./schemas/primitives.js";
import type { ListAuditRequestBody } from "./schemas/requests.js";
import type { AuditData, AuditKind, Page } from "./schemas/responses.js";

const DEFAULT_LIMIT = 100;
const MAX_ACTOR = 1_024;
/** Entries that the store looks at in one call: as many as take a millisecond or two. */
const SLICE = 1_000;
/** Entries that are read at once where those that fit are told here. */
const LOOKED = 250;
const IMPORT = "migrateKeys";
/** Milliseconds between two batches of one import, at most. */
const MAX_GAP = 600_000;
/** Kinds of rows by the prefix of their ids. */
const KINDS: Readonly<Record<string, AuditKind>> = {
  ...{ key: "key", api: "api", id: "identity", perm: "permission", role: "role", rk: "rootKey", mig: "migration" },
  ...{ grant: "grant", ns: "namespace", ovr: "override" },
};
/** Kinds of ids that a program gave, by the operation. */
const OPERATIONS: readonly (readonly [RegExp, AuditKind])[] = [
  [/Api$/, "api"],
  [/Migration$/, "migration"],
  [/Workspace$/, "workspace"],
  [/Key$|Keys$/, "key"],
];
/** Milliseconds after which a page ends, however few it has found. */
const MAX_MS = 80;

/**
 * Entries of the workspace, newest first. A page ends after 80 ms of looking, also with fewer entries than asked for.
 * @throws KeystileError STORE_POWER_MISSING: the store keeps no audit trail
 */
export const listAudit = operation(
  "listAudit",
  body<ListAuditRequestBody>()({
    ...page("audit"),
    id: optional(nameGiven),
    actor: optional(text(1, MAX_ACTOR)),
    operation: optional(nameGiven),
    actorSearch: optional(text(1, 256)),
    from: optional(time),
    to: optional(time),
  }),
  async (context, { limit = DEFAULT_LIMIT, cursor, id, actorSearch, ...wanted }): Promise<Page<AuditData>> => {
    const { store, workspaceId } = context;
    requirePower(store, "audit", "listAudit");
    const query: AuditQuery = {
      ...{ ...wanted, ...(id !== undefined && { ids: [id] }), workspaceId, among: SLICE, limit },
      ...(cursor !== undefined && { before: Number(readCursor("audit", cursor)) }),
    };
    return context.turns.run(() => readSlices(context, query, actorSearch?.toLowerCase()));
  },
);

/** An entry as it is listed, while others may join it. */
type Row = Mutable<AuditData>;

/** Reads until the page is full, and the import that its last row is of is whole. */
async function readSlices(context: Context, query: AuditQuery, actor: string | undefined): Promise<Page<AuditData>> {
  const { store, turns } = context;
  const began = performance.now();
  const data: Row[] = [];
  const names = new Map<string, string | undefined>();
  const pageBefore = (before: number): Page<AuditData> => ({
    data,
    pagination: { cursor: writeCursor("audit", String(before)), hasMore: true },
  });
  for (let { before } = query; ;) {
    const [missing, isImport] = [query.limit - data.length, data.at(-1)?.operation === IMPORT];
    const limit = actor !== undefined || isImport ? LOOKED : missing;
    const slice = await store.readAudit({ ...query, limit, ...(before !== undefined && { before }) });
    await readNames(context, slice.entries, names);
    for (const entry of slice.entries) {
      const row = toRow(entry, names);
      if (actor !== undefined && !`${row.actor ?? ""}\n${row.actorName ?? ""}`.toLowerCase().includes(actor)) continue;
      if (join(data, row)) continue;
      if (data.length === query.limit) return pageBefore(entry.number + 1);
      data.push(row);
    }
    before = slice.next;
    if (before === undefined) return { data, pagination: { hasMore: false } };
    const isFull = data.length === query.limit && data.at(-1)?.operation !== IMPORT;
    if (isFull || performance.now() - began >= MAX_MS) return pageBefore(before);
    await turns.next();
  }
}

/** Names of the root keys that acted, as they are now; of a caller that may not list root keys, none. */
async function readNames(
  { store, workspaceId, caller }: Context,
  entries: readonly AuditEntry[],
  names: Map<string, string | undefined>,
): Promise<void> {
  if (caller?.may("read_root_key", { type: "workspace" }) === false) return;
  const ids = entries.flatMap(({ actorKind, actor }) => (actorKind === "rootKey" && actor !== undefined ? actor : []));
  const unknown = [...new Set(ids)].filter((id) => !names.has(id));
  if (unknown.length === 0) return;
  const rows = await store.readMany("rootKeys", unknown);
  for (const [i, id] of unknown.entries())
    names.set(id, rows[i]?.workspaceId === workspaceId ? rows[i].name : undefined);
}

/** Adds an entry of an import to the row of that import, if there is one. Entries of names that it made are no keys. */
function join(data: readonly Row[], entry: Row): boolean {
  if (entry.operation !== IMPORT) return false;
  const isOfNames = entry.ids.every((id) => hasIdForm("id", id) || hasIdForm("perm", id));
  const ids = JSON.stringify(entry.ids);
  const row = data.findLast(
    ({ operation, actorKind, actor, time, since = time, ids: others }) =>
      operation === IMPORT &&
      actorKind === entry.actorKind &&
      actor === entry.actor &&
      since - entry.time <= MAX_GAP &&
      (isOfNames || JSON.stringify(others) === ids),
  );
  if (row === undefined) return false;
  if (!isOfNames) row.count += entry.count;
  row.entries = (row.entries ?? 1) + 1;
  row.since = entry.time;
  return true;
}

function toRow(entry: AuditEntry, names: ReadonlyMap<string, string | undefined>): Row {
  const { time, actorKind, actor, operation, ids, fields, changes, count, credits, reason } = entry;
  const actorName = actorKind === "rootKey" ? names.get(actor ?? "") : undefined;
  return {
    ...{ time, actorKind, ...(actor !== undefined && { actor }), operation, ids, fields, count },
    kinds: ids.map((id, i) => kindOf(operation, id, i)),
    ...(actorName !== undefined && { actorName }),
    ...(changes !== undefined && { changes }),
    ...(credits !== undefined && { credits }),
    ...(reason !== undefined && { reason }),
  };
}

/** By the form of the id, or for one that was given by the operation. */
function kindOf(operation: string, id: string, place: number): AuditKind {
  const prefix = Object.keys(KINDS).find((name) => hasIdForm(name, id));
  if (prefix !== undefined) return KINDS[prefix] as AuditKind;
  if (operation === IMPORT) return place === 0 ? "migration" : "api";
  return OPERATIONS.find(([pattern]) => pattern.test(operation))?.[1] ?? "other";
}
