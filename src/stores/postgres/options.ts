/** Options of the PostgreSQL store: defaults and validation. */
import { type Check, checkOptions, flag, group, integer, oneOf, ownOnly } from "../../lib/check-options.js";
import { isSchemaName, SCHEMA_NAMES } from "./schema.js";

/** How the store keeps the audit trail. */
export interface PostgresAuditOptions {
  /**
   * Most entries in the table `audit`, 0…10_000_000, default 100_000. Beyond it the workspaces that have more
   * than an equal part lose their oldest, about a hundred at a time, all that are too many at once after this was
   * lowered. 0: changes are not recorded.
   */
  readonly rows?: number | undefined;
}

/** What happens while the server cannot be reached. */
export interface PostgresOutageOptions {
  /**
   * Milliseconds beyond `bound` for which keys that are remembered still verify, 0…86_400_000, default 0: from the
   * bound on every call fails with STORE_UNAVAILABLE. A key that was revoked meanwhile stays valid for as long. Credits
   * and keys that are not remembered fail at once all the same.
   */
  readonly serveStale?: number | undefined;
}

/** Options of {@link postgresStore}. */
export interface PostgresStoreOptions {
  /** The schema of the tables: 1 to 48 of `a-z`, `0-9` and `_`, not beginning with a digit. Default `keystile`. */
  readonly schema?: string;
  /**
   * The longest time for which a change of another node may stay unseen, in milliseconds, 10…3_600_000, default 2_000:
   * a call on an older state waits for a poll first.
   */
  readonly bound?: number;
  /**
   * After this many milliseconds a call starts a poll and does not wait for it, 1…bound, default 500, or `bound` if
   * that is less. A node without calls polls nothing.
   */
  readonly poll?: number;
  /** Name statements, so that the server parses each once, if the client is a `Pool` of `pg`. Default true. */
  readonly prepared?: boolean;
  /**
   * Milliseconds after which a statement, its retries included, fails with STORE_UNAVAILABLE, 10…600_000, default
   * 5_000. A call is one statement; a find up to three, where the rows that the key refers to are not at hand;
   * `insertKeys` one for each 1,000 keys; the first call of a node one more. A connection of a `Pool` of `pg` that
   * takes as long is dropped; give the pool `connectionTimeoutMillis`, so that it does not wait for new ones forever.
   */
  readonly timeout?: number;
  /**
   * Most statements that write at once, 1…100, default 4; of a `Pool` of `pg` at most half of its connections beside
   * two. One that did not respond in time counts until the server has ended it: while all of them wait for a lock or a
   * standby, further writes fail at once with STORE_UNAVAILABLE, and reads go on.
   */
  readonly maxWrites?: number;
  /**
   * What an acknowledged change survives. `"power"` (default): a crash of the server and a power cut. `"process"`: the
   * end of this process; a crash of the server may lose the last moments. `"replicated"`: the loss of the primary as
   * well; calls fail with STORE_FAILED unless the server has a synchronous standby. setUp() does not look.
   */
  readonly durability?: "power" | "process" | "replicated";
  /** The audit trail: who changed what, written in one transaction with the change. */
  readonly audit?: PostgresAuditOptions;
  /** What happens while the server cannot be reached. */
  readonly outage?: PostgresOutageOptions;
}

const HOUR = 3_600_000;

const CHECKS = {
  schema(value, path) {
    if (!isSchemaName(value)) throw new TypeError(`${path} must be ${SCHEMA_NAMES}`);
  },
  bound: integer(10, HOUR),
  poll: integer(1, HOUR),
  prepared: flag,
  timeout: integer(10, 600_000),
  maxWrites: integer(1, 100),
  durability: oneOf("power", "process", "replicated"),
  audit: group({ rows: integer(0, 10_000_000) } satisfies Record<keyof PostgresAuditOptions, Check>),
  outage: group({ serveStale: integer(0, 86_400_000) } satisfies Record<keyof PostgresOutageOptions, Check>),
} as const satisfies Record<keyof PostgresStoreOptions, Check>;

/**
 * Fills in the defaults.
 * @throws TypeError or RangeError that names the option
 */
export function readOptions(options: PostgresStoreOptions) {
  checkOptions(options, CHECKS);
  const { schema = "keystile", bound = 2_000, prepared = true, timeout = 5_000, durability = "power" } = options;
  const { poll = Math.min(500, bound), maxWrites = 4, audit = {}, outage = {} } = options;
  if (poll > bound) throw new RangeError(`options.poll must be from 1 to options.bound, which is ${bound}`);
  const { rows: auditRows = 100_000 } = ownOnly(audit);
  const { serveStale = 0 } = ownOnly(outage);
  return { schema, bound, poll, prepared, timeout, maxWrites, durability, auditRows, serveStale };
}

/** All options, with defaults. */
export type PostgresSettings = ReturnType<typeof readOptions>;
