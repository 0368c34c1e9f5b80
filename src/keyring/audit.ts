/**
 * The audit trail of administration: an entry for each change that an operation has written.
 *
 * Why around the store and not in the operations: whatever an operation writes passes here, so that none can forget it,
 * and a store that keeps the trail gets the entry with the change, to write both in one step.
 */
import type { AuditEntry } from "../contracts/audit.js";
import type { Caller } from "../contracts/caller.js";
import { fieldsThat } from "../contracts/key-fields.js";
import type { NewKey, Store, Write } from "../contracts/store.js";
import { callable, type Check, group, ownOnly } from "../lib/check-options.js";
import { createEventQueue, type EventQueue, QUEUE_OPTIONS, type QueueOptions } from "../lib/event-queue.js";
import { isThenable } from "../lib/thenable.js";
import type { Audit, Context } from "./context.js";

/** Options of the audit trail, of everything that administers. */
export interface AuditOptions {
  /**
   * Called with an entry for each change that was made, in a later turn of the event loop, in order. What it throws or
   * rejects with is dropped and counted (`auditsDropped`). Default: none.
   */
  readonly onAudit?: ((entry: AuditEntry) => unknown) | undefined;
  /** How entries for `onAudit` are queued. */
  readonly audit?: QueueOptions | undefined;
}

/** The checks of {@link AuditOptions}. */
export const AUDIT_OPTIONS = {
  onAudit: callable,
  audit: group(QUEUE_OPTIONS),
} as const satisfies Record<keyof AuditOptions, Check>;

const MAX_ACTOR = 1_024;

/** The same, and the option that names who a program acts for. */
export const PROGRAM_AUDIT_OPTIONS = {
  ...AUDIT_OPTIONS,
  actor: (value: unknown, path: string) => {
    if (typeof value !== "string" || value === "" || value.length > MAX_ACTOR)
      throw new TypeError(`${path} must be a string of 1 to ${MAX_ACTOR} characters`);
  },
} as const satisfies Record<string, Check>;

/** The audit trail of a program, with a queue of its own. */
export function programAudit(options: AuditOptions & { readonly actor?: string | undefined }): Audit {
  return { actor: programActor(options.actor), queue: createAuditQueue(options) };
}

/** What administers besides its operations. */
export interface Audited {
  /** Counters since it was made. */
  counters(): AuditCounters;
  /**
   * Delivers the entries that wait for `onAudit`, and waits for what it has returned, for as long as
   * `audit.closeTimeout` says. The operations go on working.
   */
  close(): Promise<void>;
}

/** Counters of the audit trail. */
export interface AuditCounters {
  /** Entries that `onAudit` did not get, because too many waited, or on which it threw or rejected. */
  readonly auditsDropped: number;
}

/** The queue of a listener; `undefined`: there is none. */
export function createAuditQueue({ onAudit, audit }: AuditOptions): EventQueue<AuditEntry> | undefined {
  return onAudit && createEventQueue(onAudit, ownOnly(audit ?? {}));
}

/** Counters and end of a queue. */
export function auditedBy(queue: EventQueue<AuditEntry> | undefined): Audited {
  return {
    counters: () => ({ auditsDropped: queue?.dropped() ?? 0 }),
    close: async () => queue?.close(),
  };
}

/** The program itself. */
export function programActor(actor: string | undefined): Audit["actor"] {
  return { actorKind: "program", ...(actor !== undefined && { actor }) };
}

/** A caller as an actor; ids that are no strings or too long are left out, since nobody has checked them. */
export function actorOf({ kind, id }: Caller): Audit["actor"] {
  const isText = (value: unknown): value is string =>
    typeof value === "string" && value !== "" && value.length <= MAX_ACTOR;
  return { actorKind: isText(kind) ? kind : "caller", ...(isText(id) && { actor: id }) };
}

/** The same context, in which each write of this operation makes an entry. */
export function withAudit<C extends Context>(context: C, operation: string): C {
  const { store } = context;
  const { queue } = context.audit;
  const isKept = store.powers.audit === true;
  if (queue === undefined && !isKept) return context;
  const describe = (what: Pick<AuditEntry, "ids" | "fields" | "count">): AuditEntry => {
    const { clock, workspaceId, audit } = context;
    return { time: clock(), workspaceId, ...audit.actor, operation, ...what };
  };
  const own: Pick<Store, "write" | "insertKeys"> = {
    async write(writes) {
      const entry = describe({ ...touched(writes), fields: await changedFields(store, writes) });
      const outcome = await (isKept ? store.write(writes, [entry]) : store.write(writes));
      if (outcome === "written") queue?.emit(entry);
      return outcome;
    },
    insertKeys(keys) {
      const entry = describe({ ids: idsOfNew(keys), fields: [], count: keys.length });
      const emit = (inserted: boolean[]): boolean[] => {
        const count = inserted.filter(Boolean).length;
        if (count > 0) queue?.emit({ ...entry, count });
        return inserted;
      };
      const answer = isKept ? store.insertKeys(keys, entry) : store.insertKeys(keys);
      return isThenable(answer) ? Promise.resolve(answer).then(emit) : emit(answer);
    },
  };
  const { write, insertKeys } = own;
  // Not a copy: two properties instead of two dozen for each operation.
  const writing = Object.create(store, { write: { value: write }, insertKeys: { value: insertKeys } }) as Store;
  return { ...context, store: writing };
}

/** Ids per entry, so that an entry is bounded; `count` tells how many there were. */
const MAX_IDS = 100;

function touched(writes: readonly Write[]): Pick<AuditEntry, "ids" | "count"> {
  const ids = writes.slice(0, MAX_IDS).map((write) => ("remove" in write ? write.remove : write.row.id));
  return { ids, count: writes.length };
}

/** Of an import the migration and the API: a row for each of its keys would be as large as the import. */
function idsOfNew(keys: readonly NewKey[]): readonly string[] {
  const { id, apiId, migrationId } = (keys[0] as NewKey).row;
  return migrationId === undefined ? [id] : [migrationId, apiId];
}

/** Fields that follow from others. Those of other rows that have such a name do too. */
const INTERNAL: ReadonlySet<string> = new Set(fieldsThat({ audit: "never" }));
const CREDITS: ReadonlySet<string> = new Set(fieldsThat({ audit: "credits" }));

/**
 * Compared with the rows that the store has: the write is made only if they still have the version that was read for
 * it, so that these are the rows that it changes.
 */
async function changedFields(store: Store, writes: readonly Write[]): Promise<readonly string[]> {
  const fields = new Set<string>();
  for (const write of writes) {
    if ("remove" in write || write.row.version === 0) continue;
    if ("credits" in write && write.credits !== undefined) fields.add("credits");
    const [before] = await store.readMany(write.table, [write.row.id]);
    if (before !== undefined) addChanged(fields, before, write.row);
  }
  return [...fields].sort();
}

function addChanged(fields: Set<string>, before: object, after: object): void {
  const [old, now] = [before, after].map((row) => ownOnly(row) as Record<string, unknown>) as [
    Record<string, unknown>,
    Record<string, unknown>,
  ];
  for (const name of new Set([...Object.keys(old), ...Object.keys(now)])) {
    if (INTERNAL.has(name) || JSON.stringify(old[name]) === JSON.stringify(now[name])) continue;
    fields.add(CREDITS.has(name) ? "credits" : name);
  }
}
