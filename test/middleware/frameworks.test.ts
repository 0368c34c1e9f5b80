/** The same promises in every framework, tried on the framework itself. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  createKeyring,
  createVerifier,
  type Keyring,
  memoryStore,
  type Store,
  type Verifier,
} from "../../src/index.js";
import { type AnyOptions, type App, type Bed, BEDS } from "./beds.js";

const START = 1_700_000_000_000;

describe.each(BEDS)("middleware: $name", (bed: Bed) => {
  let now: number;
  let store: Store;
  let keyring: Keyring;
  let verifier: Verifier;
  let apiId: string;
  const apps: App[] = [];
  const errors: unknown[] = [];

  beforeEach(async () => {
    now = START;
    store = memoryStore();
    const clock = () => now;
    keyring = createKeyring(store, { clock });
    verifier = createVerifier(store, { clock });
    ({ apiId } = await keyring.createApi({ name: "documents" }));
  });
  afterEach(async () => {
    await Promise.all(apps.splice(0).map((app) => app.close()));
    errors.length = 0;
  });

  const start = async (options: AnyOptions = {}, inner?: AnyOptions): Promise<App> => {
    const app = await bed.start(verifier, { onError: (error) => errors.push(error), ...options }, inner);
    apps.push(app);
    return app;
  };
  const createKey = async (given: object = {}) => keyring.createKey({ apiId, ...given });
  const bearer = (key: string) => ({ authorization: `Bearer ${key}` });
  /** Status, challenge and code of a refusal, after its form was looked at. */
  const refusalOf = async (response: Response, shown: object = {}) => {
    const body = (await response.json()) as Record<string, unknown>;
    if (bed.hasBody) {
      expect(response.headers.get("content-type")).toMatch(/^application\/problem\+json/);
      expect(body).toEqual({
        type: "about:blank",
        title: expect.any(String) as string,
        status: response.status,
        detail: expect.any(String) as string,
        code: expect.any(String) as string,
        ...shown,
      });
    }
    return [response.status, response.headers.get("www-authenticate"), ...(bed.hasBody ? [body["code"]] : [])];
  };
  const refusal = (status: number, challenge: string | null, code: string) =>
    bed.hasBody ? [status, challenge, code] : [status, challenge];
  const INVALID = 'Bearer error="invalid_token"';

  it("a valid key passes, from Authorization or x-api-key, and the handler knows it", async () => {
    const { key, keyId } = await createKey();
    const app = await start();
    for (const headers of [bearer(key), { authorization: `bEaReR  ${key}` }, { "x-api-key": key }]) {
      const response = await app.call(headers);
      expect([response.status, await response.json()]).toEqual([200, { keyId }]);
    }
    // Another scheme is no credential of ours.
    expect((await app.call({ authorization: "Basic eDp5", "x-api-key": key })).status).toBe(200);
  });

  it("a handler asks for more permissions, which takes nothing", async () => {
    const app = await start({ permissions: "documents.read" });
    for (const [write, told] of [
      ["documents.*", { mayWrite: true }],
      ["documents.read.all", {}],
    ] as const) {
      const permissions = ["documents.read", write];
      const { key, keyId } = await createKey({ permissions, credits: { remaining: 5 } });
      expect(await (await app.call(bearer(key))).json()).toEqual({ keyId, ...told });
      expect((await verifier.verify({ key, credits: { cost: 0 } })).credits).toBe(4);
    }
  });

  it("a key of another API than `apiId` looks unknown, and is not charged", async () => {
    const other = await keyring.createApi({ name: "billing" });
    const { key } = await createKey({ credits: { remaining: 5 } });
    const [mine, theirs] = [await start({ apiId }), await start({ apiId: other.apiId })];
    expect(await refusalOf(await theirs.call(bearer(key)))).toEqual(
      refusal(401, 'Bearer error="invalid_token"', "KEY_INVALID"),
    );
    expect((await mine.call(bearer(key))).status).toBe(200);
    expect((await verifier.verify({ key, credits: { cost: 0 } })).credits).toBe(4);
  });

  it("without a credential: 401 with a plain challenge", async () => {
    const app = await start();
    const missing = refusal(401, "Bearer", "KEY_MISSING");
    expect(await refusalOf(await app.call())).toEqual(missing);
    expect(await refusalOf(await app.call({ authorization: "Basic eDp5" }))).toEqual(missing);
    expect(await refusalOf(await app.call({ "x-api-key": " " }))).toEqual(missing);
  });

  it("unknown, disabled, expired, too long and malformed keys look alike, and none is the program's mistake", async () => {
    const disabled = await createKey({ enabled: false });
    const expired = await createKey({ expires: START + 1 });
    now += 2;
    const { key } = await createKey();
    const app = await start();
    const sent = [
      "nobody",
      disabled.key,
      expired.key,
      "x".repeat(513),
      "x".repeat(2_000),
      "",
      `${key} ${key}`,
      `${key},${key}`,
    ];
    const told = await Promise.all(sent.map(async (text) => refusalOf(await app.call(bearer(text)))));
    expect(told).toEqual(sent.map(() => refusal(401, INVALID, "KEY_INVALID")));
    // The first match counts: a second header does not rescue it.
    expect((await app.call({ ...bearer("nobody"), "x-api-key": key })).status).toBe(401);
    expect(errors).toEqual([]);
  });

  it("with `reveal` they are told apart", async () => {
    const { key } = await createKey({ enabled: false });
    const app = await start({ reveal: true });
    expect(await refusalOf(await app.call(bearer(key)))).toEqual(refusal(401, INVALID, "DISABLED"));
    expect(await refusalOf(await app.call(bearer("nobody")))).toEqual(refusal(401, INVALID, "NOT_FOUND"));
  });

  it("a missing permission is 403 insufficient_scope, which names it by option alone", async () => {
    const { key } = await createKey({ permissions: ["documents.read"] });
    const query = "documents.read AND (billing.view OR documents.read AND admin)";
    const plain = await start({ permissions: query });
    const code = "INSUFFICIENT_PERMISSIONS";
    const challenge = 'Bearer error="insufficient_scope"';
    expect(await refusalOf(await plain.call(bearer(key)))).toEqual(refusal(403, challenge, code));
    const told = await start({ permissions: () => query, scope: true });
    const scope = `${challenge}, scope="documents.read billing.view admin"`;
    expect(await refusalOf(await told.call(bearer(key)))).toEqual(refusal(403, scope, code));
    const open = await start({ permissions: "documents.read" });
    expect((await open.call(bearer(key))).status).toBe(200);
  });

  it("an address outside the allow-list is 403", async () => {
    const { key } = await createKey({ ipAllowlist: ["10.0.0.1"] });
    const app = await start();
    expect(await refusalOf(await app.call(bearer(key)))).toEqual(refusal(403, null, "FORBIDDEN"));
    const inside = await start({ clientAddress: () => "10.0.0.1" });
    expect((await inside.call(bearer(key))).status).toBe(200);
  });

  it("a rate limit is 429 with the exact time to wait, and every answer tells the state of the limits", async () => {
    const ratelimits = [{ name: 'the "requests"', limit: 5, duration: 60_000, autoApply: true }];
    const { key } = await createKey({ ratelimits });
    const app = await start();
    const first = await app.call(bearer(key));
    expect(first.headers.get("ratelimit-policy")).toBe('"the \\"requests\\"";q=5;w=60');
    expect(first.headers.get("ratelimit")).toBe('"the \\"requests\\"";r=4;t=12');
    for (let i = 0; i < 4; i++) expect((await app.call(bearer(key))).status).toBe(200);
    now += 1_500;
    const refused = await app.call(bearer(key));
    // Full in 58.5 s, but one token is back in 10.5.
    expect(refused.headers.get("ratelimit")).toBe('"the \\"requests\\"";r=0;t=59');
    expect(refused.headers.get("retry-after")).toBe("11");
    expect(refused.headers.get("x-ratelimit-limit")).toBe(null);
    expect(await refusalOf(refused)).toEqual(refusal(429, null, "RATE_LIMITED"));
    now += 10_499;
    expect((await app.call(bearer(key))).status).toBe(429);
    now += 1;
    expect((await app.call(bearer(key))).status).toBe(200);
  });

  it("a cost that no limit holds has no Retry-After", async () => {
    const { key } = await createKey();
    const app = await start({ ratelimits: [{ name: "exports", limit: 5, duration: 60_000, cost: 6 }] });
    const refused = await app.call(bearer(key));
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, null]);
  });

  it("too few credits is 429, or 402 by option", async () => {
    const { key } = await createKey({ credits: { remaining: 3 } });
    const app = await start({ cost: async () => 2 });
    expect((await app.call(bearer(key))).status).toBe(200);
    const refused = await app.call(bearer(key));
    expect(refused.headers.get("retry-after")).toBe(null);
    expect(await refusalOf(refused)).toEqual(refusal(429, null, "USAGE_EXCEEDED"));
    const unpaid = await start({ cost: 2, usageExceeded: 402 });
    expect((await unpaid.call(bearer(key))).status).toBe(402);
  });

  it("too few credits where a refill is known: when it comes, and what is left", async () => {
    const refill = { interval: "daily", amount: 10 } as const;
    const { key } = await createKey({ credits: { remaining: 1, refill } });
    const app = await start({ cost: 2 });
    const refused = await app.call(bearer(key));
    const wait = Math.ceil((86_400_000 - (now % 86_400_000)) / 1_000);
    expect(refused.headers.get("retry-after")).toBe(`${wait}`);
    expect(await refusalOf(refused, { credits: 1 })).toEqual(refusal(429, null, "USAGE_EXCEEDED"));
  });

  it("what the program got wrong is 500: the reason goes to the log, and nothing of it to the client", async () => {
    const { key } = await createKey();
    const secret = () => {
      throw new Error("secret reason");
    };
    const mistakes: AnyOptions[] = [
      { ratelimits: [{ name: "unknown" }] },
      { permissions: () => "documents.read AND" },
      { permissions: secret },
      { permissions: () => undefined as never },
      { ratelimits: () => undefined as never },
      { cost: secret },
      { cost: () => -1 },
      { tags: () => [""] },
      { ratelimits: () => [{ name: "x" }] },
      { keyFrom: secret },
      { keyFrom: () => 1 as never },
      { clientAddress: secret },
    ];
    for (const options of mistakes) {
      errors.length = 0;
      const app = await start(options);
      const response = await app.call(bearer(key));
      const text = await response.clone().text();
      expect(await refusalOf(response)).toEqual(refusal(500, null, "INTERNAL"));
      expect(text).not.toMatch(/secret|documents|unknown|body\./);
      expect(errors).toHaveLength(1);
    }
  });

  it("no shared cache gives a response to another caller", async () => {
    const { key } = await createKey();
    const app = await start();
    const passed = await app.call({ "x-api-key": key });
    const refused = await app.call({ "x-api-key": "nobody" });
    const fields = (response: Response) => ["vary", "cache-control"].map((name) => response.headers.get(name));
    expect(fields(passed)).toEqual([expect.stringMatching(/authorization, x-api-key$/), "private"]);
    expect(fields(refused)).toEqual([expect.stringMatching(/authorization, x-api-key$/), "no-store"]);
    const elsewhere = await start({ keyFrom: ["X-Token"] });
    expect((await elsewhere.call({ "x-token": key })).headers.get("vary")).toMatch(/x-token$/);
  });

  it("a store that fails is 503, never a pass", async () => {
    const { key } = await createKey();
    const failing = createVerifier(
      new Proxy(store, {
        get: (target, name) =>
          name === "findKey" ? () => Promise.reject(new Error("secret: disk on fire")) : Reflect.get(target, name),
      }),
    );
    const app = await bed.start(failing, { onError: (error) => errors.push(error) });
    apps.push(app);
    const response = await app.call(bearer(key));
    expect(await response.clone().text()).not.toContain("secret");
    expect(response.headers.get("retry-after")).toBe("1");
    expect(await refusalOf(response)).toEqual(refusal(503, null, "UNAVAILABLE"));
    expect(errors).toHaveLength(1);
    await verifier.close();
    const closed = await start();
    expect((await closed.call(bearer(key))).status).toBe(503);
  });

  it("mistakes in options throw when the route is built", async () => {
    const mistakes: [AnyOptions, RegExp][] = [
      [{ permissions: "documents.read AND" }, /^options\.permissions: /],
      [{ ratelimits: [{ name: "x" }] }, /^options\.ratelimits\[0\]\.name: /],
      [{ tags: [""] }, /^options\.tags\[0\]: /],
      [{ cost: -1 }, /^options\.cost must/],
      [{ keyFrom: ["bad name"] }, /^options\.keyFrom must/],
      [{ apiId: "" }, /^options\.apiId must/],
      [{ usageExceeded: 200 as never }, /^options\.usageExceeded must/],
      [{ permission: "documents.read" } as never, /^options\.permission is not an option/],
    ];
    for (const [options, message] of mistakes) await expect(bed.start(verifier, options)).rejects.toThrow(message);
  });

  it("a JWT is refused, and with `skipJwt` goes on to the next guard without a key", async () => {
    const jwt = bearer("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl");
    const { key, keyId } = await createKey();
    const strict = await start();
    expect((await strict.call(jwt)).status).toBe(401);
    const lenient = await start({ skipJwt: true });
    expect(await (await lenient.call(jwt)).json()).toEqual({ keyId: null });
    expect(await (await lenient.call({ ...jwt, "x-api-key": key })).json()).toEqual({ keyId });
    for (const headers of [{}, bearer("nobody"), bearer(""), { ...jwt, "x-api-key": "nobody" }])
      expect((await lenient.call(headers)).status).toBe(401);
  });

  describe("two guards", () => {
    const limited = {
      credits: { remaining: 100 },
      permissions: ["documents.read"],
      ratelimits: [{ name: "requests", limit: 10, duration: 60_000, autoApply: true }],
    };
    /** Credits and tokens left, read without taking any. */
    const left = async (key: string) => {
      const ratelimits = [
        { name: "requests", cost: 0 },
        { name: "exports", limit: 4, duration: 60_000, cost: 0 },
      ];
      const result = await verifier.verify({ key, credits: { cost: 0 }, ratelimits });
      return [result.credits, ...(result.ratelimits ?? []).map(({ remaining }) => remaining)];
    };

    it("take once what both ask for", async () => {
      const { key, keyId } = await createKey(limited);
      const exports = [{ name: "exports", limit: 4, duration: 60_000, cost: 3 }];
      const app = await start({ cost: 2 }, { permissions: "documents.read", cost: 5, ratelimits: exports });
      const response = await app.call(bearer(key));
      expect([response.status, await response.json()]).toEqual([200, { keyId }]);
      expect(await left(key)).toEqual([95, 9, 1]);
    });

    it("a limit that both name is taken at the higher cost; another size of it is checked in full", async () => {
      const { key } = await createKey(limited);
      const exports = { name: "exports", limit: 4, duration: 60_000 };
      const app = await start({ ratelimits: [exports] }, { ratelimits: [{ ...exports, cost: 2 }] });
      await app.call(bearer(key));
      expect(await left(key)).toEqual([99, 9, 2]);
      const twice = await start({ ratelimits: [exports] }, { ratelimits: [exports, exports] });
      const { key: another } = await createKey(limited);
      await twice.call(bearer(another));
      expect(await left(another)).toEqual([99, 9, 2]);
      const strict = await start({}, { ratelimits: [{ name: "requests", limit: 1, duration: 60_000 }] });
      expect((await strict.call(bearer(key))).status).toBe(429);
    });

    it("the inner one may refuse: merged ones have taken nothing by then, others what the outer one takes", async () => {
      const { key } = await createKey(limited);
      const app = await start({ cost: 2 }, { permissions: "billing.view" });
      expect((await app.call(bearer(key))).status).toBe(403);
      expect(await left(key)).toEqual(bed.merges ? [100, 10, 4] : [98, 9, 4]);
    });

    it("a query can't break out of the outer one's", async () => {
      const { key } = await createKey(limited);
      const app = await start(
        { permissions: "billing.view" },
        { permissions: () => "documents.write) OR (documents.read" },
      );
      expect((await app.call(bearer(key))).status).toBe(bed.merges ? 500 : 403);
      const or = await start({ permissions: "billing.view" }, { permissions: "documents.write OR documents.read" });
      expect((await or.call(bearer(key))).status).toBe(403);
    });

    it("an automatic limit that is removed between them is gone, and those that stay are taken once", async () => {
      const [requests] = limited.ratelimits;
      const more = ["first", "second"].map((name) => ({ ...requests!, name }));
      const { key, keyId } = await createKey({ ...limited, ratelimits: [more[0]!, requests!, more[1]!] });
      const remove = async () => {
        await keyring.updateKey({ keyId, ratelimits: limited.ratelimits });
        return ["removed"];
      };
      const exports = [{ name: "exports", limit: 4, duration: 60_000, cost: 3 }];
      const app = await start({}, { tags: remove, ratelimits: exports });
      const response = await app.call(bearer(key));
      expect([response.status, await response.json()]).toEqual([200, { keyId }]);
      expect(await left(key)).toEqual([99, 9, 1]);
      expect(errors).toEqual([]);
    });

    it("each request is charged", async () => {
      const { key } = await createKey(limited);
      const app = await start({}, {});
      await app.call(bearer(key));
      await app.call(bearer(key));
      expect(await left(key)).toEqual([98, 8, 4]);
    });
  });
});
