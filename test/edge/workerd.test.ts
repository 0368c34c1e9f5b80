/**
 * Keys inside workerd, the runtime of Cloudflare's Workers: the suites of stores and limiters in Durable Objects, an
 * object that is killed and fails, and the program of examples/worker as its users meet it.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { faultsOfAnswer } from "../answer-schema.js";
import { ROOT } from "../structure/source.js";
import type { Mode, Outcome } from "./programs/kill.js";
import type { Rows } from "./programs/rows.js";
import { bundleWorker, COMPATIBILITY_DATE, gzipped, type Running, startWorker } from "./worker.js";

describe("workerd: the suites", () => {
  let running: Running;
  beforeAll(async () => {
    running = await startWorker(await bundleWorker("test/edge/programs/suites.ts"), "Bed");
  });
  afterAll(() => running.stop());

  it("durableObjectStore: passes the suite of stores, as far as one storage goes", async () => {
    const outcomes = await running.ask<[string, string | null][]>("/store");
    expect(outcomes.length).toBeGreaterThan(150);
    const failed = outcomes.filter(([, failure]) => failure !== null);
    // An object cannot open the storage of another.
    const twice = failed.filter(([, failure]) => failure!.includes("an object has one storage"));
    expect(failed.filter((one) => !twice.includes(one))).toEqual([]);
    expect(twice.map(([title]) => title).sort()).toEqual([
      "clause 12: two new stores share nothing",
      "clause 21: the powers are of their types, and stay as they are",
      "clauses 12 and 23: the secrets of two new stores differ",
    ]);
  });

  it("durableObjectLimiter: passes the suite of limiters", async () => {
    const outcomes = await running.ask<[string, string | null][]>("/limiter");
    expect(outcomes.length).toBeGreaterThan(20);
    expect(outcomes.filter(([, failure]) => failure !== null)).toEqual([]);
  });
});

describe("workerd: killed", () => {
  let running: Running;
  beforeAll(async () => {
    running = await startWorker(await bundleWorker("test/edge/programs/kill.ts"), "Rig");
  });
  afterAll(() => running.stop());
  const rig = (mode: Mode, spends = 300) => running.ask<Outcome>("/", { mode, spends, share: 0.005 });

  it("no spend is lost or taken twice while the object is aborted, and its statements fail, at random", async () => {
    const { aborts, throws, failed, taken, acknowledged } = await rig("sound");
    expect(Math.min(aborts, throws, failed)).toBeGreaterThan(0);
    expect(taken).toBe(acknowledged);
  });

  it("finds out a storage without transactions", async () => {
    let missed = 0;
    for (let run = 0; run < 30 && missed === 0; run++) {
      const { taken, acknowledged } = await rig("without transactions");
      missed = Math.abs(taken - acknowledged);
    }
    expect(missed).toBeGreaterThan(0);
  });
});

describe("workerd: guards", () => {
  let running: Running;
  beforeAll(async () => {
    running = await startWorker(await bundleWorker("test/edge/programs/guard.ts"), "Objects");
  });
  afterAll(() => running.stop());

  it("keys find their object by their prefix, and one whose object does not start is refused with 503", async () => {
    const { plain, paid } = await running.ask<{ plain: string; paid: string }>("/keys");
    const status = async (path: string, key: string) =>
      (await running.fetch(path, { headers: { authorization: `Bearer ${key}` } })).status;
    const passed = [await status("/guarded", plain), await status("/guarded", paid), await status("/cached", plain)];
    expect(passed).toEqual([200, 200, 200]);
    expect(await status("/guarded", plain.replace("acme_", "other_"))).toBe(401);
    expect(await status("/guarded", plain.replace("acme_", "broken_"))).toBe(503);
  });

  it("spends in one object are exact, however many are under way", async () => {
    const { left } = await running.ask<{ left: number }>("/spends?count=2000&atOnce=64");
    expect(left).toBe(0);
  });
});

describe("workerd: what is written, and what ends early", () => {
  let running: Running;
  beforeAll(async () => {
    running = await startWorker(await bundleWorker("test/edge/programs/rows.ts"), "Counted");
  });
  afterAll(() => running.stop());

  it("a call writes as many rows as docs/edge.md says", async () => {
    const page = readFileSync(join(ROOT, "docs", "edge.md"), "utf8");
    const said = (row: string) =>
      Number(
        page
          .split("\n")
          .find((line) => line.startsWith(`| ${row} `))!
          .split("|")[2],
      );
    const { created, ...rows } = await running.ask<Rows>("/rows");
    expect(rows).toEqual({
      plain: said("without credits and limits"),
      credits: said("with credits"),
      limit: said("with a rate limit"),
      memory: said("with a rate limit, `limits: memory`"),
    });
    expect(page).toContain(`${created} rows written`);
  });

  it("a reservation outlives its object, and is settled in the next", async () => {
    expect(await running.ask("/ended")).toBe(8);
  });

  it("what cannot be sent changes nothing, and ends nothing", async () => {
    expect(await running.ask("/unsent")).toEqual(["TypeError", "BAD_REQUEST", "STORE_UNAVAILABLE"]);
  });

  it("the alarm writes counts", async () => {
    expect(await running.ask("/alarm")).toBeGreaterThanOrEqual(3);
  });
});

/** What responses of the operations below have. */
type Data = Record<"key" | "keyId" | "apiId" | "code" | "externalId", string> & {
  readonly remaining: number;
  readonly success: boolean;
};

describe("workerd: examples/worker", () => {
  let running: Running;
  let rootKey = "";
  let first = "";
  const authorization = (key: string) => ({ authorization: `Bearer ${key}` });
  const documents = (key?: string) =>
    running.fetch("/documents", key === undefined ? {} : { headers: authorization(key) });
  /** An operation of the service in the object. */
  const api = async (operation: string, body: object) => {
    const headers = { ...authorization(rootKey), "content-type": "application/json" };
    const response = await running.fetch(`/v2/${operation}`, { method: "POST", headers, body: JSON.stringify(body) });
    return { status: response.status, body: (await response.json()) as { data: Data } };
  };

  beforeAll(async () => {
    const bindings = { SETUP_TOKEN: "set-up", DEMO_OWNER: "acme" };
    running = await startWorker(await bundleWorker("examples/worker/worker.ts"), "Keys", bindings);
    expect((await running.fetch("/setup", { method: "POST", headers: authorization("guess") })).status).toBe(404);
    const made = await running.fetch("/setup", { method: "POST", headers: authorization("set-up") });
    ({ rootKey, key: first } = (await made.json()) as { rootKey: string; key: string });
  });
  afterAll(() => running.stop());

  it("wrangler.jsonc names its class, with SQLite, and the date that this is tried with", () => {
    const text = readFileSync(join(ROOT, "examples", "worker", "wrangler.jsonc"), "utf8");
    const config = JSON.parse(text.replaceAll(/,(?=\s*[}\]])/g, "")) as object;
    expect(config).toMatchObject({
      main: "worker.ts",
      compatibility_date: COMPATIBILITY_DATE,
      durable_objects: { bindings: [{ name: "KEYS", class_name: "Keys" }] },
      migrations: [{ new_sqlite_classes: ["Keys"] }],
    });
    expect(config).not.toHaveProperty("compatibility_flags");
  });

  it("the guard passes, and refuses with 401, 403 and 429 as everywhere", async () => {
    const passed = await documents(first);
    expect([passed.status, await passed.json()]).toEqual([200, expect.objectContaining({ credits: 99 })]);
    expect((await documents()).status).toBe(401);
    expect((await documents("nobody")).status).toBe(401);
    const { body: poor } = await api("keys.createKey", { apiId: "api_documents" });
    expect((await documents(poor.data.key)).status).toBe(403);
    const spent = { apiId: "api_documents", permissions: ["documents.read"], credits: { remaining: 1 } };
    const { body: last } = await api("keys.createKey", spent);
    expect([(await documents(last.data.key)).status, (await documents(last.data.key)).status]).toEqual([200, 429]);
  });

  it("a revocation is seen at once where nothing is cached, and within the bound where it is", async () => {
    const { body: made } = await api("keys.createKey", { apiId: "api_documents", permissions: ["documents.read"] });
    const { key, keyId } = made.data as { key: string; keyId: string };
    expect((await documents(key)).status).toBe(200);
    const revokedAt = Date.now();
    expect((await api("keys.updateKey", { keyId, enabled: false })).status).toBe(200);
    await expect.poll(async () => (await documents(key)).status, { interval: 100, timeout: 20_000 }).toBe(401);
    // The bound of the example, and what a slow machine takes to ask.
    expect(Date.now() - revokedAt).toBeLessThan(2_000 + 2_000);
    const { body: rich } = await api("keys.createKey", {
      apiId: "api_documents",
      permissions: ["*"],
      credits: { remaining: 9 },
    });
    expect((await documents(rich.data.key)).status).toBe(200);
    await api("keys.deleteKey", { keyId: rich.data.keyId });
    expect((await documents(rich.data.key)).status).toBe(401);
  });

  it("the service answers below /v2/ as the interface has it", async () => {
    const { body: created } = await api("apis.createApi", { name: "contract" });
    const { apiId } = created.data as { apiId: string };
    const ratelimits = [{ name: "requests", limit: 5, duration: 60_000, autoApply: true }];
    const { body: made } = await api("keys.createKey", {
      ...{ apiId, prefix: "acme", name: "one", externalId: "acme", meta: { plan: "pro" }, ratelimits },
      ...{ permissions: ["a.read"], credits: { remaining: 10, refill: { interval: "daily", amount: 10 } } },
    });
    const { key, keyId } = made.data as { key: string; keyId: string };
    const { status, body } = await api("keys.verifyKey", { key, permissions: "a.read", credits: { cost: 2 } });
    expect([status, faultsOfAnswer(body.data, { permissions: "a.read" })]).toEqual([200, []]);
    expect(body.data).toMatchObject({
      valid: true,
      code: "VALID",
      keyId,
      credits: 8,
      identity: { externalId: "acme" },
    });
    expect((await api("keys.updateCredits", { keyId, operation: "increment", value: 5 })).body.data.remaining).toBe(13);
    expect((await api("keys.addPermissions", { keyId, permissions: ["a.write"] })).status).toBe(200);
    expect((await api("keys.rerollKey", { keyId, expiration: 0 })).body.data.key).not.toBe(key);
    expect((await api("keys.verifyKey", { key })).body.data.code).toBe("EXPIRED");
    expect((await api("identities.getIdentity", { identity: "acme" })).body.data.externalId).toBe("acme");
    const limit = { namespace: "mail", identifier: "acme", limit: 1, duration: 60_000 };
    expect((await api("ratelimit.limit", limit)).body.data.success).toBe(true);
    expect((await api("ratelimit.limit", limit)).body.data.success).toBe(false);
    expect((await api("keys.verifyKey", { key: 5 })).status).toBe(400);
    expect((await api("keys.getKey", { keyId: "key_unknown1" })).status).toBe(404);
    expect((await running.fetch("/v2/keys.getKey", { method: "POST" })).status).toBe(401);
    expect((await running.fetch("/openapi.json")).status).toBe(200);
  });

  it("what it counts can be asked for", async () => {
    const query = { by: ["outcome"], from: 0, to: 4_000_000_000_000 };
    const outcomes = async () => {
      const { data } = (await api("analytics.getVerifications", { query })).body as unknown as { data: object[] };
      return data;
    };
    const counted = expect.objectContaining({ outcome: "VALID", count: expect.any(Number) as number }) as object;
    await expect.poll(outcomes, { interval: 200, timeout: 30_000 }).toContainEqual(counted);
  });

  it("the console and the portal are served by the object", async () => {
    const page = await running.fetch("/console/sign-in");
    expect([page.status, await page.text()]).toEqual([200, expect.stringContaining("<html")]);
    const portal = await running.fetch("/account/keys");
    expect([portal.status, await portal.text()]).toEqual([200, expect.stringContaining("<html")]);
  });

  it("is at most so large", async () => {
    const whole = await bundleWorker("examples/worker/worker.ts", true);
    expect(gzipped(whole)).toBeLessThan(255_000);
  });
});
