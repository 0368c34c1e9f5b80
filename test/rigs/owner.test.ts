/** Several processes on one file create keys of one owner at once: together they never pass its ceiling. */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createKeyring } from "../../src/keyring/keyring.js";
import { forOwner } from "../../src/keyring/owner/owner-keys.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { buildWorker, ended, nextMessage, rigFolder, startWorker, tell } from "./workers.js";
import type { OwnOrders } from "./workers/own.js";

const PROCESSES = 2;
const KEYS = 9;

async function run(over: Pick<OwnOrders, "withoutOwner"> = {}) {
  const folder = rigFolder();
  try {
    const file = join(folder, "keys.db");
    const store = sqliteStore(file);
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "documents" });
    const worker = await buildWorker("own");
    const orders: OwnOrders = { file, apiId, keys: KEYS, attempts: 20, ...over };
    const children = Array.from({ length: PROCESSES }, () => startWorker(worker, orders));
    await Promise.all(children.map(nextMessage));
    const results = children.map(nextMessage);
    for (const child of children) tell(child, "go");
    const ends = (await Promise.all(results)).map((message) => message["ends"] as Record<string, number>);
    await Promise.all(children.map(ended));
    const { data } = await forOwner(keyring, "auth0|me", { apiId }).list();
    await store.close();
    return { listed: data.length, ends };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const sum = (ends: readonly Record<string, number>[], code: string) =>
  ends.reduce((total, one) => total + (one[code] ?? 0), 0);

describe("forOwner in two processes", () => {
  it("creates exactly as many keys as the ceiling allows", async () => {
    const { listed, ends } = await run();
    expect(listed).toBe(KEYS);
    expect(sum(ends, "created")).toBe(KEYS);
    expect(sum(ends, "KEY_LIMIT_REACHED")).toBe(PROCESSES * 20 - KEYS);
  });

  it("control: without the owner's version in the write, more are created", async () => {
    const { listed } = await run({ withoutOwner: true });
    expect(listed).toBeGreaterThan(KEYS);
  });
});
