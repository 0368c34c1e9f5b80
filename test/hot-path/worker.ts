/**
 * A program of its own for `hot-path.test.ts`: verifies until the compiler has settled, then says what further rounds
 * cost.
 */
import { readFileSync } from "node:fs";
import { createKeyring, createVerifier, memoryStore } from "../../src/index.js";

/** Where `--log-deopt` writes. */
const LOG = process.argv[2] as string;
const KEYS = 64;
const WARM_UP = 60_000;
const MEASURED = 20_000;
/** Of which the least counts: where the compiler waits for a processor, the first may still be of slower code. */
const ROUNDS = 5;

const store = memoryStore();
const keyring = createKeyring(store);
const { apiId } = await keyring.createApi({ name: "documents" });
const keys: string[] = [];
for (let n = 0; n < KEYS; n++) {
  const ratelimits = [{ name: "requests", limit: 1_000_000, duration: 2_592_000_000, autoApply: true }];
  const { key } = await keyring.createKey({
    apiId,
    permissions: ["a.b", "c.d"],
    credits: { remaining: 1e12 },
    ratelimits,
  });
  keys.push(key);
}
const verifier = createVerifier(store, { credits: { mode: "leased", size: 1_000_000_000, firstStep: 250_000_000 } });

async function verifyAll(calls: number): Promise<void> {
  for (let i = 0; i < calls; i++) {
    const { code } = await verifier.verify({ key: keys[i % KEYS] as string, permissions: "a.b AND (c.d OR e.f)" });
    if (code !== "VALID") throw new Error(code);
  }
}

await verifyAll(WARM_UP);
let bytes = Infinity;
for (let round = 0; round < ROUNDS; round++) {
  (globalThis as { gc?: () => void }).gc?.();
  const before = process.memoryUsage().heapUsed;
  await verifyAll(MEASURED);
  bytes = Math.min(bytes, Math.round((process.memoryUsage().heapUsed - before) / MEASURED));
}

// The engine's own log names each function whose code it had to give up.
const settled = readFileSync(LOG, "utf8").length;
await verifyAll(MEASURED);
// A fault that must be seen: code made for arrays without inherited items has to go.
if (process.argv.includes("--planted")) Object.defineProperty(Array.prototype, 3, { value: 0, configurable: true });
await verifyAll(MEASURED);
const undone = readFileSync(LOG, "utf8")
  .slice(settled)
  .split("\n")
  .filter((line) => line.startsWith("code-deopt"));
await verifier.close();
console.log(JSON.stringify({ bytes, undone }));
