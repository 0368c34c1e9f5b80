/**
 * Verifies while the disk fails it: an error is noted and the next call goes on. Tells what failed, and leaves the file
 * as it is.
 */
import { openSync, writeSync } from "node:fs";
import { isKeystileError } from "../../../src/contracts/errors.js";
import { sqliteStore, type SqliteStore } from "../../../src/stores/sqlite/index.js";
import { createVerifier } from "../../../src/verify/verifier.js";

export interface IoOrders {
  readonly file: string;
  readonly keys: readonly string[];
  readonly acks: string;
  readonly inFlight: number;
  readonly stopAfter: number;
  /** Ends at once, as if killed, when a call fails. Default: goes on. */
  readonly diesOfFailure?: true;
}

/** More failures than any short fault can cause: the store did not recover. */
const TOO_MANY = 5_000;

const orders = JSON.parse(process.argv[2]!) as IoOrders;
const acks = openSync(orders.acks, "a");
const codes = new Map<string, number>();
let acknowledged = 0;
let failed = 0;

function note(error: unknown): void {
  if (orders.diesOfFailure === true) process.kill(process.pid, "SIGKILL");
  failed++;
  const code = isKeystileError(error) ? error.code : `not typed: ${String(error)}`;
  codes.set(code, (codes.get(code) ?? 0) + 1);
  if (failed > TOO_MANY) throw new Error("the store does not recover");
}

function open(): SqliteStore {
  for (;;) {
    try {
      return sqliteStore(orders.file);
    } catch (error) {
      note(error);
    }
  }
}

const verifier = createVerifier(open());

async function deduct(at: number): Promise<void> {
  for (let i = at; acknowledged < orders.stopAfter; i = (i * 5 + 7) % orders.keys.length) {
    try {
      const { code } = await verifier.verify({ key: orders.keys[i]! });
      if (code !== "VALID") codes.set(`answered ${code}`, 1);
      else {
        writeSync(acks, Buffer.from([i]));
        acknowledged++;
      }
    } catch (error) {
      note(error);
    }
  }
}

await Promise.all(Array.from({ length: orders.inFlight }, (_, i) => deduct(i % orders.keys.length)));
process.send!({ acknowledged, failed, codes: Object.fromEntries(codes) }, () => process.exit(0));
