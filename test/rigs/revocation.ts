/**
 * The rig of revocation: another process commits a change and says so; the first verification after its word must know
 * it. The reader is busy all the while, in every phase of the event loop, so that its memory is warm and asked a moment
 * ago. docs/guarantees.md, A109.
 */
import type { ChildProcess } from "node:child_process";
import { rmSync } from "node:fs";
import { join } from "node:path";
import type { CacheOptions } from "../../src/cache/key-cache.js";
import type { KeyRow } from "../../src/contracts/store.js";
import { createKeyring } from "../../src/keyring/keyring.js";
import { sqliteStore, type SqliteStoreOptions } from "../../src/stores/sqlite/index.js";
import { createVerifier, type Verifier } from "../../src/verify/verifier.js";
import { buildWorker, ended, nextMessage, rigFolder, startWorker, tell } from "./workers.js";
import { PATIENT } from "./workers/patience.js";
import type { RevokeCommand, RevokeOrders } from "./workers/revoke.js";

export interface RevocationReport {
  readonly changes: number;
  /** Answers after the other process's word that did not know of the change, the first one and any other: must be 0. */
  readonly stale: number;
  /** Verifications in between. */
  readonly busyCalls: number;
  readonly seconds: number;
}

const WHAT = ["key", "api", "permission", "role", "credits"] as const;
const REFUSED: Readonly<Record<RevokeCommand["what"], string>> = {
  key: "DISABLED",
  api: "FORBIDDEN",
  permission: "INSUFFICIENT_PERMISSIONS",
  role: "INSUFFICIENT_PERMISSIONS",
  credits: "USAGE_EXCEEDED",
};

/** Where in a turn the reader verifies first: in the very callback that brings the word, or in a phase after it. */
type Moment = (act: () => void) => void;
const MOMENTS: readonly Moment[] = [
  (act) => act(),
  (act) => void setImmediate(act),
  (act) => void setTimeout(act, 0),
  (act) => queueMicrotask(act),
];

export async function runRevocations(
  changes: number,
  staleness: NonNullable<SqliteStoreOptions["staleness"]> = "turn",
  cache: CacheOptions = {},
): Promise<RevocationReport> {
  const folder = rigFolder();
  const worker = await buildWorker("revoke");
  try {
    const file = join(folder, "keys.db");
    const store = sqliteStore(file, { ...PATIENT, staleness });
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "revocation" });
    await keyring.createRole({ name: "reader", permissions: ["docs.read"] });
    const keys = await Promise.all(
      WHAT.map((what) =>
        keyring.createKey({
          apiId,
          ...(what === "role" ? { roles: ["reader"] } : { permissions: ["docs.read"] }),
          ...(what === "credits" && { credits: { remaining: 1_000_000 } }),
        }),
      ),
    );
    const verifier = createVerifier(store, { cache });
    const child = startWorker(worker, { file } satisfies RevokeOrders);
    await nextMessage(child);
    const known: Known = { key: undefined, code: "", version: 0 };
    const busy = keepBusy(verifier, keys, known);
    const begun = performance.now();
    let stale = 0;
    for (let i = 0; i < changes; i++) {
      const at = i % WHAT.length;
      const what = WHAT[at]!;
      // Off and on again before the next kind: a disabled API would hide what the others show.
      const command = (passes: boolean): RevokeCommand => ({ what, passes, keyId: keys[at]!.keyId, apiId });
      for (const passes of [false, true]) {
        const ask = async () =>
          (
            await verifier.verify({
              key: keys[at]!.key,
              permissions: "docs.read",
              credits: { cost: what === "credits" ? 1 : 0 },
            })
          ).code;
        const code = await firstAnswer(child, command(passes), known, ask, MOMENTS[i % MOMENTS.length]!);
        if (code !== (passes ? "VALID" : REFUSED[what])) stale++;
      }
    }
    const seconds = (performance.now() - begun) / 1_000;
    const between = await busy.stop();
    child.disconnect();
    await ended(child);
    await verifier.close();
    await store.close();
    return { changes: changes * 2, stale: stale + between.stale, busyCalls: between.calls, seconds };
  } finally {
    rmSync(folder, { recursive: true, force: true });
    rmSync(worker, { force: true });
  }
}

/** What the reader may rely on: the word that came last about a key; nothing while a change is under way. */
interface Known {
  key: string | undefined;
  code: string;
  /** Counts words and commands: an answer is judged only if none came while it was made. */
  version: number;
}

/** Sends the command; verifies once, in a moment after the word that it is committed. */
function firstAnswer(
  child: ChildProcess,
  command: RevokeCommand,
  known: Known,
  ask: () => Promise<string>,
  moment: Moment,
): Promise<string> {
  known.key = undefined;
  known.version++;
  return new Promise((resolve, reject) => {
    child.once("message", (message: { error?: string }) => {
      if (message.error !== undefined) return reject(new Error(message.error));
      known.key = command.keyId;
      known.code = command.passes ? "VALID" : REFUSED[command.what];
      known.version++;
      moment(() => void ask().then(resolve, reject));
    });
    tell(child, command);
  });
}

/** Verifies on and on, in the check phase and in timers, without keeping other events waiting. */
function keepBusy(
  verifier: Verifier,
  keys: readonly { key: string; keyId: string }[],
  known: Known,
): { stop(): Promise<{ calls: number; stale: number }> } {
  const totals = { calls: 0, stale: 0 };
  let isStopping = false;
  const run = async (turn: () => Promise<void>): Promise<void> => {
    while (!isStopping) {
      for (const { key, keyId } of keys) {
        const { version, code: due } = known;
        const isKnown = known.key === keyId;
        const { code } = await verifier.verify({ key, permissions: "docs.read", credits: { cost: 0 } });
        totals.calls++;
        // A cost of 0 passes at a balance of 0.
        if (isKnown && version === known.version && code !== due && due !== "USAGE_EXCEEDED") totals.stale++;
      }
      await turn();
    }
  };
  const loops = [
    run(() => new Promise((resolve) => setImmediate(resolve))),
    run(() => new Promise((resolve) => setTimeout(resolve, 1))),
  ];
  return {
    async stop() {
      isStopping = true;
      await Promise.all(loops);
      return totals;
    },
  };
}

/**
 * Inside one turn of the event loop: asks, waits until the other's commit shows in the file and a millisecond is over,
 * and asks again.
 */
export async function runLongTurns(
  changes: number,
  staleness: NonNullable<SqliteStoreOptions["staleness"]> = "turn",
  cache: CacheOptions = {},
): Promise<{ stale: number }> {
  const folder = rigFolder();
  const worker = await buildWorker("revoke");
  try {
    const file = join(folder, "keys.db");
    const store = sqliteStore(file, { ...PATIENT, staleness });
    const observer = sqliteStore(file, PATIENT);
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "long turns" });
    const { key, keyId } = await keyring.createKey({ apiId });
    const { key: other } = await keyring.createKey({ apiId });
    const verifier = createVerifier(store, { cache });
    const child = startWorker(worker, { file } satisfies RevokeOrders);
    await nextMessage(child);
    let stale = 0;
    for (let i = 0; i < changes; i++) {
      const passes = i % 2 === 1;
      const word = nextMessage(child);
      await new Promise((resolve) => setImmediate(resolve));
      // From here to the second call nothing is waited for but microtasks: it is one turn.
      // Two keys by turns: with a cache of one each is looked for in the file.
      await Promise.all([other, key, other].map((one) => verifier.verify({ key: one })));
      const before = verifier.verify({ key });
      tell(child, { what: "key", passes, keyId, apiId } satisfies RevokeCommand);
      for (
        const deadline = performance.now() + 5_000;
        (observer.readMany("keys", [keyId]) as KeyRow[])[0]?.enabled !== passes;
      ) {
        if (performance.now() > deadline) throw new Error("the other process commits nothing");
      }
      for (const committed = performance.now(); performance.now() - committed < 1.001;);
      const after = verifier.verify({ key });
      if ((await before).valid === passes || (await after).valid !== passes) stale++;
      await word;
    }
    child.disconnect();
    await ended(child);
    await verifier.close();
    await observer.close();
    await store.close();
    return { stale };
  } finally {
    rmSync(folder, { recursive: true, force: true });
    rmSync(worker, { force: true });
  }
}
