/** Reads the audit trail: the operation `audit.listAudit`. */
import type { AuditEntry, AuditQuery } from "../contracts/audit.js";
import { requirePower } from "../lib/guards/powers.js";
import type { Context } from "./context.js";
import { operation } from "./operation.js";
import { readCursor, writeCursor } from "./schemas/cursor.js";
import { page } from "./schemas/page.js";
import { body, nameGiven, optional, text, time } from "./schemas/primitives.js";
import type { ListAuditRequestBody } from "./schemas/requests.js";
import type { AuditData, Page } from "./schemas/responses.js";

const DEFAULT_LIMIT = 100;
const MAX_ACTOR = 1_024;
/** Entries that the store looks at in one call: as many as take a millisecond or two. */
const SLICE = 1_000;
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
    from: optional(time),
  }),
  async (context, { limit = DEFAULT_LIMIT, cursor, id, ...wanted }): Promise<Page<AuditData>> => {
    const { store, workspaceId } = context;
    requirePower(store, "audit", "listAudit");
    const query: AuditQuery = { ...wanted, ...(id !== undefined && { ids: [id] }), workspaceId, among: SLICE, limit };
    const before = cursor === undefined ? undefined : Number(readCursor("audit", cursor));
    return context.turns.run(() => readSlices(context, query, before));
  },
);

async function readSlices(context: Context, query: AuditQuery, start: number | undefined): Promise<Page<AuditData>> {
  const { store, turns } = context;
  const began = performance.now();
  const data: AuditData[] = [];
  for (let before = start; ;) {
    const slice = await store.readAudit({
      ...query,
      limit: query.limit - data.length,
      ...(before !== undefined && { before }),
    });
    data.push(...slice.entries.map(toData));
    before = slice.next;
    if (before === undefined) return { data, pagination: { hasMore: false } };
    if (data.length >= query.limit || performance.now() - began >= MAX_MS)
      return { data, pagination: { cursor: writeCursor("audit", String(before)), hasMore: true } };
    await turns.next();
  }
}

function toData(entry: AuditEntry): AuditData {
  const { time, actorKind, actor, operation, ids, fields, count, credits, reason } = entry;
  return {
    ...{ time, actorKind, ...(actor !== undefined && { actor }), operation, ids, fields, count },
    ...(credits !== undefined && { credits }),
    ...(reason !== undefined && { reason }),
  };
}
