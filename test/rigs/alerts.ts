/**
 * The rig of alerts: processes look for crossings at once, and some die around their deliveries. Each crossing is
 * raised once, and delivered at least once. docs/analytics.md.
 */
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Store } from "../../src/contracts/store.js";
import { createKeyring } from "../../src/keyring/keyring.js";
import { buildWorker, ended, rigFolder, startWorker } from "./workers.js";
import type { AlertOrders } from "./workers/alert.js";

export interface AlertReport {
  /** Bounds passed, of all keys. */
  readonly crossings: number;
  readonly deaths: number;
  readonly deliveries: number;
  /** Crossings of which nothing came in time: must be 0. */
  readonly lost: number;
  /** Alerts beyond the crossings: must be 0. */
  readonly twice: number;
}

const KEYS = 12;
const BELOW = 100;
/** Milliseconds that a crossing is waited for. */
const PATIENCE = 60_000;

/** @param open another handle on the database, whose tables are there */
export async function runAlerts(
  rounds: number,
  processes: number,
  database: string | undefined,
  open: (database: string) => Store,
  options: Pick<AlertOrders, "diesAt" | "forgets"> = {},
): Promise<AlertReport> {
  const folder = rigFolder();
  const place = database ?? join(folder, "keys.db");
  const deliveries = join(folder, "deliveries");
  const worker = await buildWorker("alert");
  const store = open(place);
  let isOver = false;
  let [deaths, seed, lost] = [0, 0, 0];
  try {
    writeFileSync(deliveries, "");
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "alerts" });
    const keyIds: string[] = [];
    for (let i = 0; i < KEYS; i++)
      keyIds.push((await keyring.createKey({ apiId, credits: { remaining: 2 * BELOW } })).keyId);
    const set = (value: number) =>
      Promise.all(keyIds.map((keyId) => keyring.updateCredits({ keyId, operation: "set", value })));
    const began = Date.now();
    const life = async (): Promise<void> => {
      while (!isOver) {
        const orders = { database: place, deliveries, below: BELOW, began, speed: 200, seed: ++seed, ...options };
        const child = startWorker(worker, orders satisfies AlertOrders);
        const stop = setInterval(() => isOver && child.kill("SIGKILL"), 5);
        await ended(child);
        clearInterval(stop);
        if (!isOver) deaths++;
      }
    };
    const lives = Array.from({ length: processes }, life);
    for (let round = 1; round <= rounds; round++) {
      await set(BELOW - 1);
      const isTold = () => keyIds.every((keyId) => idsIn(deliveries, keyId).size >= round);
      if (!(await within(PATIENCE, isTold)))
        lost += keyIds.filter((keyId) => idsIn(deliveries, keyId).size < round).length;
      // Whoever looks again finds it raised.
      await pause(100);
      await set(2 * BELOW);
      const isBack = async () =>
        (await store.listAlerts!({ workspaceId: "ws_default", state: "raised", limit: KEYS })).length === 0;
      if (!(await within(PATIENCE, isBack))) throw new Error("no alert ends");
    }
    isOver = true;
    await Promise.all(lives);
    const told = readFileSync(deliveries, "utf8").split("\n").filter(Boolean);
    const crossings = rounds * KEYS;
    return { crossings, deaths, deliveries: told.length, lost, twice: new Set(told).size - (crossings - lost) };
  } finally {
    isOver = true;
    await store.close();
    rmSync(folder, { recursive: true, force: true });
    rmSync(worker, { force: true });
  }
}

function idsIn(file: string, keyId: string): ReadonlySet<string> {
  return new Set(
    readFileSync(file, "utf8")
      .split("\n")
      .filter((line) => line.endsWith(` ${keyId}`)),
  );
}

async function within(ms: number, isSo: () => boolean | Promise<boolean>): Promise<boolean> {
  for (const deadline = performance.now() + ms; performance.now() < deadline; await pause(20))
    if (await isSo()) return true;
  return false;
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
