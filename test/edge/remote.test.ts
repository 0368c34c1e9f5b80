import { describe, expect, it, vi } from "vitest";
import { createEngine, type ObjectOptions } from "../../src/edge/engine.js";
import { type ObjectStub, remoteKeyring, remoteVerifier } from "../../src/edge/remote.js";
import { createKeyring, createVerifier, KeystileError, memoryStore } from "../../src/index.js";
import { apiKey } from "../../src/middleware/web.js";
import { nodeStorage } from "./node-storage.js";

/** An object, and a stub that sends what crosses RPC: copies, without symbols. */
async function world(options: ObjectOptions = {}) {
  const storage = nodeStorage();
  const engine = createEngine(storage, options, undefined);
  const asked: string[] = [];
  const stub: ObjectStub = {
    async call(operation, ...given) {
      asked.push(operation);
      return engine.call(operation, structuredClone(given));
    },
  };
  const keyring = remoteKeyring(stub);
  const { apiId } = await keyring.createApi({ name: "documents" });
  return { storage, engine, stub, asked, keyring, apiId };
}

describe("remoteVerifier", () => {
  it("has the results of a verifier beside its store, for every code", async () => {
    const { keyring, stub, apiId } = await world();
    const verifier = remoteVerifier(() => stub);
    const bodies = [
      { permissions: ["a.read"], credits: { remaining: 3 } },
      { enabled: false },
      { credits: { remaining: 0 } },
      { ratelimits: [{ name: "requests", limit: 1, duration: 60_000, autoApply: true }] },
      { meta: { plan: "pro" }, name: "one", externalId: "acme" },
    ];
    const store = memoryStore();
    const beside = createVerifier(store);
    const local = createKeyring(store);
    const { apiId: localApi } = await local.createApi({ name: "documents" });
    for (const body of bodies) {
      const far = await keyring.createKey({ apiId, ...body });
      const near = await local.createKey({ apiId: localApi, ...body });
      for (const permissions of ["a.read", "a.write", undefined]) {
        const request = permissions === undefined ? {} : { permissions };
        const [one, other] = await Promise.all([
          verifier.verify({ key: far.key, ...request }),
          beside.verify({ key: near.key, ...request }),
        ]);
        const plain = (result: object) => JSON.stringify(result).replaceAll(/"(key|id|rl)_\w+"|"reset":\d+/g, "");
        expect(plain(one)).toBe(plain(other));
      }
    }
    expect(await verifier.verify({ key: "nobody" })).toEqual({ valid: false, code: "NOT_FOUND" });
  });

  it("errors keep their code, their problems and their class", async () => {
    const { keyring, stub } = await world();
    const verifier = remoteVerifier(() => stub);
    await expect(verifier.verify({ key: "k", permissions: "a AND" })).rejects.toMatchObject({
      code: "PERMISSIONS_QUERY_SYNTAX",
      status: 400,
      errors: [expect.objectContaining({ location: "body.permissions" })],
    });
    await expect(keyring.getKey({ keyId: "key_unknown" })).rejects.toBeInstanceOf(KeystileError);
    // What narrows and is undefined is a mistake there too.
    await expect(verifier.verify({ key: "k" }, { apiId: undefined } as never)).rejects.toBeInstanceOf(TypeError);
    await expect((keyring as never as { nothing(): Promise<void> }).nothing()).rejects.toThrow(
      /no operation "nothing"/,
    );
    await expect((keyring as never as { constructor: () => Promise<void> }).constructor()).rejects.toThrow(TypeError);
    expect(await Promise.resolve(keyring)).toBe(keyring);
  });

  it("a stub that fails, or does not answer, refuses with 503", async () => {
    const { keyring, stub, apiId } = await world();
    const { key } = await keyring.createKey({ apiId });
    const request = new Request("http://x/", { headers: { authorization: `Bearer ${key}` } });
    const status = async (call: ObjectStub["call"]) => {
      const verifier = remoteVerifier(() => ({ call }), { timeout: 20 });
      const guarded = apiKey(verifier, { apiId, onError: () => undefined }, () => new Response());
      return (await guarded(request)).status;
    };
    expect(await status(stub.call)).toBe(200);
    expect(await status(() => Promise.reject(new Error("the object was reset")))).toBe(503);
    expect(await status(() => new Promise<never>(() => undefined))).toBe(503);
    expect(await status(() => Promise.resolve("not JSON"))).toBe(503);
  });

  it("a guard's key answers can(), and refusals say when to come back", async () => {
    const { keyring, stub, apiId } = await world();
    const ratelimits = [{ name: "requests", limit: 1, duration: 60_000, autoApply: true }];
    const { key } = await keyring.createKey({ apiId, permissions: ["a.*"], ratelimits });
    const request = () => new Request("http://x/", { headers: { authorization: `Bearer ${key}` } });
    const guarded = apiKey(
      remoteVerifier(() => stub),
      { apiId },
      (_, verified) => Response.json([verified.can("a.write"), verified.can("b")]),
    );
    expect(await (await guarded(request())).json()).toEqual([true, false]);
    const refused = await guarded(request());
    expect([refused.status, Number(refused.headers.get("retry-after"))]).toEqual([429, expect.closeTo(60, 0)]);
  });

  it("a reservation is settled in the object, once", async () => {
    const { keyring, stub, apiId } = await world();
    const { key, keyId } = await keyring.createKey({ apiId, credits: { remaining: 100 } });
    const call = await remoteVerifier(() => stub).reserve({ key, credits: { cost: 40 } });
    if (!call.valid) throw new Error(call.code);
    expect(await call.commit(15)).toEqual({ settled: true, spent: 15 });
    expect(await call.release()).toEqual({ settled: false, reason: "settled" });
    expect(await keyring.spend({ keyId }, { cost: 5 })).toEqual({ code: "VALID", remaining: 80 });
    expect((await remoteVerifier(() => stub).reserve({ key: "nobody" })).code).toBe("NOT_FOUND");
    const again = await remoteVerifier(() => stub).reserve({ key, credits: { cost: 1 } });
    expect(await keyring.settle((again as { id: string }).id, 0)).toEqual({ settled: true, spent: 0 });
  });

  it("is told its mistakes", () => {
    expect(() => remoteVerifier({} as never)).toThrow("objectOf must be a function that returns a stub");
    expect(() => remoteVerifier(() => ({}) as never, { cache: {} as never })).toThrow("options.cache.maxAge");
    expect(() => remoteVerifier(() => ({}) as never, { cache: { maxAge: 0 } })).toThrow(RangeError);
    expect(() => remoteKeyring({} as never, { timeout: 0 })).toThrow(RangeError);
  });
});

describe("remoteVerifier: cache", () => {
  const cached = { cache: { maxAge: 1_000, size: 2 } };

  it("asks once for a key without credits and limits, until its result is too old", async () => {
    vi.useFakeTimers({ toFake: ["Date"], now: 1_800_000_000_000 });
    try {
      const { keyring, stub, asked, apiId } = await world();
      const { key, keyId } = await keyring.createKey({ apiId, permissions: ["a.read"] });
      const verifier = remoteVerifier(() => stub, cached);
      const verify = async (more: object = {}) => (await verifier.verify({ key, ...more })).code;
      const asks = () => asked.filter((name) => name === "verify").length;
      expect([await verify(), await verify(), asks()]).toEqual(["VALID", "VALID", 1]);
      expect([await verify({ permissions: "a.read" }), await verify({ permissions: "b" }), asks()]).toEqual([
        ...["VALID", "INSUFFICIENT_PERMISSIONS"],
        3,
      ]);
      await keyring.updateKey({ keyId, enabled: false });
      vi.setSystemTime(1_800_000_000_999);
      expect(await verify()).toBe("VALID");
      vi.setSystemTime(1_800_000_001_000);
      expect([await verify(), await verify(), asks()]).toEqual(["DISABLED", "DISABLED", 5]);
    } finally {
      vi.useRealTimers();
    }
  });

  it("never uses a result again that took something, or that will have expired", async () => {
    vi.useFakeTimers({ toFake: ["Date"], now: 1_800_000_000_000 });
    try {
      const { keyring, stub, asked, apiId } = await world();
      const verifier = remoteVerifier(() => stub, cached);
      const ratelimits = [{ name: "requests", limit: 9, duration: 60_000, autoApply: true }];
      await keyring.createIdentity({ externalId: "acme", credits: { remaining: 9 } });
      for (const body of [{ credits: { remaining: 9 } }, { ratelimits }, { externalId: "acme" }]) {
        const { key } = await keyring.createKey({ apiId, ...body });
        asked.length = 0;
        for (let i = 0; i < 3; i++) await verifier.verify({ key });
        expect(asked).toHaveLength(3);
      }
      const { key } = await keyring.createKey({ apiId, expires: 1_800_000_000_500 });
      asked.length = 0;
      for (const options of [{ idempotencyKey: "one" }, { idempotencyKey: "two" }])
        await verifier.verify({ key }, options);
      const adHoc = [{ name: "own", limit: 1, duration: 60_000 }];
      for (let i = 0; i < 2; i++) await verifier.verify({ key, ratelimits: adHoc });
      expect(asked).toHaveLength(4);
      expect((await verifier.verify({ key })).code).toBe("VALID");
      // Present and undefined is a mistake, which no remembered result covers up.
      await expect(verifier.verify({ key, permissions: undefined } as never)).rejects.toMatchObject({ status: 400 });
      vi.setSystemTime(1_800_000_000_501);
      expect((await verifier.verify({ key })).code).toBe("EXPIRED");
    } finally {
      vi.useRealTimers();
    }
  });

  it("keeps as many as it may, and none from before a clock was set back", async () => {
    vi.useFakeTimers({ toFake: ["Date"], now: 1_800_000_000_000 });
    try {
      const { keyring, stub, asked, apiId } = await world();
      const verifier = remoteVerifier(() => stub, cached);
      const keys = await Promise.all([0, 1, 2].map(async () => (await keyring.createKey({ apiId })).key));
      asked.length = 0;
      for (const key of [...keys, ...keys.slice(1)]) await verifier.verify({ key });
      expect(asked).toHaveLength(3);
      await verifier.verify({ key: keys[0]! });
      expect(asked).toHaveLength(4);
      vi.setSystemTime(1_799_999_999_999);
      await verifier.verify({ key: keys[0]! });
      expect(asked).toHaveLength(5);
    } finally {
      vi.useRealTimers();
    }
  });
});

describe("keystileObject: alarm", () => {
  it("comes after calls where there is something to do, writes counts, and is set anew by the next call", async () => {
    const none = await world();
    await vi.waitFor(() => expect(none.asked).toEqual(["createApi"]));
    expect(none.storage.alarm()).toBeNull();

    const { keyring, storage, engine, stub, apiId } = await world({ verifier: { analytics: true }, interval: 5_000 });
    await vi.waitFor(() => expect(storage.alarm()).toBeGreaterThan(Date.now()));
    const { key, keyId } = await keyring.createKey({ apiId });
    await remoteVerifier(() => stub).verify({ key });
    await storage.setAlarm(null as never);
    await engine.alarm();
    const counted = storage.sql.exec("SELECT sum(valid) AS n FROM keystile_outcomes_hour").toArray();
    expect(counted).not.toEqual([{ n: null }]);
    expect(storage.alarm()).toBeNull();
    expect((await keyring.getKey({ keyId })).lastUsedAt).toBeDefined();
    await vi.waitFor(() => expect(storage.alarm()).not.toBeNull());
  });

  it("that could not be set is set by the next call", async () => {
    const storage = nodeStorage();
    const { setAlarm } = storage;
    let refused = 0;
    storage.setAlarm = () => Promise.reject(new Error(`refused ${++refused} times`));
    const engine = createEngine(storage, { verifier: { analytics: true } }, undefined);
    await engine.call("createApi", [{ name: "documents" }]);
    await vi.waitFor(() => expect(refused).toBe(1));
    storage.setAlarm = setAlarm;
    await engine.call("listApis", [{}]);
    await vi.waitFor(() => expect(storage.alarm()).toBeGreaterThan(Date.now()));
  });

  it("tells of alerts, sets itself anew, and reports what failed", async () => {
    const told: object[] = [];
    const failures: unknown[] = [];
    const alerts = { creditsBelow: 10, deliver: (alert: object) => told.push(alert) };
    const { keyring, storage, engine, apiId } = await world({ alerts, onError: (error) => failures.push(error) });
    await keyring.createKey({ apiId, credits: { remaining: 5 } });
    await storage.setAlarm(null as never);
    await engine.alarm();
    expect(told).toHaveLength(1);
    expect(storage.alarm()).toBeGreaterThan(Date.now());
    storage.sql.exec("DROP TABLE keystile_alerts");
    await engine.alarm();
    expect(failures).toHaveLength(1);
  });
});
