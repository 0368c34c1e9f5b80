/** What operators see: log lines, counts, faults; and that no secret is in any of it. */
import { describe, expect, it } from "vitest";
import { KeystileError } from "../../src/contracts/errors.js";
import type { Store } from "../../src/contracts/store.js";
import { memoryLimiter, memoryStore } from "../../src/index.js";
import { HOSTS, JSON_TYPE, world } from "./support.js";

const FIELDS = [
  "time",
  "requestId",
  "method",
  "operation",
  "status",
  "code",
  "ms",
  "workspaceId",
  "rootKeyId",
  "keyId",
];

describe.each(HOSTS)("log lines and metrics on the %s host", (host) => {
  it("one line of JSON a request, with these fields and the requestId of the answer", async () => {
    const lines: string[] = [];
    const { call, send, create, close, time } = await world({ host, log: (line) => lines.push(line) });
    const { key, keyId } = await create();
    const answers = [
      await call("keys.verifyKey", { key }),
      await call("keys.verifyKey", {}),
      await send("/v2/keys.getKey"),
      await send("/nowhere"),
    ];
    await close();
    const logged = lines.map((line) => JSON.parse(line));
    expect(logged.map(({ requestId }) => requestId)).toEqual(answers.map(({ headers }) => headers.get("x-request-id")));
    for (const line of logged) expect(Object.keys(line).filter((name) => !FIELDS.includes(name))).toEqual([]);
    expect(logged).toMatchObject([
      {
        time: time.now,
        method: "POST",
        operation: "keys.verifyKey",
        status: 200,
        code: "VALID",
        workspaceId: "ws_default",
        keyId,
      },
      { operation: "keys.verifyKey", status: 400, code: "BAD_REQUEST" },
      { method: "GET", operation: "keys.getKey", status: 405, code: "METHOD_NOT_ALLOWED" },
      { operation: "unknown", status: 404 },
    ]);
  });

  it("a line warns of a time in seconds, which the contract takes", async () => {
    const lines: string[] = [];
    const { call, create, close } = await world({ host, log: (line) => lines.push(line) });
    const { keyId } = await create();
    expect((await call("keys.updateKey", { keyId, expires: 1_900_000_000 })).status).toBe(200);
    expect((await call("keys.updateKey", { keyId, expires: 1_900_000_000_000 })).status).toBe(200);
    await close();
    expect(lines.slice(-2).map((line) => JSON.parse(line).warning)).toEqual([
      "expires must be in milliseconds, not seconds",
      undefined,
    ]);
  });

  it("counts of the limiter of namespaces are shown if it is the service's own, and not those of an unused one", async () => {
    const own = await world({ host, metrics: true });
    expect((await own.send("/metrics")).text).toContain(
      'keystile_limiter_newcomers_refused_total{limits="namespaces"} 0',
    );
    await own.close();
    const limiter = memoryLimiter();
    const given = await world({ host, metrics: true, verifier: { limiter } });
    const { text } = await given.send("/metrics");
    expect(text).toContain('keystile_limiter_newcomers_refused_total{limits="keys"} 0');
    expect(text).not.toContain('limits="namespaces"');
    await given.close();
    limiter.close();
  });

  it("S12: a line names the root key of its caller, once it is known, and no caller that is none", async () => {
    const lines: string[] = [];
    const { keyring, call, send, close } = await world({ host, log: (line) => lines.push(line) });
    const { rootKeyId } = (await keyring.listRootKeys()).data[0]!;
    await call("keys.verifyKey", { key: "unknown" });
    await call("keys.verifyKey", {});
    await send("/v2/keys.verifyKey", {
      method: "POST",
      headers: { authorization: "Bearer root_nobody", ...JSON_TYPE },
    });
    await close();
    expect(lines.map((line) => JSON.parse(line).rootKeyId)).toEqual([rootKeyId, rootKeyId, undefined]);
  });

  it("canaries in every place of a request are in no line, no count and no error", async () => {
    const canary = (n: number) => `CANARY${n}secret`;
    const lines: string[] = [];
    const faults: unknown[] = [];
    const { send, authorization, rootKey, create, call, close } = await world({
      host,
      log: (line) => lines.push(line),
      metrics: true,
      onError: (error) => faults.push(error),
    });
    const { key } = await create({ name: canary(0) });
    const answers = [
      await send(`/v2/keys.verifyKey?x=${canary(1)}`, {
        method: "POST",
        headers: { authorization, ...JSON_TYPE, "x-y": canary(2) },
        body: JSON.stringify({ key: canary(3), tags: [canary(4)] }),
      }),
      await send(`/v2/${canary(5)}`, {
        method: "POST",
        headers: { authorization: `Bearer ${canary(6)}`, "user-agent": canary(7) },
        body: canary(8),
      }),
      await send("/v2/keys.verifyKey", {
        method: "POST",
        headers: { authorization: `Bearer ${canary(9)}`, ...JSON_TYPE },
        body: canary(10),
      }),
      await send("/v2/keys.verifyKey", {
        method: "POST",
        headers: { authorization, "content-type": canary(11) },
        body: canary(12),
      }),
      await send("/v2/keys.verifyKey", {
        method: "POST",
        headers: { authorization, ...JSON_TYPE },
        body: `{"${canary(13)}":1`,
      }),
      await call("keys.verifyKey", { key: canary(14), [`${canary(15)}${canary(16)}`]: 1, permissions: 5 }),
      await call("keys.verifyKey", { key, migrationId: canary(17) }),
      await call("keys.getKey", { keyId: canary(18) }),
      await call("keys.whoami", { key: canary(19) }),
      ...(host === "fetch" ? [await send("/v2/keys.verifyKey", { method: canary(20) })] : []),
    ];
    const counts = (await send("/metrics")).text;
    await close();
    for (const line of [...lines, counts]) expect(line).not.toMatch(/CANARY|root_/);
    for (const { body, text } of answers) if (body.error !== undefined) expect(text).not.toMatch(/CANARY|root_/);
    for (const text of [...lines, counts, ...answers.map((answer) => answer.text)])
      for (const secret of [key, rootKey]) expect(text).not.toContain(secret);
    expect(faults).toEqual([]);
  });

  it("metrics count by operation, status, outcome and time, and are not there unless asked for", async () => {
    const { call, send, create, close } = await world({ host, metrics: true });
    const { key } = await create();
    for (let i = 0; i < 3; i++) await call("keys.verifyKey", { key });
    await call("keys.verifyKey", { key: "unknown" });
    await call("keys.verifyKey", {});
    const { text, headers } = await send("/metrics");
    expect(headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
    expect(text).toContain('keystile_requests_total{operation="keys.verifyKey",status="200"} 4\n');
    expect(text).toContain('keystile_requests_total{operation="keys.verifyKey",status="400"} 1\n');
    expect(text).toContain('keystile_verifications_total{code="VALID"} 3\n');
    expect(text).toContain('keystile_verifications_total{code="NOT_FOUND"} 1\n');
    expect(text).toContain("keystile_credits_forfeited_total 0\n");
    expect(text).toContain("keystile_requests_in_flight 1\n");
    expect(text).toContain('keystile_request_duration_seconds_bucket{operation="keys.verifyKey",le="+Inf"} 5\n');
    for (const line of text.trimEnd().split("\n"))
      expect(line).toMatch(/^(# (HELP|TYPE) \w+ .+|\w+(\{[a-zA-Z]+="[^"]*"(,[a-z]+="[^"]*")*\})? [\d.e+-]+)$/);
    await close();
  });
});

describe("faults of the server", () => {
  const failing = (error: () => unknown): Store => {
    const inner = memoryStore();
    const fail = (): never => {
      throw error();
    };
    return {
      ...inner,
      findKey: fail,
      readMany: (table, ids) => (ids.includes("liveness") ? fail() : inner.readMany(table, ids)),
    };
  };

  it.each([
    ["STORE_BUSY", 503, "application/store_busy"],
    ["STORE_FAILED", 500, "application/store_failed"],
    ["LIMITER_UNAVAILABLE", 503, "application/limiter_unavailable"],
  ] as const)(
    "%s is a %i of its type that says nothing of the cause; the program is told",
    async (code, status, type) => {
      const faults: [unknown, object][] = [];
      const error = new KeystileError(code, "CANARY: /var/lib/keys.db is broken");
      const { call, send, close } = await world({
        store: failing(() => error),
        onError: (...told) => faults.push(told),
      });
      const answers = [await call("keys.verifyKey", { key: "k" }), await send("/v2/liveness")];
      for (const answer of answers) {
        expect([answer.status, answer.body.error.type]).toEqual([status, expect.stringMatching(`/errors/${type}$`)]);
        expect(answer.text).not.toMatch(/CANARY|keys\.db|stack/);
        expect(answer.headers.get("retry-after")).toBe(status === 503 ? "1" : null);
      }
      expect(faults).toEqual(answers.map(({ body }) => [error, { requestId: body.meta.requestId }]));
      await close();
    },
  );

  it("anything else that is thrown is a bare 500, and listeners that throw change nothing", async () => {
    const thrown: unknown[] = [new TypeError("CANARY"), "CANARY", undefined, null, { status: 200, message: "CANARY" }];
    let next = 0;
    const broken = (): never => {
      throw new Error("a listener of the program");
    };
    const { call, close } = await world({ store: failing(() => thrown[next]), log: broken, onError: broken });
    for (; next < thrown.length; next++) {
      const { status, body, text } = await call("keys.verifyKey", { key: "k" });
      expect([status, body.error.title, body.error.type]).toEqual([
        500,
        "Internal Server Error",
        expect.stringMatching(/\/errors\/application\/internal$/),
      ]);
      expect(text).not.toContain("CANARY");
    }
    await close();
  });

  it.each(HOSTS)("async listeners that reject end nothing: %s host", async (host) => {
    const rejections: unknown[] = [];
    const collect = (reason: unknown) => void rejections.push(reason);
    process.on("unhandledRejection", collect);
    let told = 0;
    const broken: () => unknown = () => {
      told++;
      return Promise.reject(new Error("a listener of the program"));
    };
    const { call, close } = await world({ host, store: failing(() => new Error("x")), log: broken, onError: broken });
    for (let i = 0; i < 3; i++) expect((await call("keys.verifyKey", { key: "k" })).status).toBe(500);
    await close();
    // Node tells of unhandled rejections once its queue of microtasks is empty.
    await new Promise((resolve) => setImmediate(resolve));
    process.off("unhandledRejection", collect);
    expect([told, rejections]).toEqual([6, []]);
  });
});
