/**
 * A program of its own for `passed.ts`: prints the functions of src that one verification of each kind calls, and one
 * creation of a key over HTTP.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { Session, type Profiler } from "node:inspector";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createHandler } from "../../src/http/index.js";
import { createKeyring, createVerifier, type VerifierOptions } from "../../src/index.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";

// The system time stands still, so that the work that is due once a millisecond is done when a kind asks for it.
let now = 1_800_000_000_000;
Date.now = () => now;

const engine = new Session();
engine.connect();
engine.post("Profiler.enable");
engine.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });

/** By address of the script: the functions called since the last time, as `name:offset`. The engine answers at once. */
function takeCalls(): Record<string, string[]> {
  let scripts: Profiler.ScriptCoverage[] = [];
  engine.post("Profiler.takePreciseCoverage", (error, taken) => {
    if (error !== null) throw error;
    scripts = taken.result;
  });
  return Object.fromEntries(
    scripts.map(({ url, functions }) => [
      url,
      functions.flatMap(({ functionName, ranges }) => {
        const [range] = ranges;
        return range !== undefined && range.count > 0 ? [`${functionName}:${range.startOffset}`] : [];
      }),
    ]),
  );
}

/** Ends the turn of the event loop, and with it whatever was due after it. */
const nextTurn = () => new Promise((resolve) => setTimeout(resolve, 5));

interface Kind {
  readonly options?: VerifierOptions;
  /** Of the key, beside its permission. */
  readonly key?: object;
  /** Of the verifications before the one that is counted; default: 20. */
  readonly before?: number;
  /** The last of them is in the turn of the one that is counted, and in its millisecond. */
  readonly isLater?: boolean;
}

const LIMIT = { ratelimits: [{ name: "requests", limit: 1_000, duration: 60_000, autoApply: true }] };
const CREDITS = { credits: { remaining: 100_000 } };
const LEASED: VerifierOptions = { credits: { mode: "leased", size: 10_000, firstStep: 2_500 } };

const KINDS = {
  "hot, without limits": { isLater: true },
  "hot, one limit": { key: LIMIT, isLater: true },
  "hot, one limit, a credit from a lease": { options: LEASED, key: { ...LIMIT, ...CREDITS }, isLater: true },
  "hot, the same, first of its turn": { options: LEASED, key: { ...LIMIT, ...CREDITS } },
  "exact: one limit, a credit from the file": { key: { ...LIMIT, ...CREDITS } },
  "cold: the first of its key, one limit": { key: LIMIT, before: 0 },
} satisfies Record<string, Kind>;

async function callsOf({ options = {}, key: more = {}, before = 20, isLater = false }: Kind) {
  const folder = mkdtempSync(join(tmpdir(), "keystile-passed-"));
  const store = sqliteStore(join(folder, "keys.db"));
  try {
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "documents" });
    const keys: string[] = [];
    for (let i = 0; i < 3; i++) keys.push((await keyring.createKey({ apiId, permissions: ["a.b"], ...more })).key);
    const [counted, ...others] = keys as [string, ...string[]];
    const verifier = createVerifier(store, options);
    const verify = async (key: string): Promise<void> => {
      const { code } = await verifier.verify({ key, permissions: "a.b" });
      if (code !== "VALID") throw new Error(code);
    };
    for (let i = 0; i < 20; i++) for (const key of others) await verify(key);
    for (let i = 0; i < before; i++) await verify(counted);
    await nextTurn();
    now += 5;
    const first = isLater ? verify(counted) : undefined;
    takeCalls();
    const verified = verify(counted);
    // What is not in memory goes on after this turn.
    const isInMemory = options.credits !== undefined || !("credits" in more);
    if (!isInMemory) await verified;
    const calls = takeCalls();
    await Promise.all([first, verified]);
    await verifier.close();
    return calls;
  } finally {
    await store.close();
    rmSync(folder, { recursive: true });
  }
}

/** Of a key with a permission and an owner that exist. */
async function callsOfCreating() {
  const folder = mkdtempSync(join(tmpdir(), "keystile-passed-"));
  const store = sqliteStore(join(folder, "keys.db"));
  const handler = createHandler(store);
  try {
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "documents" });
    const { key } = await keyring.createRootKey({ permissions: ["api.*.create_key", "rbac.*.create_permission"] });
    const create = async (): Promise<void> => {
      const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
      const body = JSON.stringify({ apiId, permissions: ["a.b"], externalId: "user_1" });
      const asked = new Request("http://localhost/v2/keys.createKey", { method: "POST", headers, body });
      const { status } = await handler(asked);
      if (status !== 200) throw new Error(String(status));
    };
    for (let i = 0; i < 20; i++) await create();
    await nextTurn();
    now += 5;
    takeCalls();
    await create();
    return takeCalls();
  } finally {
    await handler.close();
    await store.close();
    rmSync(folder, { recursive: true });
  }
}

const calls: Record<string, Record<string, string[]>> = {};
for (const [name, kind] of Object.entries(KINDS)) calls[name] = await callsOf(kind);
calls["over HTTP: a key is created"] = await callsOfCreating();
console.log(JSON.stringify(calls));
