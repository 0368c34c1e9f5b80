/** The rig of a flood: random keys between those in use. It grows nothing, and pushes no hot key out. */
import { randomUUID } from "node:crypto";
import { rmSync } from "node:fs";
import { join } from "node:path";
import type { CacheOptions } from "../../src/cache/key-cache.js";
import type { Store } from "../../src/contracts/store.js";
import { createKeyring } from "../../src/keyring/keyring.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { createVerifier, type Verifier } from "../../src/verify/verifier.js";
import { rigFolder } from "./workers.js";

export interface FloodReport {
  /** Calls with a key in use, and how many of them had to ask the store for it. */
  readonly hot: number;
  readonly missed: number;
  /** Megabytes that the process holds more after the flood than before. */
  readonly grownMB: number;
}

const HOT = 1_000;
/** Random keys for each one in use. */
const EACH = 8;

/** Presents so many random keys, one in use after every few of them. */
async function flood(
  verify: Verifier["verify"],
  made: readonly string[],
  keys: number,
): Promise<{ hot: number; unknown: number }> {
  let hot = 0;
  let unknown = 0;
  while (unknown < keys) {
    for (let i = 0; i < EACH; i++, unknown++) await expectCode(verify, randomUUID() + String(unknown), "NOT_FOUND");
    await expectCode(verify, made[hot++ % made.length] as string, "VALID");
  }
  return { hot, unknown };
}

async function expectCode(verify: Verifier["verify"], key: string, expected: string): Promise<void> {
  const { code } = await verify({ key });
  if (code !== expected) throw new Error(`${code} instead of ${expected}`);
}

/** @param keys random ones, of about 40 characters @param wrap what the verifier sees instead of the store */
export async function runFlood(
  keys: number,
  cache: CacheOptions = {},
  wrap = (store: Store): Store => store,
): Promise<FloodReport> {
  const folder = rigFolder();
  const store = sqliteStore(join(folder, "keys.db"), { durability: "process" });
  try {
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "flood" });
    const ratelimits = [{ name: "requests", limit: 1_000_000, duration: 60_000, autoApply: true }];
    const made = [];
    for (let n = 0; n < HOT; n++) made.push((await keyring.createKey({ apiId, ratelimits })).key);
    let finds = 0;
    const counted: Store = { ...store, findKey: (digest) => (finds++, store.findKey(digest)) };
    const verifier = createVerifier(wrap(counted), { cache });
    for (const key of made) await verifier.verify({ key });
    await flood(verifier.verify, made, keys / 20);
    const before = process.memoryUsage.rss();
    finds = 0;
    const { hot, unknown } = await flood(verifier.verify, made, keys);
    await verifier.close();
    return { hot, missed: finds - unknown, grownMB: (process.memoryUsage.rss() - before) / 2 ** 20 };
  } finally {
    await store.close();
    rmSync(folder, { recursive: true, force: true });
  }
}
