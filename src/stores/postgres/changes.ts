/**
 * Polls the changes of other nodes and notifies listeners of this node. No change is missed, however late its
 * transaction commits.
 *
 * Each poll asks for the changes that the previous poll's snapshot could not see. Why not by a sequence: a number is
 * taken before its transaction commits, so a reader who has seen 8 might never see 7.
 *
 * The age of a poll is monotonic and counts from its start, so a node that was suspended polls before it trusts its
 * cache.
 */
import { isKeystileError, KeystileError } from "../../contracts/errors.js";
import { isFoundWithKeys } from "../../contracts/row-changes.js";
import type { Change } from "../../contracts/store.js";
import { clearTimeout, setTimeout } from "../../lib/timers.js";
import { createListeners } from "../listeners.js";
import type { Session, Statement } from "./client.js";
import { Doorbell } from "./doorbell.js";
import { toStoreError } from "./errors.js";
import type { PostgresSettings } from "./options.js";
import { SCHEMA_VERSION } from "./schema.js";

/** If a poll returns more changes, it counts as a change of "all". */
const MAX_CHANGES = 1_000;
/**
 * Most transactions of this node that are remembered until a poll returns them; beyond that, changes are notified
 * twice.
 */
const MAX_OWN = 10_000;
/** How long changes are kept for nodes that do not poll (SQL interval), and how often old ones are removed. */
const KEPT = "1 hour";
const PRUNE_EVERY_MS = 600_000;
/** Pause after a failed poll before the next background poll. */
const RETRY_MS = 50;

/** The row of a poll. On a standby some columns are NULL. */
type PollRow = Readonly<
  Record<
    "snapshot" | "replica" | "started" | "lifetime" | "version" | "store_id" | "standbys" | "pruned" | "changes",
    string
  >
>;

/**
 * Returns changes that the last snapshot could not see: of transactions that began after it, and of those in progress
 * then. Not of all since the oldest in progress, which may run for days. Ids beyond the current snapshot are left out:
 * they are of another server, from which the tables were restored.
 */
const pollOf = (s: string): Statement => ({
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
});

export class Changes {
  readonly #session: Session;
  readonly #settings: PostgresSettings;
  readonly #pollStatement: Statement;
  readonly #pruneStatement: Statement;
  readonly #bell: Doorbell;
  readonly #listeners = createListeners<Change>();
  /** Transactions of this node whose changes were already notified. */
  readonly #own = new Set<string>();
  /** The row of the last poll. */
  #seen: PollRow | undefined;
  #inFlight: { readonly began: number; readonly done: Promise<void> } | undefined;
  #opening: Promise<void> | undefined;
  #polledAt = -Infinity;
  #polls = 0;
  #failedPolls = 0;
  #resets = 0;
  /** Whether the last poll could not reach the server, and when a poll last failed. */
  #isOutOfReach = false;
  #failedAt = -Infinity;
  /** Starts at random, so that nodes that run for less than the interval prune too, and not all at once. */
  #prunedAt = performance.now() - Math.random() * PRUNE_EVERY_MS;
  /** Whether another node rang after the poll in flight began, whose snapshot may be older than the change. */
  #hearsAgain = false;
  /** Whether a call has polled: a node without calls polls nothing. */
  #isUsed = false;
  #isClosed = false;

  /** @param s the schema, quoted */
  constructor(session: Session, settings: PostgresSettings, s: string) {
    this.#session = session;
    this.#settings = settings;
    this.#pollStatement = pollOf(s);
    this.#pruneStatement = { isRead: false, text: `SELECT ${s}.prune_v1($1::text::interval)::text` };
    this.#bell = new Doorbell(session, settings.schema, () => this.#heard());
  }

  /** State of polling and listening, for `status()`. */
  get state() {
    return {
      /** When the last successful poll began, monotonic milliseconds; -Infinity: never. */
      polledAt: this.#polledAt,
      /** Whether notifications of other nodes are received. */
      isListening: this.#bell.isListening,
      polls: this.#polls,
      failedPolls: this.#failedPolls,
      /** Times that all caches were dropped: the server restarted or recovered, or no poll was made for too long. */
      resets: this.#resets,
    };
  }

  /** Resolves once the store is known to be usable: after the first poll. */
  open(): Promise<void> {
    if (this.#opening === undefined) {
      this.#opening = this.#start().then(() => this.#bell.listen());
      this.#opening.catch(() => (this.#opening = undefined));
    }
    return this.#opening;
  }

  /** As `Store.pollChanges`. */
  poll(when?: number | "anew"): Promise<void> | undefined {
    const { bound, poll: soft, serveStale } = this.#settings;
    this.#isUsed = true;
    if (when === "anew") return this.#pollAnew();
    const age = performance.now() - this.#polledAt;
    if (age < soft) return undefined;
    // While the server is known to be out of reach, calls that may be served stale do not wait.
    if (age < bound || (this.#isOutOfReach && age < bound + serveStale)) {
      this.#startSoon();
      return undefined;
    }
    const current = this.#inFlight;
    // A poll that began within the bound is recent enough.
    const polled =
      current !== undefined && performance.now() - current.began >= bound
        ? this.#pollAnew()
        : (current?.done ?? this.#start());
    return polled.catch((error: unknown) => {
      if (!isOutage(error) || performance.now() - this.#polledAt >= bound + serveStale) throw error;
    });
  }

  subscribe(listener: (change: Change) => void): () => void {
    return this.#listeners.add(listener);
  }

  /**
   * Notifies of changes that this node made in the transaction `xid`.
   * @param rings whether other nodes are rung at once
   */
  made(what: readonly string[], xid: string, rings: boolean): void {
    // A poll never returns a transaction without changes.
    if (what.length === 0) return;
    if (this.#own.size >= MAX_OWN) this.#own.clear();
    this.#own.add(xid);
    this.#listeners.notify(decoded(what));
    if (rings) this.#bell.ring();
  }

  /** Notifies of a change whose outcome is unknown. */
  lost(): void {
    this.#listeners.notify(["all"]);
  }

  /** Resolves once listening has ended, or after the time that a call may take. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#listeners.clear();
    let timer: unknown;
    const late = new Promise<void>((resolve) => (timer = setTimeout(resolve, this.#settings.timeout)));
    await Promise.race([this.#bell.close(), late]);
    clearTimeout(timer as Parameters<typeof clearTimeout>[0]);
  }

  async #ask(began: number): Promise<void> {
    const before = this.#seen;
    const [row] = await this.#session.run(this.#pollStatement, before?.snapshot ?? "1:1:");
    if (row === undefined)
      throw new KeystileError(
        "STORE_INVALID",
        "the tables are empty; run `npx keystile schema postgres | psql …`, or `await store.setUp()`, once",
      );
    const now = row as PollRow;
    assertUsable(now, this.#settings.durability);
    this.#seen = now;
    this.#polledAt = began;
    this.#polls++;
    if (before === undefined) return;
    const rows = JSON.parse(now.changes) as [xid: string, what: string][];
    const isReset =
      now.store_id !== before.store_id ||
      now.started !== before.started ||
      now.lifetime !== before.lifetime ||
      now.pruned === "true" ||
      nextOf(now.snapshot) < nextOf(before.snapshot);
    if (isReset) this.#resets++;
    if (isReset || rows.length > MAX_CHANGES) {
      this.#own.clear();
      this.#listeners.notify(["all"]);
      return;
    }
    this.#listeners.notify(decoded(rows.flatMap(([xid, what]) => (this.#own.has(xid) ? [] : [what]))));
    for (const [xid] of rows) this.#own.delete(xid);
  }

  #start(): Promise<void> {
    const began = performance.now();
    const done = this.#ask(began)
      .then(
        () => {
          this.#isOutOfReach = false;
        },
        (error: unknown) => {
          this.#failedPolls++;
          this.#isOutOfReach = isOutage(error);
          this.#failedAt = performance.now();
          throw error;
        },
      )
      .finally(() => {
        this.#inFlight = undefined;
      });
    this.#inFlight = { began, done };
    done.then(
      () => {
        this.#tidy();
        if (this.#hearsAgain) this.#heard();
      },
      () => undefined,
    );
    return done;
  }

  /** Starts a poll that nobody waits for. */
  #startSoon(): void {
    if (this.#inFlight === undefined && performance.now() - this.#failedAt >= RETRY_MS)
      this.#start().catch(() => undefined);
  }

  /** A poll that begins after this call. */
  #pollAnew(): Promise<void> {
    return new Promise((resolve, reject) => {
      // The poll in flight may stall for the whole time of this call.
      const timer = setTimeout(() => reject(toStoreError({ kind: "timeout" }, true)), this.#settings.timeout);
      const before = this.#inFlight?.done.catch(() => undefined) ?? Promise.resolve();
      before
        .then(() => this.#inFlight?.done ?? this.#start())
        .then(resolve, reject)
        .finally(() => clearTimeout(timer));
    });
  }

  #heard(): void {
    if (this.#isClosed || !this.#isUsed) return;
    this.#hearsAgain = this.#inFlight !== undefined;
    if (!this.#hearsAgain) this.#start().catch(() => undefined);
  }

  #tidy(): void {
    if (performance.now() - this.#prunedAt < PRUNE_EVERY_MS || this.#isClosed) return;
    this.#prunedAt = performance.now();
    this.#session.run(this.#pruneStatement, KEPT).catch(() => undefined);
  }
}

/** @throws KeystileError if this server or its tables cannot be used */
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

/** The first transaction id that a snapshot does not know. It never decreases on one server. */
function nextOf(snapshot: string): bigint {
  return BigInt(snapshot.split(":")[1] ?? "0");
}

function* decoded(what: Iterable<string>): Iterable<Change> {
  for (const text of what) {
    const space = text.indexOf(" ");
    const table = text.slice(1, space);
    if (text.startsWith("=")) yield { digest: text.slice(1) };
    else if (text.startsWith("#") && isFoundWithKeys(table)) yield { table, id: text.slice(space + 1) };
    // Also changes that only a later version knows.
    else yield text === "created" ? text : "all";
  }
}
