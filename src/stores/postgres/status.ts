/** What the server is, and whether it keeps what the store promises. */
import type { Changes } from "./changes.js";
import type { Session, Statement } from "./client.js";

/** What {@link PostgresStore.status} tells. */
export interface PostgresStatus {
  /** Of the server, such as `15.8`. */
  readonly serverVersion: string;
  /** Of the tables; `undefined`: they are not there. */
  readonly schemaVersion: number | undefined;
  /** A standby: the store refuses it. */
  readonly isReplica: boolean;
  /** `on`, `off` and the like, as the connection has them; with `fsync` off a power cut loses what was acknowledged. */
  readonly synchronousCommit: string;
  readonly fsync: boolean;
  /** Whether `synchronous_standby_names` is set. */
  readonly hasSynchronousStandby: boolean;
  /** The server's clock less this node's, milliseconds, as far as the round trip tells. */
  readonly clockSkewMs: number;
  /** Milliseconds of one round trip. */
  readonly roundTripMs: number;
  /**
   * Whether doorbells of other nodes are heard: no, behind a pooler in transaction mode. Tried when listening begins: a
   * connection that dies without a word counts until the system reports it, and changes arrive by polls meanwhile.
   */
  readonly isListening: boolean;
  /** Milliseconds since the last successful poll began; Infinity: there was none. */
  readonly polledBeforeMs: number;
  /** Polls since the store was opened. */
  readonly polls: number;
  readonly failedPolls: number;
  /**
   * Times that this node dropped all it remembered, since the server was restarted or had recovered from a crash, or it
   * had been away for too long.
   */
  readonly resets: number;
}

const SETTINGS: Statement = {
  isRead: true,
  text: `SELECT pg_catalog.current_setting('server_version') AS version, pg_catalog.pg_is_in_recovery()::text AS replica,
    pg_catalog.current_setting('synchronous_commit') AS commit, pg_catalog.current_setting('fsync') AS fsync,
    pg_catalog.current_setting('synchronous_standby_names') AS standbys,
    (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000::numeric)::bigint::text AS now, pg_catalog.to_regclass($1::text)::text AS meta`,
};

export async function readStatus(session: Session, schema: string, state: Changes["state"]): Promise<PostgresStatus> {
  const { polledAt, ...changes } = state;
  // The first call may make a connection.
  await session.run(SETTINGS, `${schema}.meta`);
  const began = performance.now();
  const beganAt = Date.now();
  const [row] = (await session.run(SETTINGS, `${schema}.meta`)) as readonly Record<string, string | null>[];
  const roundTripMs = performance.now() - began;
  const read = (name: string): string => row?.[name] ?? "";
  const [meta] =
    row?.["meta"] == null
      ? []
      : await session.run({ isRead: true, text: `SELECT version::text AS version FROM ${schema}.meta` });
  return {
    serverVersion: read("version"),
    schemaVersion: meta === undefined ? undefined : Number(meta["version"]),
    isReplica: read("replica") === "true",
    synchronousCommit: read("commit"),
    fsync: read("fsync") === "on",
    hasSynchronousStandby: read("standbys") !== "",
    clockSkewMs: Math.round(Number(read("now")) - beganAt - roundTripMs / 2),
    roundTripMs,
    polledBeforeMs: performance.now() - polledAt,
    ...changes,
  };
}
