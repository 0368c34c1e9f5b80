import { rmSync } from "node:fs";
import { describe, expect, it, vi } from "vitest";
import type { StoreHealth } from "../../src/contracts/health.js";
import type { Store } from "../../src/contracts/store.js";
import { createHandler } from "../../src/http/index.js";
import { createReadiness } from "../../src/http/readiness.js";
import { memoryStore } from "../../src/index.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { temporaryPaths } from "../stores/sqlite/support.js";
import { HOSTS, world } from "./support.js";

const path = temporaryPaths();

describe.each(HOSTS)("GET /ready on the %s host", (host) => {
  it("is 200 for a store that can be read, needs no root key, and takes GET and HEAD alone", async () => {
    const { send, close } = await world({ host });
    const { status, text } = await send("/ready");
    expect([status, JSON.parse(text)]).toMatchObject([200, { data: { message: "OK" } }]);
    expect((await send("/ready", { method: "POST" })).status).toBe(405);
    await close();
  });
});

describe("GET /ready of an SQLite file", () => {
  const open = () => {
    const place = path();
    const store = sqliteStore(place);
    const faults: unknown[] = [];
    const handler = createHandler(store, { metrics: true, onError: (error) => faults.push(error) });
    const get = async (page: string) => {
      const response = await handler(new Request(`http://localhost${page}`));
      return { status: response.status, text: await response.text(), headers: response.headers };
    };
    return { place, store, faults, get, close: async () => (await handler.close(), await store.close()) };
  };

  it("is 503 once the file is gone; it says no more to the client, and onError hears it once", async () => {
    const { place, faults, get, close } = open();
    expect((await get("/ready")).status).toBe(200);
    expect((await get("/metrics")).text).toMatch(/^keystile_store_ok 1$/m);
    rmSync(place);
    // What was found is used again for a moment.
    expect((await get("/ready")).status).toBe(200);
    const clock = vi.spyOn(performance, "now").mockReturnValue(performance.now() + 1_001);
    const answers = await Promise.all(Array.from({ length: 20 }, () => get("/ready")));
    expect((await get("/metrics")).text).toMatch(/^keystile_store_ok 0$/m);
    clock.mockRestore();
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([503]));
    expect(JSON.parse(answers[0]!.text)).toMatchObject({ error: { status: 503, title: "Service Unavailable" } });
    expect(answers[0]!.text).not.toMatch(/deleted|\.db/);
    expect(answers[0]!.headers.get("retry-after")).toBe("1");
    expect(faults).toMatchObject([{ code: "NOT_READY", detail: "the database file was deleted while it is in use" }]);
    await close();
  });

  it("metrics tell the counters of the store", async () => {
    const { get, close } = open();
    const { text } = await get("/metrics");
    for (const name of [
      "wal_bytes",
      "checkpoints_total",
      "lock_waits_total",
      "busy_errors_total",
      "failed_syncs_total",
    ])
      expect(text).toMatch(new RegExp(`^keystile_store_${name} \\d+$`, "m"));
    expect(Number(/^keystile_store_wal_bytes (\d+)$/m.exec(text)?.[1])).toBeGreaterThan(0);
    await close();
  });
});

describe("createReadiness", () => {
  it("a store without health is ready if it can be read; one whose health fails is not", async () => {
    const store = memoryStore();
    const problems: unknown[] = [];
    expect(await createReadiness(store, () => undefined).health()).toBeUndefined();
    const failing: Store = {
      ...store,
      readMany: () => {
        throw new Error("gone");
      },
    };
    const unwell = { ...store, health: () => Promise.reject<StoreHealth>(new Error("gone")) };
    for (const each of [failing, unwell]) {
      const readiness = createReadiness(each, (error) => problems.push(error));
      await expect(readiness.assertReady()).rejects.toMatchObject({ code: "NOT_READY", status: 503 });
      expect(await readiness.health()).toBeUndefined();
    }
    expect(problems).toMatchObject([{ cause: { message: "gone" } }, { cause: { message: "gone" } }]);
  });
});
