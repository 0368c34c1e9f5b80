/**
 * Verifies for ever with many calls in flight, and writes down every deduction that was acknowledged. Made to be
 * killed.
 */
import { openSync, writeSync } from "node:fs";
import type { Database } from "better-sqlite3";
import type { Spend, Store } from "../../../src/contracts/store.js";
import { createKeyring } from "../../../src/keyring/keyring.js";
import { type SqliteHandle, sqliteStore, type SqliteStoreOptions } from "../../../src/stores/sqlite/index.js";
import { PATIENT } from "./patience.js";
import { createVerifier } from "../../../src/verify/verifier.js";
import type { CreditsOptions } from "../../../src/verify/verifier-options.js";

export interface DeductOrders {
  readonly file: string;
  /** At most 254: an acknowledgement is one byte, the key's place in this list. */
  readonly keys: readonly string[];
  /**
   * Also makes keys in this API all the while, which moves rows about in the file; each is acknowledged by
   * {@link CREATED}.
   */
  readonly apiId: string;
  /** Acknowledgements are appended here: what was written survives the process. */
  readonly acks: string;
  readonly inFlight: number;
  readonly credits: CreditsOptions;
  readonly durability: NonNullable<SqliteStoreOptions["durability"]>;
  /** Ends by itself after so many acknowledgements. Default: never. */
  readonly stopAfter?: number;
  /** Pages of the log at which it is carried over into the file. Default: as the store sets it. */
  readonly checkpointPages?: number;
  /** Where the program of a writer thread is; default: none, the store's own thread writes. */
  readonly writer?: string;
  readonly fault?: "acknowledges early" | "synchronous off" | "leaves the log";
}

/** Acknowledges a key that was made. */
const CREATED = 255;

const orders = JSON.parse(process.argv[2]!) as DeductOrders;
const acks = openSync(orders.acks, "a");
const store = await openStore();
const verifier = createVerifier(orders.fault === "acknowledges early" ? acknowledgeEarly(store) : store, {
  credits: orders.credits,
});
const bytes = orders.keys.map((_, i) => Buffer.from([i]));
let acknowledged = 0;
let isStopping = false;

async function deduct(at: number): Promise<void> {
  for (let i = at; !isStopping; i = (i * 5 + 7) % orders.keys.length) {
    const { code } = await verifier.verify({ key: orders.keys[i]! });
    if (code !== "VALID") throw new Error(`answered ${code}`);
    writeSync(acks, bytes[i]!);
    isStopping = ++acknowledged === orders.stopAfter || isStopping;
  }
}

async function create(): Promise<void> {
  const keyring = createKeyring(store);
  for (let i = 0; !isStopping; i++) {
    await keyring.createKey({
      apiId: orders.apiId,
      permissions: [`p.${i % 50}`],
      meta: { text: "x".repeat((i * 389) % 3_000) },
    });
    writeSync(acks, Buffer.from([CREATED]));
    // One deduction's turn for each key made: otherwise the file would hold little else.
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** A handle of the rig's own where the rig turns what the store has no option for. */
async function openStore(): Promise<Store> {
  const { file, durability, fault, checkpointPages, writer } = orders;
  if (fault !== "synchronous off" && fault !== "leaves the log" && checkpointPages === undefined)
    return sqliteStore(file, { ...PATIENT, durability, ...(writer !== undefined && { writer: new URL(writer) }) });
  const { default: Database } = await import("better-sqlite3");
  const handle = new Database(file);
  const opened = sqliteStore(fault === "leaves the log" ? nameless(handle) : handle, { durability });
  if (fault === "synchronous off") handle.exec("PRAGMA synchronous = OFF");
  if (checkpointPages !== undefined) handle.exec(`PRAGMA wal_autocheckpoint = ${checkpointPages}`);
  return opened;
}

/** The planted fault: a handle that does not tell its file, so that what is in the log is not written again. */
function nameless(handle: Database): SqliteHandle {
  return {
    prepare: (sql) =>
      handle.prepare(
        sql.replace("SELECT file FROM pragma_database_list", "SELECT '' AS file FROM pragma_database_list"),
      ),
    exec: (sql) => handle.exec(sql),
  };
}

/** The planted fault: an answer that does not wait for its commit. */
function acknowledgeEarly(real: Store): Store {
  return {
    ...real,
    spendCredits(ref, cost, period, now) {
      if (cost > 0) setTimeout(() => void real.spendCredits(ref, cost, period, now), 5);
      return new Promise<Spend>((resolve) => setImmediate(resolve, { ok: true, remaining: 1 }));
    },
  };
}

const running = [create(), ...Array.from({ length: orders.inFlight }, (_, i) => deduct(i % orders.keys.length))];
// Not closed: what is left behind is what a process leaves that ends at once.
if (orders.stopAfter !== undefined) void Promise.all(running).then(() => process.exit(0));
