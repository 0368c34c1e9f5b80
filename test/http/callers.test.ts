/**
 * Who may do what over HTTP, and what the others learn: nothing. Contract 4.1-3, 4.1-4, 5.6, rulings B6, B7, F4, F5.
 */
import { createHash } from "node:crypto";
import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { describe, expect, it } from "vitest";
import { createHandler, createServer, signProxyToken } from "../../src/http/index.js";
import { OPERATIONS } from "../../src/http/operations/index.js";
import { createKeyring, createRatelimits, createVerifier, memoryStore } from "../../src/index.js";
import type { Parsed } from "./raw.js";
import { type Answer, EVERYTHING, JSON_TYPE, world, OF_ANYBODY } from "./support.js";

const hash = (text: string) => createHash("sha256").update(text).digest("hex");

describe("callers over HTTP: what is withdrawn while a body arrives", () => {
  /** A request whose body arrives once `meanwhile` has ended. */
  const late = (authorization: string, name: string, body: object, meanwhile: () => Promise<unknown>) =>
    new Request(`http://keys.test/v2/${name}`, {
      method: "POST",
      headers: { authorization, ...JSON_TYPE },
      body: new ReadableStream<Uint8Array>({
        async pull(controller) {
          await meanwhile();
          controller.enqueue(new TextEncoder().encode(JSON.stringify(body)));
          controller.close();
        },
      }),
      duplex: "half",
    });

  it.each([
    ["the root key was deleted", 401],
    ["its permission was taken", 403],
    ["nothing was", 200],
  ] as const)("%s: %i", async (what, status) => {
    const { store, keyring, apiId } = await world();
    const { key, rootKeyId } = await keyring.createRootKey({ permissions: ["api.*.create_key"] });
    const act = {
      "the root key was deleted": () => keyring.deleteRootKey({ rootKeyId }),
      "its permission was taken": () => keyring.updateRootKey({ rootKeyId, permissions: ["api.*.read_api"] }),
      "nothing was": () => Promise.resolve({}),
    }[what];
    const handler = createHandler(store);
    const response = await handler(late(`Bearer ${key}`, "keys.createKey", { apiId }, act));
    expect(response.status).toBe(status);
    expect((await keyring.listKeys({ apiId })).data).toHaveLength(status === 200 ? 1 : 0);
    await handler.close();
  });

  it("a proxy token that ends while the body is on its way does not act", async () => {
    const { store, keyring, apiId } = await world();
    const proxyTokens = { issuer: "dashboard", audience: "keystile", keys: [{ secret: "0123456789abcdef".repeat(2) }] };
    const time = { now: Date.now() };
    const clock = () => time.now;
    const claims = { subject: "user_1", workspaceId: "ws_default", permissions: ["api.*.create_key"] };
    const token = await signProxyToken(claims, { ...proxyTokens, clock });
    const handler = createHandler(store, { clock, authentication: { proxyTokens } });
    const ask = async (meanwhile: () => Promise<unknown>) =>
      (await handler(late(`Bearer ${token}`, "keys.createKey", { apiId }, meanwhile))).status;
    expect(await ask(async () => undefined)).toBe(200);
    expect([await ask(async () => (time.now += 61_000)), (await keyring.listKeys({ apiId })).data.length]).toEqual([
      401, 1,
    ]);
    await handler.close();
  });

  it("over a socket as well, by a client that waits for 100 Continue", async () => {
    const { store, keyring, apiId } = await world();
    const { key, rootKeyId } = await keyring.createRootKey({ permissions: ["api.*.create_key"] });
    const server = createServer(store);
    const { url } = await server.listen();
    const asking = request(`${url}/v2/keys.createKey`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, ...JSON_TYPE, expect: "100-continue" },
    });
    asking.flushHeaders();
    await once(asking, "continue");
    await keyring.deleteRootKey({ rootKeyId });
    asking.end(JSON.stringify({ apiId }));
    const [response] = (await once(asking, "response")) as [IncomingMessage];
    response.resume();
    expect(response.statusCode).toBe(401);
    expect((await keyring.listKeys({ apiId })).data).toEqual([]);
    await server.close();
  });
});

describe("callers over HTTP: verification", () => {
  it("contract 4.1-3: a key of another API looks like none, byte for byte, and nothing is consumed", async () => {
    const { keyring, apiId, create, rootKeyOf, close } = await world();
    const { apiId: other } = await keyring.createApi({ name: "other" });
    const { key, keyId } = await create({
      credits: { remaining: 5 },
      ratelimits: [{ name: "minute", limit: 1, duration: 60_000, autoApply: true }],
    });
    const forms = [
      `api.${other}.verify_key`,
      `svc:v1:ws_default:keyspaces/${other}/keys/*#verify_key`,
      `svc:v1:ws_default:keyspaces/${apiId}/keys/key_x#verify_key`,
    ];
    for (const form of forms) {
      const call = await rootKeyOf(form);
      for (const extra of [{}, { permissions: "a.b", ratelimits: [{ name: "minute" }], credits: { cost: 2 } }]) {
        const [there, nowhere] = [
          await call("keys.verifyKey", { key, ...extra }),
          await call("keys.verifyKey", { key: "nobody's", ...extra }),
        ];
        expect([there.status, there.body.data]).toEqual([200, { valid: false, code: "NOT_FOUND" }]);
        expect(there.text.replace(there.body.meta.requestId, "")).toBe(
          nowhere.text.replace(nowhere.body.meta.requestId, ""),
        );
      }
    }
    expect((await keyring.getKey({ keyId })).credits?.remaining).toBe(5);
    for (const form of [
      "api.*.verify_key",
      `api.${apiId}.verify_key`,
      "svc:v1:ws_default:keyspaces/*/keys/*#verify_key",
    ])
      expect(
        (
          await (
            await rootKeyOf(form)
          )("keys.verifyKey", { key, credits: { cost: 0 }, ratelimits: [{ name: "minute", cost: 0 }] })
        ).body.data.code,
      ).toBe("VALID");
    await close();
  });

  it("contract 4.1-4: no verify permission at all is a 403, whatever the body holds", async () => {
    const { rootKeyOf, create, close } = await world();
    const { key } = await create();
    for (const granted of [["api.*.read_key"], ["svc:v1:ws_default:keyspaces/*#verify_key", "api.*.create_key"], []]) {
      const call = granted.length === 0 ? await rootKeyOf() : await rootKeyOf(granted.at(-1)!);
      const answer = await call("keys.verifyKey", { key });
      expect([answer.status, answer.body.data]).toEqual([403, undefined]);
      expect((await call("keys.verifyKey", {})).status).toBe(403);
    }
    await close();
  });

  it("a caller without any grant is refused before its headers and its body are validated, by every operation", async () => {
    const { keyring, send, close } = await world();
    const { key } = await keyring.createRootKey({ permissions: [] });
    const told = async (name: string, headers: Record<string, string>, body: string) => {
      const { status, body: answer } = await send(`/v2/${name}`, {
        method: "POST",
        headers: { ...JSON_TYPE, authorization: `Bearer ${key}`, ...headers },
        body,
      });
      return [status, answer.error?.detail];
    };
    for (const { name, headers = {} } of Object.values(OPERATIONS)) {
      if (OF_ANYBODY.includes(name)) continue;
      const malformed = Object.fromEntries(Object.keys(headers).map((header) => [header, '"a", "b"']));
      const plain = await told(name, {}, "{}");
      expect([name, plain[0]]).toEqual([name, 403]);
      for (const body of ["{}", "5", '{"nonsense":1}'])
        expect([name, await told(name, malformed, body)]).toEqual([name, plain]);
    }
    await close();
  });
});

describe("callers over HTTP: administration", () => {
  const same = (a: Answer, b: Answer) => {
    expect(a.status).toBe(b.status);
    expect(a.body.error).toEqual(b.body.error);
  };

  it("a key of an API that is none of the caller's is the 404 of a key that is not there, for every operation that names one", async () => {
    const { keyring, apiId, create, rootKeyOf, close } = await world();
    const { apiId: mine } = await keyring.createApi({ name: "mine" });
    const { key, keyId } = await create();
    const before = await keyring.getKey({ keyId });
    const bodies: [string, object][] = [
      ["keys.getKey", { keyId }],
      ["keys.whoami", { key }],
      ["keys.updateKey", { keyId, name: "taken" }],
      ["keys.updateCredits", { keyId, operation: "set", value: 1 }],
      ["keys.deleteKey", { keyId }],
      ["keys.deleteKey", { keyId, permanent: true }],
      ["keys.rerollKey", { keyId, expiration: 0 }],
      ["keys.addPermissions", { keyId, permissions: ["a.b"] }],
      ["keys.removePermissions", { keyId, permissions: ["a.b"] }],
      ["keys.setPermissions", { keyId, permissions: [] }],
      ["keys.addRoles", { keyId, roles: ["r"] }],
      ["keys.removeRoles", { keyId, roles: ["r"] }],
      ["keys.setRoles", { keyId, roles: [] }],
    ];
    const actions = ["read_key", "update_key", "delete_key", "create_key"];
    const call = await rootKeyOf(...actions.map((action) => `api.${mine}.${action}`));
    for (const [name, body] of bodies) {
      const there = await call(name, body);
      expect(there.status, name).toBe(404);
      same(there, await call(name, { ...body, ...("key" in body ? { key: "nobody's" } : { keyId: "key_nobodys" }) }));
    }
    expect(await keyring.getKey({ keyId })).toEqual(before);
    expect((await keyring.listPermissions()).data).toEqual([]);
    for (const [name, body] of [
      ["apis.getApi", { apiId }],
      ["keys.listKeys", { apiId }],
      ["keys.createKey", { apiId }],
    ] as const)
      same(await call(name, body), await call(name, { ...body, apiId: "api_nowhere" }));
    await close();
  });

  it("a grant for one key reaches that key alone", async () => {
    const { create, apiId, rootKeyOf, close } = await world();
    const [one, two] = [await create(), await create()];
    const call = await rootKeyOf(`svc:v1:ws_default:keyspaces/${apiId}/keys/${one.keyId}#read_key`);
    expect((await call("keys.getKey", { keyId: one.keyId })).status).toBe(200);
    expect((await call("keys.getKey", { keyId: two.keyId })).status).toBe(404);
    expect((await call("keys.whoami", { key: one.key })).status).toBe(200);
    expect((await call("keys.listKeys", { apiId })).status).toBe(403);
    await close();
  });

  it("a deleted key is shown to whoever asks for it and may read it, with who deleted it and when", async () => {
    const { create, apiId, rootKeyOf, keyring, time, close } = await world();
    const { keyId, key } = await create();
    const call = await rootKeyOf("api.*.delete_key", "api.*.read_key", "api.*.read_api");
    const blind = await rootKeyOf("api.api_other.read_key");
    await call("keys.deleteKey", { keyId });
    const { data: rootKeys } = await keyring.listRootKeys();
    const deletedBy = rootKeys.find(({ permissions }) => permissions.length === 3)!.rootKeyId;
    for (const [name, body] of [
      ["keys.getKey", { keyId }],
      ["keys.whoami", { key }],
    ] as const) {
      for (const more of [{}, { includeDeleted: false }])
        expect((await call(name, { ...body, ...more })).status, name).toBe(404);
      const asked = { ...body, includeDeleted: true };
      expect((await blind(name, asked)).status, name).toBe(404);
      const { status, body: shown } = await call(name, asked);
      expect([status, shown.data], name).toEqual([
        200,
        expect.objectContaining({ keyId, deletedAt: time.now, deletedBy }),
      ]);
    }
    const found = await call("keys.searchKeys", { state: "deleted", apiId });
    expect(found.body.data).toEqual([
      expect.objectContaining({ keyId, state: "deleted", deletedAt: time.now, deletedBy }),
    ]);
    const told = await call("keys.explainKey", { keyId });
    expect(told.body.data).toEqual({
      ...{ passes: false, refusal: "NOT_FOUND", checks: [] },
      ...{ keyId, apiId, deleted: true, deletedAt: time.now, deletedBy },
    });
    expect((await blind("keys.explainKey", { keyId })).status).toBe(404);
    await close();
  });

  it("nothing of another workspace is seen, and a root key acts in its own", async () => {
    const { store, create, clock, as, apiId, close } = await world();
    const { key, keyId } = await create();
    const theirs = createKeyring(store, { workspaceId: "ws_other", clock });
    const call = as((await theirs.createRootKey({ permissions: EVERYTHING })).key);
    expect((await call("keys.verifyKey", { key })).body.data).toEqual({ valid: false, code: "NOT_FOUND" });
    expect((await call("keys.getKey", { keyId })).status).toBe(404);
    expect((await call("keys.whoami", { key })).status).toBe(404);
    expect((await call("apis.getApi", { apiId })).status).toBe(404);
    const { body } = await call("apis.createApi", { name: "theirs" });
    expect((await theirs.getApi({ apiId: body.data.apiId })).name).toBe("theirs");
    await close();
  });

  it("a role with permissions takes the right to add them, and to make those that are new", async () => {
    const { keyring, rootKeyOf, close } = await world();
    await keyring.createPermission({ name: "known", slug: "known" });
    const role = (name: string, ...permissions: string[]) => ({ name, permissions });
    const bare = await rootKeyOf("rbac.*.create_role");
    expect((await bare("permissions.createRole", { name: "empty" })).status).toBe(200);
    expect((await bare("permissions.createRole", role("one", "known"))).status).toBe(403);
    const adding = await rootKeyOf("rbac.*.create_role", "rbac.*.add_permission_to_role");
    expect((await adding("permissions.createRole", role("two", "known"))).status).toBe(200);
    expect((await adding("permissions.createRole", role("three", "known", "new"))).status).toBe(403);
    expect((await adding("permissions.setRolePermissions", { roleId: "two", permissions: [] })).status).toBe(403);
    const both = await rootKeyOf("rbac.*.add_permission_to_role", "rbac.*.remove_permission_from_role");
    expect((await both("permissions.setRolePermissions", { roleId: "two", permissions: [] })).status).toBe(200);
    expect((await both("permissions.setRolePermissions", { roleId: "two", permissions: ["new"] })).status).toBe(403);
    expect((await keyring.listPermissions()).data).toHaveLength(1);
    await close();
  });

  it("an import makes the permissions that it names, by create_key alone, up to a thousand in a request", async () => {
    const { keyring, apiId, rootKeyOf, close } = await world();
    const { migrationId } = await keyring.createMigration({ algorithm: "sha256" });
    const importing = await rootKeyOf("api.*.create_key");
    const keys = (count: number) =>
      Array.from({ length: count / 100 }, (_, i) => ({
        hash: hash(`${count}.${i}`),
        permissions: Array.from({ length: 100 }, (_, j) => `p.${i}.${j}`),
      }));
    const over = keys(1_000).concat({ hash: hash("one more"), permissions: ["p.one_more"] });
    const refused = await importing("keys.migrateKeys", { migrationId, apiId, keys: over });
    expect([refused.status, refused.body.error.errors[0].location]).toEqual([400, "body.keys"]);
    expect((await keyring.listPermissions()).data).toEqual([]);
    const taken = await importing("keys.migrateKeys", { migrationId, apiId, keys: keys(1_000) });
    expect([taken.status, taken.body.data.migrated.length]).toEqual([200, 10]);
    const again = await importing("keys.migrateKeys", { migrationId, apiId, keys: over.slice(10) });
    expect([again.status, again.body.data.failed]).toEqual([200, []]);
    await close();
  });

  it("a namespace is made by who may make one; who may use one only learns nothing of others", async () => {
    const { call, rootKeyOf, close } = await world();
    const body = { namespace: "mail", identifier: "u", limit: 1, duration: 1_000 };
    const bare = await rootKeyOf("ratelimit.*.limit");
    const refused = await bare("ratelimit.limit", body);
    expect([refused.status, refused.body.error.detail]).toEqual([
      403,
      expect.stringMatching(/takes one of: ratelimit\.\*\.create_namespace$/),
    ]);
    expect((await call("ratelimit.limit", body)).status).toBe(200);
    expect((await bare("ratelimit.limit", body)).body.data.success).toBe(false);
    const narrow = await rootKeyOf("ratelimit.ns_other.limit");
    same(await narrow("ratelimit.limit", body), await narrow("ratelimit.limit", { ...body, namespace: "nowhere" }));
    expect((await narrow("ratelimit.limit", body)).status).toBe(403);
    await close();
  });
});

describe("callers over HTTP: the workspace's requests", () => {
  it("is a 429 with its own content type, Retry-After and RateLimit headers; nothing is verified; time brings it back", async () => {
    const { call, create, keyring, time, send, close } = await world({ requestLimit: { limit: 2, duration: 60_000 } });
    const { key, keyId } = await create({ credits: { remaining: 10 } });
    const first = await call("keys.verifyKey", { key });
    expect([first.status, first.headers.get("ratelimit-limit"), first.headers.get("ratelimit-remaining")]).toEqual([
      200,
      "2",
      "1",
    ]);
    expect((await call("keys.verifyKey", {})).status).toBe(400);
    const refused = await call("keys.verifyKey", { key });
    expect(refused.status).toBe(429);
    expect(refused.headers.get("content-type")).toBe("application/problem+json");
    expect(
      ["retry-after", "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"].map((name) =>
        refused.headers.get(name),
      ),
    ).toEqual(["30", "2", "0", "60"]);
    expect(refused.body.error).toMatchObject({ title: "Too Many Requests", status: 429 });
    expect((await keyring.getKey({ keyId })).credits?.remaining).toBe(9);
    expect(
      (await send("/v2/keys.verifyKey", { method: "POST", headers: JSON_TYPE, body: "{}" })).status,
      "nobody's calls count for nobody",
    ).toBe(401);
    // A refused call takes nothing, and what has come back since shortens the wait.
    time.now += 12_500;
    expect((await call("keys.verifyKey", { key })).headers.get("retry-after")).toBe("18");
    time.now += 17_500;
    expect((await call("keys.verifyKey", { key })).body.data.code).toBe("VALID");
    await close();
  });
});

describe("callers over HTTP: a service made of parts", () => {
  it("serves the keyring's workspace alone; a root key of another is an unknown one; the parts stay open", async () => {
    const store = memoryStore();
    const keyring = createKeyring(store, { workspaceId: "ws_mine" });
    const other = createKeyring(store, { workspaceId: "ws_other" });
    const verifier = createVerifier(store);
    const server = createServer({ verifier, keyring, ratelimits: createRatelimits(store, { workspaceId: "ws_mine" }) });
    const { url } = await server.listen();
    const ask = async (rootKey: string) => {
      const headers = { authorization: `Bearer ${rootKey}`, ...JSON_TYPE };
      const response = await fetch(`${url}/v2/keys.verifyKey`, { method: "POST", headers, body: '{"key":"k"}' });
      return [response.status, ((await response.json()) as Parsed).error?.detail];
    };
    const mine = await keyring.createRootKey({ permissions: EVERYTHING });
    const theirs = await other.createRootKey({ permissions: EVERYTHING });
    expect(await ask(mine.key)).toEqual([200, undefined]);
    expect(await ask(theirs.key)).toEqual(await ask("nobody"));
    await server.close();
    expect((await verifier.verify({ key: "k" })).code).toBe("NOT_FOUND");
  });

  it("with options.workspaceId a store serves that workspace alone", async () => {
    const { as, store, clock, close } = await world({ workspaceId: "ws_default" });
    const theirs = await createKeyring(store, { workspaceId: "ws_other", clock }).createRootKey({
      permissions: EVERYTHING,
    });
    expect((await as(theirs.key)("apis.createApi", { name: "abc" })).status).toBe(401);
    await close();
  });

  it("a pending key adopts its digest for who may see it, and for nobody else", async () => {
    const { keyring, apiId, call, rootKeyOf, close } = await world();
    const { migrationId } = await keyring.createMigration({ algorithm: "prefixed-api-key" });
    await keyring.migrateKeys({ migrationId, apiId, keys: [{ hash: hash("secret") }] });
    const key = "old_short_secret";
    const stranger = await rootKeyOf("api.api_other.verify_key");
    expect((await stranger("keys.verifyKey", { key, migrationId })).body.data.code).toBe("NOT_FOUND");
    expect((await call("keys.verifyKey", { key })).body.data.code).toBe("NOT_FOUND");
    expect((await call("keys.verifyKey", { key, migrationId })).body.data.code).toBe("VALID");
    expect((await call("keys.verifyKey", { key })).body.data.code).toBe("VALID");
    await close();
  });
});
