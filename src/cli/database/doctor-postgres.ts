/**
 * The checks of `keystile doctor --store`: the server, what is between it and here, and the tables. Changes nothing.
 */
import { isKeystileError } from "../../contracts/errors.js";
import { postgresStore, type PostgresStatus } from "../../stores/postgres/index.js";
import { reconcile } from "../../stores/postgres/reconcile.js";
import { SCHEMA_VERSION } from "../../stores/postgres/schema.js";
import { CLOCK_TOLERANCE, type ExamineOptions, fail, type Finding, ok, toFindings, warn } from "./finding.js";
import { openPool } from "./postgres.js";
import { setTimeout } from "../../lib/timers.js";

const MIN_SERVER = 14;
/** Milliseconds until a listener has heard itself, or does not. */
const LISTENS_WITHIN = 2_500;
const LOOK_EVERY = 50;

export async function examinePostgres(
  address: string,
  schema: string,
  options: ExamineOptions = {},
): Promise<Finding[]> {
  const pool = await openPool(address, 3);
  const store = postgresStore(pool, { schema });
  const findings: Finding[] = [];
  try {
    const status = await store.status();
    findings.push(
      examineServer(status),
      examineRole(status),
      examineTables(status),
      examineDurability(status),
      examineClock(status),
    );
    if (status.isReplica || status.schemaVersion !== SCHEMA_VERSION) return findings;
    await store.pollChanges();
    let isListening = false;
    for (let waited = 0; waited < LISTENS_WITHIN && !isListening; waited += LOOK_EVERY) {
      await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY));
      ({ isListening } = await store.status());
    }
    findings.push(examineListening(isListening));
    if (options.reconcile !== true) return findings;
    const { credits, idempotency } = await reconcile(pool, schema, options.onProgress ?? (() => undefined));
    return [
      ...findings,
      ...toFindings("credits", credits, "accounts add up"),
      ...toFindings("idempotency", idempotency, "workspaces have as many records as are counted"),
    ];
  } catch (error) {
    if (!isKeystileError(error)) throw error;
    return [...findings, fail("server", error.detail)];
  } finally {
    await store.close();
    await pool.end();
  }
}

function examineServer({ serverVersion, roundTripMs }: PostgresStatus): Finding {
  const text = `PostgreSQL ${serverVersion}, a round trip takes ${roundTripMs.toFixed(1)} ms`;
  return Number.parseInt(serverVersion, 10) >= MIN_SERVER
    ? ok("server", text)
    : fail("server", `${text}; it takes ${MIN_SERVER} or later`);
}

function examineRole({ isReplica }: PostgresStatus): Finding {
  return isReplica
    ? fail(
        "primary",
        "this is a read replica: it takes no credits and learns of revocations late; give the address of the primary",
      )
    : ok("primary", "takes writes");
}

function examineTables({ schemaVersion }: PostgresStatus): Finding {
  if (schemaVersion === undefined)
    return fail("schema", "there are no tables; run: npx keystile schema postgres | psql …");
  if (schemaVersion > SCHEMA_VERSION)
    return fail("schema", `version ${schemaVersion}, of a later keystile; this one knows ${SCHEMA_VERSION}`);
  return schemaVersion < SCHEMA_VERSION
    ? warn(
        "schema",
        `version ${schemaVersion}; to make it ${SCHEMA_VERSION}, run: npx keystile schema postgres | psql …`,
      )
    : ok("schema", `version ${schemaVersion}`);
}

function examineDurability({ fsync, synchronousCommit, hasSynchronousStandby }: PostgresStatus): Finding {
  if (!fsync) return fail("durability", "fsync is off: a crash of the server may lose or damage what was acknowledged");
  const standby = hasSynchronousStandby
    ? "a synchronous standby"
    : "no synchronous standby: a failover may lose the last moments";
  const commit = synchronousCommit === "off" ? "off for others, on for what keystile writes" : synchronousCommit;
  return ok("durability", `synchronous_commit is ${commit}; ${standby}`);
}

function examineClock({ clockSkewMs }: PostgresStatus): Finding {
  const text = `this machine is ${Math.abs(clockSkewMs)} ms ${clockSkewMs > 0 ? "behind" : "ahead of"} the server`;
  return Math.abs(clockSkewMs) > CLOCK_TOLERANCE
    ? warn("clock", `${text}: keys expire and refill that much ${clockSkewMs > 0 ? "late" : "early"} here`)
    : ok("clock", text);
}

function examineListening(isListening: boolean): Finding {
  return isListening
    ? ok("pooler", "notifications arrive: changes of other nodes are seen within milliseconds")
    : warn(
        "pooler",
        "notifications do not arrive, as behind a pooler in transaction mode: changes of other nodes are polled, and seen within the bound",
      );
}
