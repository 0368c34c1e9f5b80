import { describe, expect, it, vi } from "vitest";
import { answerOf, readAnswer } from "../../src/edge/answers.js";
import { createEngine, type ObjectOptions } from "../../src/edge/engine.js";
import { type ObjectStub, remoteKeyring, remoteVerifier } from "../../src/edge/remote.js";
import { createKeyring, createVerifier, KeystileError, memoryStore } from "../../src/index.js";
import { apiKey } from "../../src/middleware/web.js";
import { durableObjectLimiter } from "../../src/stores/durable-object/limiter.js";
import { durableObjectStore } from "../../src/stores/durable-object/store.js";
import { nodeStorage } from "./node-storage.js";

/** An object, and a stub that sends what crosses RPC: copies, without symbols. */
async function world(options: ObjectOptions = {}) {
  const storage = nodeStorage();
  const engine = createEngine(storage, options, undefined);
  const asked: string[] = [];
  const stub: ObjectStub = {
    async call(operation, ...given) {
      asked.push(operation);
      // Of an error that crosses RPC the message is left.
      return engine.call(operation, structuredClone(given)).catch((error: unknown) => {
        throw new Error(String(error));
      });
    },
  };
  const keyring = remoteKeyring(() => stub);
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
    await expect(verifier.reserve({ key: "k" }, { timeout: -1 })).rejects.toBeInstanceOf(RangeError);
    const failed = new KeystileError("STORE_FAILED", "made by the test", { outcomeUnknown: true });
    const text = await answerOf(() => Promise.reject(failed));
    expect(() => readAnswer(text)).toThrow(expect.objectContaining({ code: "STORE_FAILED", outcomeUnknown: true }));
  });

  it("leaves no timer behind a call that was answered", async () => {
    const { stub } = await world();
    const simulated = Symbol.for("keystile.timers");
    const open = new Set<number>();
    const timers = {
      setTimeout: () => (open.add(open.size), open.size - 1),
      clearTimeout: (timer: number) => void open.delete(timer),
    };
    Object.assign(globalThis, { [simulated]: timers });
    try {
      await remoteVerifier(() => stub).verify({ key: "nobody" });
      expect(open.size).toBe(0);
    } finally {
      Reflect.deleteProperty(globalThis, simulated);
    }
  });

  it("a stub that fails, or does not answer, refuses with 503", async () => {
    const { keyring, stub, apiId } = await world();
    const { key } = await keyring.createKey({ apiId });
    const request = new Request("http://x/", { headers: { authorization: `Bearer ${key}` } });
    const status = async (call: ObjectStub["call"], timeout = 60_000) => {
      const verifier = remoteVerifier(() => ({ call }), { timeout });
      const guarded = apiKey(verifier, { apiId, onError: () => undefined }, () => new Response());
      return (await guarded(request)).status;
    };
    expect(await status(stub.call)).toBe(200);
    expect(await status(() => Promise.reject(new Error("the object was reset")))).toBe(503);
    expect(await status(() => new Promise<never>(() => undefined), 20)).toBe(503);
    expect(await status(() => Promise.resolve("not JSON"))).toBe(503);
  });

  it.each([
    ...[
      '{"value":{"valid":false}}',
      "not JSON",
      "null",
      "5",
      "[]",
      "{}",
      '{"value":null}',
      '{"value":true}',
      '{"value":{}}',
    ],
    ...['{"value":{"valid":true,"keyId":"key_1"}}', '{"value":{"valid":true,"code":"VALID"}}'],
    ...['{"value":{"valid":true,"code":"DISABLED","keyId":"key_1"}}', '{"value":{"valid":"yes","code":"VALID"}}'],
    ...['{"value":{"valid":false,"code":"VALID","keyId":"key_1"}}', '{"value":{"valid":1,"code":"VALID","keyId":"k"}}'],
  ])("an answer that is none, %s, is STORE_INVALID and never remembered", async (text) => {
    let asked = 0;
    const stub = { call: async () => (asked++, text) };
    const verifier = remoteVerifier(() => stub, { cache: { maxAge: 60_000 } });
    for (const call of [verifier.verify, verifier.verify, verifier.reserve])
      await expect(call({ key: "k" })).rejects.toMatchObject({ code: "STORE_INVALID" });
    expect(asked).toBe(3);
  });

  it("a reservation without an id is none", async () => {
    const call = async () => '{"value":{"valid":true,"code":"VALID","keyId":"key_1","enabled":true}}';
    await expect(remoteVerifier(() => ({ call })).reserve({ key: "k" })).rejects.toMatchObject({
      code: "STORE_INVALID",
    });
  });

  it("a request that is not valid is refused before any object is found, and a caller before it is asked", async () => {
    const found: string[] = [];
    const verifier = remoteVerifier((key) => (found.push(key.slice(0, 4)), undefined), { cache: { maxAge: 1_000 } });
    for (const body of [{}, { key: 5 }, { key: "k", permissions: () => "a" }, undefined])
      for (const call of [verifier.verify, verifier.reserve])
        await expect(call(body as never)).rejects.toMatchObject({ status: 400 });
    expect(found).toEqual([]);
    const caller = { workspaceId: "ws_default", may: () => true, mayAny: () => true };
    await expect(verifier.verify({ key: "k" }, { caller })).rejects.toThrow(/^context\.caller cannot be sent/);
  });

  it("a key that no object has is NOT_FOUND without a call, also if the object is found later", async () => {
    const { keyring, stub, asked, apiId } = await world();
    const { key } = await keyring.createKey({ apiId, prefix: "acme", credits: { remaining: 9 } });
    asked.length = 0;
    const verifier = remoteVerifier(async (text) => (text.startsWith("acme_") ? stub : undefined));
    expect(await verifier.verify({ key: key.replace("acme", "other") })).toEqual({ valid: false, code: "NOT_FOUND" });
    expect((await verifier.reserve({ key: "nobody" })).code).toBe("NOT_FOUND");
    expect(asked).toEqual([]);
    expect((await verifier.verify({ key })).code).toBe("VALID");
    let isThere = true;
    const leaving = remoteVerifier(() => (isThere ? stub : undefined));
    const call = await leaving.reserve({ key, credits: { cost: 4 } });
    isThere = false;
    await expect((call as { commit(spent: number): Promise<object> }).commit(1)).rejects.toMatchObject({
      code: "STORE_UNAVAILABLE",
    });
  });

  it("a request and a context are read once: what becomes of them later changes no call", async () => {
    const { keyring, stub, apiId } = await world();
    const [one, other] = [
      await keyring.createKey({ apiId, enabled: false }),
      await keyring.createKey({ apiId, credits: { remaining: 9 } }),
    ];
    const asked: string[] = [];
    const verifier = remoteVerifier((key) => (asked.push(key), stub), { cache: { maxAge: 60_000 } });
    for (const call of [verifier.verify, verifier.reserve]) {
      const request = { key: one.key };
      const context = { apiId };
      const calling = call(request, context);
      request.key = other.key;
      context.apiId = "api_other";
      expect((await calling).code).toBe("DISABLED");
      let reads = 0;
      const get = () => (reads++ === 0 ? one : other).key;
      const changing = Object.defineProperty({}, "key", { enumerable: true, get });
      expect((await call(changing as { key: string })).code).toBe("DISABLED");
      asked.length = 0;
    }
    const request = { key: other.key, credits: { cost: 4 } };
    const call = await verifier.reserve(request);
    request.key = one.key;
    expect(await (call as { commit(spent: number): Promise<object> }).commit(1)).toEqual({ settled: true, spent: 1 });
    expect(asked).toEqual([other.key, other.key]);
  });

  it("a result is remembered for the key that it is of, whatever its request says later", async () => {
    const { keyring, stub, apiId } = await world();
    const [bad, good] = [await keyring.createKey({ apiId, enabled: false }), await keyring.createKey({ apiId })];
    const verifier = remoteVerifier(() => stub, { cache: { maxAge: 60_000 } });
    const request = { key: bad.key };
    const calling = verifier.verify(request);
    request.key = good.key;
    await calling;
    expect((await verifier.verify({ key: bad.key })).code).toBe("DISABLED");
  });

  it("a context that is no object is a mistake, as it is beside the store", async () => {
    const { keyring, stub, apiId } = await world();
    const { key } = await keyring.createKey({ apiId });
    const verifier = remoteVerifier(() => stub);
    for (const context of [true, 5, null, [], "api_1", new Map()])
      for (const call of [verifier.verify, verifier.reserve])
        await expect(call({ key }, context as never)).rejects.toThrow("context must be an object");
  });

  it("what cannot be sent is a mistake, and a keyring finds its object anew after one that failed", async () => {
    const { stub } = await world();
    let calls = 0;
    const keyring = remoteKeyring(() => {
      const isBroken = calls++ === 0;
      return isBroken ? { call: () => Promise.reject(new Error("broken")) } : stub;
    });
    await expect(keyring.listApis()).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    expect((await keyring.listApis()).data).toHaveLength(1);
    await expect(keyring.createApi({ name: () => "documents" } as never)).rejects.toThrow(
      /^what is given cannot be sent/,
    );
  });

  it("what may have been done says so: an object that answers late, and one that fails", async () => {
    const stubs: ObjectStub["call"][] = [() => new Promise(() => undefined), () => Promise.reject(new Error("reset"))];
    const codes = ["STORE_TIMEOUT", "STORE_UNAVAILABLE"];
    for (const [i, call] of stubs.entries())
      await expect(remoteKeyring(() => ({ call }), { timeout: 5 }).createApi({ name: "one" })).rejects.toMatchObject({
        code: codes[i],
        outcomeUnknown: true,
      });
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
    expect([refused.status, Number(refused.headers.get("retry-after"))]).toEqual([429, expect.closeTo(59, -1)]);
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
    for (const make of [remoteVerifier, remoteKeyring])
      expect(() => make({} as never)).toThrow("objectOf must be a function that returns a stub");
    expect(() => remoteVerifier(() => ({}) as never, { cache: {} as never })).toThrow("options.cache.maxAge");
    expect(() => remoteVerifier(() => ({}) as never, { cache: { maxAge: 0 } })).toThrow(RangeError);
    expect(() => remoteKeyring(() => ({}) as never, { timeout: 0 })).toThrow(RangeError);
  });
});

describe("remoteVerifier: cache", () => {
  const cached = { cache: { maxAge: 1_000, size: 2 } };

  it("a result is as old as its call, which takes time, and a new one takes its place", async () => {
    vi.useFakeTimers({ toFake: ["Date"], now: 1_800_000_000_000 });
    try {
      const { keyring, stub, asked, apiId } = await world();
      const { key } = await keyring.createKey({ apiId });
      const slow: ObjectStub = {
        async call(...given) {
          const text = await stub.call(...given);
          vi.setSystemTime(Date.now() + 600);
          return text;
        },
      };
      const verifier = remoteVerifier(() => slow, cached);
      asked.length = 0;
      await verifier.verify({ key });
      vi.setSystemTime(1_800_000_000_999);
      await verifier.verify({ key });
      expect(asked).toHaveLength(1);
      vi.setSystemTime(1_800_000_001_000);
      for (let i = 0; i < 3; i++) await verifier.verify({ key });
      expect(asked).toHaveLength(2);
    } finally {
      vi.useRealTimers();
    }
  });

  it("of several Workers each sees a revocation within its own bound", async () => {
    vi.useFakeTimers({ toFake: ["Date"], now: 1_800_000_000_000 });
    try {
      const { keyring, stub, apiId } = await world();
      const { key, keyId } = await keyring.createKey({ apiId });
      const [one, two] = [remoteVerifier(() => stub, cached), remoteVerifier(() => stub, { cache: { maxAge: 200 } })];
      expect((await one.verify({ key })).code).toBe("VALID");
      vi.setSystemTime(1_800_000_000_900);
      expect((await two.verify({ key })).code).toBe("VALID");
      await keyring.deleteKey({ keyId });
      vi.setSystemTime(1_800_000_000_999);
      expect([(await one.verify({ key })).code, (await two.verify({ key })).code]).toEqual(["VALID", "VALID"]);
      vi.setSystemTime(1_800_000_001_000);
      expect([(await one.verify({ key })).code, (await two.verify({ key })).code]).toEqual(["NOT_FOUND", "VALID"]);
      vi.setSystemTime(1_800_000_001_100);
      expect((await two.verify({ key })).code).toBe("NOT_FOUND");
    } finally {
      vi.useRealTimers();
    }
  });

  it("a result for one API, address or query is used for no other, and a guard's for no other call", async () => {
    const { keyring, stub, asked, apiId } = await world();
    const { key } = await keyring.createKey({ apiId, permissions: ["a"], ipAllowlist: ["192.0.2.7"] });
    const verifier = remoteVerifier(() => stub, { cache: { maxAge: 60_000 } });
    const clientAddress = "192.0.2.7";
    const code = async (context: object, body = {}) => (await verifier.verify({ key, ...body }, context)).code;
    expect(await code({ clientAddress, apiId }, { permissions: "a" })).toBe("VALID");
    expect(await code({ clientAddress, apiId: "api_other" }, { permissions: "a" })).toBe("NOT_FOUND");
    expect(await code({ clientAddress: "192.0.2.8", apiId }, { permissions: "a" })).toBe("FORBIDDEN");
    expect(await code({ apiId }, { permissions: "a" })).toBe("FORBIDDEN");
    expect(await code({ clientAddress, apiId }, { permissions: "b" })).toBe("INSUFFICIENT_PERMISSIONS");
    expect(await code({ clientAddress }, { permissions: "a" })).toBe("VALID");
    for (const none of [undefined, 5])
      await expect(code({ clientAddress, apiId: none }, { permissions: "a" })).rejects.toThrow(/context\.apiId/);
    const before = asked.length;
    const guarded = apiKey(verifier, { apiId, clientAddress: () => clientAddress }, (_, verified) =>
      Response.json(verified.can("a")),
    );
    const request = () => new Request("http://x/", { headers: { authorization: `Bearer ${key}` } });
    expect(await code({ clientAddress, apiId })).toBe("VALID");
    for (let i = 0; i < 2; i++) expect(await (await guarded(request())).json()).toBe(true);
    expect(asked.length - before).toBe(2);
  });

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
      for (const options of [{ idempotencyKey: "one" }, { idempotencyKey: "one" }])
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

describe("durableObjectStore", () => {
  it("a storage has one store, until it is closed, and one without SQLite is told", async () => {
    const storage = nodeStorage();
    const store = durableObjectStore(storage);
    expect(durableObjectStore(storage)).toBe(store);
    await store.close?.();
    const next = durableObjectStore(storage);
    expect(next).not.toBe(store);
    expect((await createKeyring(next).listApis()).data).toEqual([]);
    for (const open of [durableObjectStore, durableObjectLimiter]) {
      expect(() => open({ sql: storage.sql } as never)).toThrow(/^storage lacks the method transactionSync/);
      const { transactionSync } = storage;
      expect(() => open({ transactionSync, sql: {} } as never)).toThrow(/^storage\.sql lacks the method exec/);
    }
  });
});

describe("keystileObject: options", () => {
  const rootOf = async (keyring: ReturnType<typeof remoteKeyring>) =>
    (
      await keyring.createRootKey({
        permissions: ["api.*.verify_key", "ratelimit.*.limit", "ratelimit.*.create_namespace"],
      })
    ).key;
  const post = (path: string, key: string, body: object, headers = {}) =>
    new Request(`http://keys.test${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json", ...headers },
      body: JSON.stringify(body),
    });
  const dataOf = async (response: Response) => ((await response.json()) as { data: Record<string, unknown> }).data;

  it("workspaceId: keyring and verifier have that workspace alone", async () => {
    const { keyring, storage, stub, apiId } = await world({ workspaceId: "ws_one" });
    const { key } = await keyring.createKey({ apiId });
    expect(await keyring.getWorkspace()).toMatchObject({ id: "ws_one" });
    expect((await remoteVerifier(() => stub).verify({ key })).code).toBe("VALID");
    const other = createEngine(storage, { workspaceId: "ws_two" }, undefined);
    const beside: ObjectStub = { call: (operation, ...given) => other.call(operation, given) };
    expect((await remoteVerifier(() => beside).verify({ key })).code).toBe("NOT_FOUND");
  });

  it("audit: a trail, or none", async () => {
    const kept = await world();
    expect((await kept.keyring.listAudit()).data).toHaveLength(1);
    const none = await world({ audit: { rows: 0 } });
    await expect(none.keyring.listAudit()).rejects.toMatchObject({ code: "STORE_POWER_MISSING" });
  });

  it("limits of anything outlive the object, unless they are in memory", async () => {
    for (const [limits, again] of [
      ["durable", false],
      ["memory", true],
    ] as const) {
      const { keyring, storage, engine } = await world({ limits });
      const key = await rootOf(keyring);
      const limit = { namespace: "mail", identifier: "acme", limit: 1, duration: 60_000 };
      const ask = async (one: typeof engine) =>
        (await dataOf(await one.fetch(post("/v2/ratelimit.limit", key, limit))))["success"];
      expect([await ask(engine), await ask(engine)]).toEqual([true, false]);
      // What an object that begins anew has: its storage, and no store on it.
      Reflect.deleteProperty(storage, Symbol.for("keystile.durableObjectStore"));
      expect(await ask(createEngine(storage, { limits }, undefined))).toBe(again);
    }
  });

  it("the service sees the client's address as the platform sets it", async () => {
    const { keyring, engine, apiId } = await world();
    const { key } = await keyring.createKey({ apiId, ipAllowlist: ["192.0.2.7"] });
    const root = await rootOf(keyring);
    const code = async (headers: object) =>
      (await dataOf(await engine.fetch(post("/v2/keys.verifyKey", root, { key }, headers))))["code"];
    expect(await code({ "cf-connecting-ip": "192.0.2.7" })).toBe("VALID");
    expect(await code({ "x-forwarded-for": "192.0.2.7" })).toBe("FORBIDDEN");
  });

  it("mount: the longest path answers, made once; a promise is a mistake", async () => {
    let made = 0;
    const says = (text: string) => () => Promise.resolve(new Response(text));
    const mount = () => (made++, { "/a": says("a"), "/a/b": says("b") });
    const { engine } = await world({ mount });
    const at = async (path: string) => {
      const response = await engine.fetch(new Request(`http://keys.test${path}`));
      return response.status === 200 ? response.text() : response.status;
    };
    expect(await Promise.all(["/a", "/a/", "/a/c", "/a/b", "/a/b/c", "/ab"].map(at))).toEqual([
      ...["a", "a", "a", "b", "b"],
      404,
    ]);
    expect(made).toBe(1);
    const wrong = await world({ mount: (async () => ({})) as never });
    await expect(wrong.engine.fetch(new Request("http://keys.test/"))).rejects.toThrow(
      /^options\.mount must not return/,
    );
    for (const lost of [
      { console: says("") },
      { "/console/": says("") },
      { "/": says("") },
      { "/console": undefined },
      { "/a": "/b" },
    ]) {
      const { engine: mistaken } = await world({ mount: () => lost as never });
      await expect(mistaken.fetch(new Request("http://keys.test/console"))).rejects.toThrow(/options\.mount/);
    }
  });
});

describe("keystileObject: alarm", () => {
  it("is set by a request too, once, and one that is set already stays", async () => {
    const storage = nodeStorage();
    let looked = 0;
    const { getAlarm } = storage;
    storage.getAlarm = () => (looked++, getAlarm());
    const engine = createEngine(storage, { verifier: { analytics: true } }, undefined);
    for (let i = 0; i < 3; i++) await engine.fetch(new Request("http://keys.test/openapi.json"));
    await vi.waitFor(() => expect(storage.alarm()).not.toBeNull(), 20_000);
    expect(looked).toBe(1);
    await storage.setAlarm(5);
    const next = createEngine(storage, { verifier: { analytics: true } }, undefined);
    await next.call("listApis", [{}]);
    await vi.waitFor(() => expect(looked).toBe(2), 20_000);
    expect(storage.alarm()).toBe(5);
  });

  it("ends well where onError throws, which is told of deliveries that failed too", async () => {
    const told: unknown[] = [];
    const deliver = () => Promise.reject(new Error("the hook is down"));
    const onError = (error: unknown) => {
      told.push(error);
      throw new Error("made by the test");
    };
    const { keyring, storage, engine, apiId } = await world({ alerts: { creditsBelow: 10, deliver }, onError });
    await keyring.createKey({ apiId, credits: { remaining: 5 } });
    await engine.alarm();
    await vi.waitFor(() => expect(told).toHaveLength(1), 20_000);
    storage.sql.exec("DROP TABLE keystile_alerts");
    await engine.alarm();
    await vi.waitFor(() => expect(told).toHaveLength(2), 20_000);
  });

  it("comes after calls where there is something to do, writes counts, and is set anew by the next call", async () => {
    const none = await world();
    await vi.waitFor(() => expect(none.asked).toEqual(["createApi"]), 20_000);
    expect(none.storage.alarm()).toBeNull();

    const { keyring, storage, engine, stub, apiId } = await world({ verifier: { analytics: true }, interval: 5_000 });
    await vi.waitFor(() => expect(storage.alarm()).toBeGreaterThan(Date.now()), 20_000);
    const { key, keyId } = await keyring.createKey({ apiId });
    await remoteVerifier(() => stub).verify({ key });
    await storage.setAlarm(null as never);
    await engine.alarm();
    const counted = storage.sql.exec("SELECT sum(valid) AS n FROM keystile_outcomes_hour").toArray();
    expect(counted).not.toEqual([{ n: null }]);
    expect(storage.alarm()).toBeNull();
    expect((await keyring.getKey({ keyId })).lastUsedAt).toBeDefined();
    await vi.waitFor(() => expect(storage.alarm()).not.toBeNull(), 20_000);
  });

  it("that could not be set is set by the next call", async () => {
    const storage = nodeStorage();
    const { setAlarm } = storage;
    let refused = 0;
    storage.setAlarm = () => Promise.reject(new Error(`refused ${++refused} times`));
    const engine = createEngine(storage, { verifier: { analytics: true } }, undefined);
    await engine.call("createApi", [{ name: "documents" }]);
    await vi.waitFor(() => expect(refused).toBe(1), 20_000);
    storage.setAlarm = setAlarm;
    await engine.call("listApis", [{}]);
    await vi.waitFor(() => expect(storage.alarm()).toBeGreaterThan(Date.now()), 20_000);
  });

  it("storage that is full: STORE_FULL for what writes, VALID for what does not, and it goes on once there is space", async () => {
    const { keyring, storage, stub, apiId } = await world();
    const free = await keyring.createKey({ apiId });
    const paid = await keyring.createKey({ apiId, credits: { remaining: 9 } });
    const verifier = remoteVerifier(() => stub);
    // What the platform throws at its bound, as workerd words it.
    const { exec } = storage.sql;
    let isFull = true;
    storage.sql.exec = (query, ...values) => {
      if (isFull && /^\s*(INSERT|UPDATE|DELETE)/i.test(query)) throw new Error("database or disk is full: SQLITE_FULL");
      return exec(query, ...values);
    };
    await expect(verifier.verify({ key: paid.key })).rejects.toMatchObject({ code: "STORE_FULL" });
    await expect(keyring.createKey({ apiId })).rejects.toMatchObject({ code: "STORE_FULL" });
    expect((await verifier.verify({ key: free.key })).code).toBe("VALID");
    isFull = false;
    expect(await verifier.verify({ key: paid.key })).toMatchObject({ code: "VALID", credits: 8 });
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
