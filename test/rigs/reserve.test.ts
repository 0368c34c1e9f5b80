/** Reservations of a process that is killed: another settles them by their ids, and the others come back. */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { createKeyring } from "../../src/keyring/keyring.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { createVerifier } from "../../src/verify/verifier.js";
import { buildWorker, ended, nextMessage, rigFolder, startWorker } from "./workers.js";
import type { ReserveOrders } from "./workers/reserve.js";

const TIMEOUT = 3_600_000;

it("reserved by a process that was killed: settled by another once, and the rest comes back at its time-out", async () => {
  const folder = rigFolder();
  const worker = await buildWorker("reserve");
  try {
    const file = join(folder, "keys.db");
    const store = sqliteStore(file);
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "reserve" });
    const { key, keyId } = await keyring.createKey({ apiId, credits: { remaining: 100 } });
    const orders: ReserveOrders = { file, key, cost: 10, calls: 9, timeout: TIMEOUT };
    const child = startWorker(worker, orders);
    const { ids } = (await nextMessage(child)) as { readonly ids: readonly string[] };
    child.kill("SIGKILL");
    await ended(child);
    const time = { now: Date.now() };
    const verifier = createVerifier(store, { clock: () => time.now });
    const spend = async (cost: number) => (await verifier.verify({ key, credits: { cost } })).code;
    expect(await spend(11)).toBe("USAGE_EXCEEDED");
    const settle = async (at: number, spent: number) => verifier.settle(ids[at]!, spent);
    expect(await settle(0, 4)).toEqual({ settled: true, spent: 4 });
    expect(await settle(0, 4)).toEqual({ settled: false, reason: "settled" });
    expect(await settle(1, 0)).toEqual({ settled: true, spent: 0 });
    expect((await keyring.getKey({ keyId })).credits).toMatchObject({ remaining: 26, reserved: 70 });
    // What was reserved returns to a spend that needs it, although nobody of that process lives.
    time.now += TIMEOUT;
    expect(await spend(96)).toBe("VALID");
    expect(await spend(1)).toBe("USAGE_EXCEEDED");
    expect(await settle(2, 10)).toEqual({ settled: false, reason: "expired" });
    await verifier.close();
    const [balance] = await store.readBalances([{ keyId, period: 0 }], time.now);
    expect(balance).toMatchObject({ remaining: 0, reserved: 0, totals: { credited: 100, spent: 100, forfeited: 0 } });
    await store.close();
  } finally {
    rmSync(folder, { recursive: true, force: true });
    rmSync(worker, { force: true });
  }
}, 60_000);
