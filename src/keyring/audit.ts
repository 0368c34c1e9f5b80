/** The audit trail of administration: its options, its actors and the queue of its listener. */
import type { AuditEntry } from "../contracts/audit.js";
import type { Caller } from "../contracts/caller.js";
import { callable, type Check, group, ownOnly, workspace } from "../lib/check-options.js";
import { createEventQueue, type EventQueue, QUEUE_OPTIONS, type QueueOptions } from "../lib/event-queue.js";
import { STORE_GUARD_OPTIONS } from "../lib/guards/guard-store.js";
import type { Audit } from "./context.js";

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

/** The checks of what keyrings and rate limits have in common. */
export const PROGRAM_OPTIONS = {
  ...STORE_GUARD_OPTIONS,
  ...AUDIT_OPTIONS,
  workspaceId: workspace,
  clock: callable,
  newId: callable,
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
    close: async () => queue?.flush(),
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
