/**
 * Changes of other nodes: polled by what the last poll could not see, so that none is lost however late a transaction
 * commits; announced by a doorbell where the client listens.
 *
 * Why not by a sequence: a number is taken before its transaction commits, so that a reader who has seen 8 may never
 * see 7.
 *
 * Times are monotonic, and count from the start of a poll: a node that was stopped asks before it trusts.
 */
import { isKeystileError, KeystileError } from "../../contracts/errors.js";
import { isFoundWithKeys } from "../../contracts/row-changes.js";
import type { Change } from "../../contracts/store.js";
import { createListeners } from "../listeners.js";
import type { EndListening, Session, Statement } from "./client.js";
import { toStoreError } from "./errors.js";
import type { PostgresSettings } from "./options.js";
import { SCHEMA_VERSION } from "./schema.js";
import { clearTimeout, setTimeout } from "../../lib/timers.js";

export interface Changes {
  /** Resolves once the store is known to be usable: the first poll. */
  readonly open: () => Promise<void>;
  /** As `Store.pollChanges`. */
  poll(when?: number | "anew"): Promise<void> | undefined;
  subscribe(listener: (change: Change) => void): () => void;
  /** Notifies of changes that this node made in the transaction `xid`, and rings for the others. */
  made(what: readonly string[], xid: string, rings: boolean): void;
  /** Notifies of a change whose outcome is unknown. */
  lost(): void;
  /** What polling and listening have come to, for `status()`. */
  readonly state: ChangesState;
  /** Resolves once nothing is listened to, or after the time that a call may take. */
  close(): Promise<void>;
}

export interface ChangesState {
  /** When the last successful poll began, monotonic milliseconds; -Infinity: never. */
  polledAt: number;
  /** Whether other nodes' doorbells are heard. */
  isListening: boolean;
  polls: number;
  failedPolls: number;
  /** Times that every cache was dropped: the server restarted or recovered, or this node was away for too long. */
  resets: number;
}

/** More changes than this are "all". */
const MAX_CHANGES = 1_000;
/** Transactions of this node that are remembered until a poll returns them; beyond that they are notified twice. */
const MAX_OWN = 10_000;
/** How long changes are kept for nodes that do not poll, as an interval, and how often old ones are removed. */
const KEPT = "1 hour";
const PRUNE_EVERY_MS = 600_000;
/** Pauses before listening is tried again, milliseconds. */
const LISTEN_AGAIN_MS = [1_000, 5_000, 30_000] as const;
/** How long a listener has to hear its own ring. */
const PROBE_MS = 2_000;
const SELF = "probe ";
/** How long after a failed poll another one is started that no call waits for. */
const RETRY_MS = 50;

/** @param s the schema, quoted */
export function createChanges(session: Session, settings: PostgresSettings, s: string): Changes {
  const { schema, bound, poll: soft, durability, serveStale, timeout } = settings;
  // What the last snapshot could not see: transactions that began after it, and those that ran meanwhile. Not all since
  // the oldest of these, which may run for days. Those beyond this snapshot are another server's, from which the tables
  // were restored.
  const statement: Statement = {
    isRead: true,
    lane: "poll",
    text: `SELECT pg_catalog.pg_current_snapshot()::text AS snapshot, pg_catalog.pg_is_in_recovery()::text AS replica,
      pg_catalog.pg_postmaster_start_time()::text AS started, ${s}.lifetime_v1() AS lifetime, m.version::text AS version, m.store_id,
      pg_catalog.current_setting('synchronous_standby_names') AS standbys,
      (m.pruned IS NOT NULL AND m.pruned >= pg_catalog.pg_snapshot_xmin($1::text::pg_snapshot)
        AND m.pruned < pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot()))::text AS pruned,
      pg_catalog.array_to_json(ARRAY(
        (SELECT pg_catalog.json_build_array(c.xid::text, c.what) FROM ${s}.changes c
          WHERE c.xid >= pg_catalog.pg_snapshot_xmax($1::text::pg_snapshot) AND c.xid < pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())
          ORDER BY c.xid LIMIT ${MAX_CHANGES + 1})
        UNION ALL
        (SELECT pg_catalog.json_build_array(c.xid::text, c.what) FROM ${s}.changes c
          WHERE c.xid = ANY (ARRAY(SELECT pg_catalog.pg_snapshot_xip($1::text::pg_snapshot))) LIMIT ${MAX_CHANGES + 1})
      ))::text AS changes
      FROM ${s}.meta m`,
  };
  const prune: Statement = { isRead: false, text: `SELECT ${s}.prune_v1($1::text::interval)::text` };
  // It commits, and must not wait for the disk or for a standby: to be lost costs time and nothing else.
  const notify: Statement = {
    isRead: true,
    lane: "write",
    text: "SELECT pg_catalog.set_config('synchronous_commit', 'off', true), pg_catalog.pg_notify($1::text, $2::text)::text",
  };
  const channel = `keystile_${schema}`;

  const listeners = createListeners<Change>();
  const { notify: tell } = listeners;
  const state: ChangesState = { polledAt: -Infinity, isListening: false, polls: 0, failedPolls: 0, resets: 0 };
  /** Transactions of this node that were notified when they were made. */
  const own = new Set<string>();
  let seen: Readonly<Record<"snapshot" | "started" | "lifetime" | "storeId", string>> | undefined;
  let inFlight: { readonly began: number; readonly done: Promise<void> } | undefined;
  // As if it had pruned some time ago: nodes that live for less than the interval prune as well, and not all at once.
  let prunedAt = performance.now() - Math.random() * PRUNE_EVERY_MS;
  /** Whether the last poll found nobody, and when the last one failed. */
  let isOutOfReach = false;
  let failedAt = -Infinity;
  let isClosed = false;
  let isUsed = false;
  let endListening: EndListening | undefined;
  /** The latest attempt to listen, and what ends its wait to hear itself. */
  let attempt: Promise<void> | undefined;
  let endProbe: (() => void) | undefined;

  const ask = async (began: number): Promise<void> => {
    const before = seen;
    const [row] = await session.run(statement, before?.snapshot ?? "1:1:");
    if (row === undefined)
      throw new KeystileError(
        "STORE_INVALID",
        "the tables are empty; run `npx keystile schema postgres | psql …`, or `await store.setUp()`, once",
      );
    const text = row as Record<
      "snapshot" | "replica" | "started" | "lifetime" | "version" | "store_id" | "standbys" | "pruned" | "changes",
      string
    >;
    assertUsable(text, durability);
    const { snapshot, started, lifetime, store_id: storeId } = text;
    seen = { snapshot, started, lifetime, storeId };
    state.polledAt = began;
    state.polls++;
    if (before === undefined) return;
    const rows = JSON.parse(text.changes) as [xid: string, what: string][];
    const isReset =
      storeId !== before.storeId ||
      started !== before.started ||
      lifetime !== before.lifetime ||
      text.pruned === "true" ||
      nextOf(snapshot) < nextOf(before.snapshot);
    if (isReset) state.resets++;
    if (isReset || rows.length > MAX_CHANGES) {
      own.clear();
      tell(["all"]);
      return;
    }
    tell(decoded(rows.flatMap(([xid, what]) => (own.has(xid) ? [] : [what]))));
    for (const [xid] of rows) own.delete(xid);
  };
  const start = (): Promise<void> => {
    const began = performance.now();
    const done = ask(began)
      .then(
        () => {
          isOutOfReach = false;
        },
        (error: unknown) => {
          state.failedPolls++;
          isOutOfReach = isOutage(error);
          failedAt = performance.now();
          throw error;
        },
      )
      .finally(() => {
        inFlight = undefined;
      });
    inFlight = { began, done };
    done.then(
      () => {
        tidy();
        // The snapshot may be older than the ring.
        if (hearsAgain) heard();
      },
      () => undefined,
    );
    return done;
  };
  /** Starts a poll that nobody waits for. */
  const startSoon = (): void => {
    if (inFlight === undefined && performance.now() - failedAt >= RETRY_MS) start().catch(() => undefined);
  };
  const tidy = (): void => {
    if (performance.now() - prunedAt < PRUNE_EVERY_MS || isClosed) return;
    prunedAt = performance.now();
    session.run(prune, KEPT).catch(() => undefined);
  };
  /** A poll that begins after this call. */
  const pollAnew = (): Promise<void> =>
    new Promise((resolve, reject) => {
      // The poll before it may stall for as long as this call may take.
      const timer = setTimeout(() => {
        reject(toStoreError({ kind: "timeout" }, true));
      }, timeout);
      const before = inFlight?.done.catch(() => undefined) ?? Promise.resolve();
      before
        .then(() => inFlight?.done ?? start())
        .then(resolve, reject)
        .finally(() => {
          clearTimeout(timer);
        });
    });
  let isRinging = false;
  let ringsAgain = false;
  const ring = (): void => {
    ringsAgain = isRinging;
    if (isRinging || isClosed) return;
    isRinging = true;
    const done = () => {
      isRinging = false;
      if (ringsAgain) ring();
    };
    session.run(notify, channel, "").then(done, done);
  };
  let hearsAgain = false;
  const heard = (): void => {
    if (isClosed || !isUsed) return;
    hearsAgain = inFlight !== undefined;
    if (!hearsAgain) start().catch(() => undefined);
  };
  /** Listens, and makes sure that it hears: a pooler may swallow LISTEN without a word. One attempt at a time. */
  const listen = async (tries: number): Promise<void> => {
    if (isClosed) return;
    let isOver = false;
    const again = () => {
      if (isOver) return;
      isOver = true;
      const next = state.isListening ? 0 : tries;
      state.isListening = false;
      endListening = undefined;
      const pause = LISTEN_AGAIN_MS[Math.min(next, LISTEN_AGAIN_MS.length - 1)];
      unref(setTimeout(() => void (attempt = listen(next + 1)), pause));
    };
    const nonce = SELF + Math.random().toString(36).slice(2);
    let hearItself: (isHeard: boolean) => void = () => undefined;
    const hears = new Promise<boolean>((resolve) => (hearItself = resolve));
    endProbe = () => hearItself(false);
    let end: EndListening | undefined;
    try {
      end = await session.listen(
        channel,
        (payload) => (payload === nonce ? hearItself(true) : payload.startsWith(SELF) || heard()),
        again,
      );
      if (end === undefined || isOver) return;
      endListening = end;
      // `close` waits for this attempt, and ends it then.
      if (isClosed) return;
      await session.run(notify, channel, nonce);
      unref(setTimeout(() => hearItself(false), PROBE_MS));
      const isHeard = await hears;
      if (isOver || isClosed) return;
      state.isListening = isHeard;
      if (isHeard) {
        heard();
        return;
      }
      // Not again: what is between here and the server does not pass notifications on.
      isOver = true;
      endListening = undefined;
      await end();
    } catch {
      again();
      await end?.();
    }
  };
  let opening: Promise<void> | undefined;
  return {
    state,
    open() {
      if (opening === undefined) {
        opening = start().then(() => void (attempt = listen(0)));
        opening.catch(() => {
          opening = undefined;
        });
      }
      return opening;
    },
    poll(when) {
      isUsed = true;
      if (when === "anew") return pollAnew();
      const age = performance.now() - state.polledAt;
      if (age < soft) return undefined;
      // While it is known to be out of reach, what may be served stale waits for nothing.
      if (age < bound || (isOutOfReach && age < bound + serveStale)) {
        startSoon();
        return undefined;
      }
      const current = inFlight;
      // A poll that began within the bound tells enough.
      const polled =
        current !== undefined && performance.now() - current.began >= bound ? pollAnew() : (current?.done ?? start());
      return polled.catch((error: unknown) => {
        if (!isOutage(error) || performance.now() - state.polledAt >= bound + serveStale) throw error;
      });
    },
    subscribe: listeners.add,
    made(what, xid, rings) {
      // No poll returns a transaction that told of nothing.
      if (what.length === 0) return;
      if (own.size >= MAX_OWN) own.clear();
      own.add(xid);
      tell(decoded(what));
      if (rings) ring();
    },
    lost() {
      tell(["all"]);
    },
    async close() {
      isClosed = true;
      listeners.clear();
      endProbe?.();
      let timer: unknown;
      const late = new Promise<void>((resolve) => (timer = setTimeout(resolve, timeout)));
      const ended = Promise.resolve(attempt).then(() => endListening?.());
      await Promise.race([ended, late]);
      clearTimeout(timer as Parameters<typeof clearTimeout>[0]);
    },
  };
}

/** @throws KeystileError: this server, or its tables, cannot be used */
function assertUsable(
  { replica, version, standbys }: Readonly<Record<"replica" | "version" | "standbys", string>>,
  durability: PostgresSettings["durability"],
): void {
  if (replica === "true")
    throw new KeystileError(
      "STORE_READ_ONLY",
      "the server is a read replica, which learns of revocations late and cannot take credits; give the address of the primary",
    );
  if (Number(version) > SCHEMA_VERSION)
    throw new KeystileError(
      "STORE_SCHEMA_NEWER",
      "the tables were made by a later version of keystile; use that version",
    );
  if (Number(version) < SCHEMA_VERSION)
    throw new KeystileError(
      "STORE_INVALID",
      "the tables are of an earlier version; run `npx keystile schema postgres | psql …`, or `await store.setUp()`, once",
    );
  if (durability === "replicated" && standbys === "")
    throw new KeystileError(
      "STORE_FAILED",
      'options.durability is "replicated", and the server has no synchronous standby: set synchronous_standby_names, or use "power"',
    );
}

const isOutage = (error: unknown): boolean => isKeystileError(error) && error.code === "STORE_UNAVAILABLE";

/** The first transaction that a snapshot does not know, which never decreases on one server. */
function nextOf(snapshot: string): bigint {
  return BigInt(snapshot.split(":")[1] ?? "0");
}

function* decoded(what: Iterable<string>): Iterable<Change> {
  for (const text of what) {
    const space = text.indexOf(" ");
    const table = text.slice(1, space);
    if (text.startsWith("=")) yield { digest: text.slice(1) };
    else if (text.startsWith("#") && isFoundWithKeys(table)) yield { table, id: text.slice(space + 1) };
    // Also what a later version tells of.
    else yield text === "created" ? text : "all";
  }
}

/** A timer that keeps no process alive. */
function unref(timer: unknown): void {
  (timer as { unref?: () => void } | null)?.unref?.();
}
