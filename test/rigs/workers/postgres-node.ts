/**
 * A node on a PostgreSQL server, for the rigs: spends keys until each is refused, or watches one key, or changes keys.
 * Says when it is ready, does what it is told, and says what came of it.
 */
import { openSync, writeSync } from "node:fs";
import pg from "pg";
import { createKeyring } from "../../../src/keyring/keyring.js";
import { postgresStore } from "../../../src/stores/postgres/index.js";
import { createVerifier } from "../../../src/verify/verifier.js";
import type { CreditsOptions } from "../../../src/verify/verifier-options.js";
import { readThenWrite } from "./faults.js";

export interface NodeOrders {
  readonly url: string;
  readonly credits?: CreditsOptions;
  /** The planted fault: the balance is read, and what was read decides. */
  readonly readsThenWrites?: boolean;
}

export type NodeCommand =
  | {
      readonly what: "spend";
      readonly keys: readonly string[];
      readonly inFlight: number;
      /** Each granted cost is appended as a byte: what was written survives the process. */
      readonly acks: string;
    }
  | { readonly what: "watch"; readonly key: string }
  | { readonly what: "disable"; readonly keyId: string };

const orders = JSON.parse(process.argv[2]!) as NodeOrders;
const pool = new pg.Pool({ connectionString: orders.url, max: 4 });
pool.on("error", () => undefined);
const store = postgresStore(pool);
const keyring = createKeyring(store);
const verifier = createVerifier(orders.readsThenWrites ? readThenWrite(store) : store, {
  credits: orders.credits,
});

/** Mixed costs; a key whose credits do not cover one is spent by ones until it is empty. */
async function spend({ keys, inFlight, acks }: NodeCommand & { what: "spend" }): Promise<object> {
  const file = openSync(acks, "a");
  const bytes = Array.from({ length: 8 }, (_, i) => Buffer.from([i]));
  const errors = new Set<string>();
  const empty = new Set<string>();
  const low = new Set<string>();
  let calls = 0;
  const run = async (first: number): Promise<void> => {
    for (let i = first; empty.size < keys.length; i++) {
      const key = keys[i % keys.length]!;
      if (empty.has(key)) continue;
      const cost = low.has(key) ? 1 : 1 + (calls++ % 7);
      try {
        const { code } = await verifier.verify({ key, credits: { cost } });
        if (code === "VALID") writeSync(file, bytes[cost]!);
        else if (code !== "USAGE_EXCEEDED") errors.add(code);
        else (cost === 1 ? empty : low).add(key);
      } catch (error) {
        errors.add(String(error));
        return;
      }
    }
  };
  await Promise.all(Array.from({ length: inFlight }, (_, i) => run(i)));
  await verifier.close();
  return { errors: [...errors] };
}

/** Verifies one key on and on; when it finds that it was stopped, says how the calls after that came out. */
async function watch({ key }: NodeCommand & { what: "watch" }): Promise<object> {
  let last = performance.now();
  for (let i = 0; ; i++) {
    const began = process.hrtime.bigint();
    const { code } = await verifier.verify({ key });
    const now = performance.now();
    if (i === 100) process.send!({ isWatching: code });
    if (now - last > 1_000) {
      const after = [{ began: String(began), code }];
      for (let n = 0; n < 50; n++) {
        const at = process.hrtime.bigint();
        after.push({ began: String(at), code: (await verifier.verify({ key })).code });
      }
      return { after };
    }
    last = now;
    if (i % 10 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
}

async function disable({ keyId }: NodeCommand & { what: "disable" }): Promise<object> {
  await keyring.updateKey({ keyId, enabled: false });
  return { at: String(process.hrtime.bigint()) };
}

process.on("message", (command: NodeCommand) => {
  const act: Promise<object> =
    command.what === "spend" ? spend(command) : command.what === "watch" ? watch(command) : disable(command);
  act.then(
    (result) => process.send!(result),
    (error: unknown) => process.send!({ failed: String(error) }),
  );
});
process.on("disconnect", () => process.exit(0));
void store.pollChanges()?.then(() => process.send!({ ready: true }));
