/**
 * The rows of hostile-inputs.json that speak of HTTP, on both hosts, by their ids. Rows of raw connections and of
 * tokens have files of their own.
 */
import { createHash } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Answer, HOSTS, JSON_TYPE, type World, world } from "./support.js";

const hash = (text: string) => createHash("sha256").update(text).digest("hex");
const NOT_FOUND = { valid: false, code: "NOT_FOUND" };
const locations = ({ body }: Answer): string[] =>
  body.error.errors.map((problem: { location: string }) => problem.location);

describe.each(HOSTS)("hostile rows over HTTP on the %s host", (host) => {
  let w: World;
  let key: string;
  let keyId: string;
  beforeAll(async () => {
    w = await world({ host });
    ({ key, keyId } = await w.create({ credits: { remaining: 1_000 }, permissions: ["a.b"] }));
  });
  afterAll(() => w.close());

  const verify = (body: unknown) => w.call("keys.verifyKey", body);
  const post = (body: string | Uint8Array, headers: Record<string, string> = {}) =>
    w.send("/v2/keys.verifyKey", {
      method: "POST",
      headers: { authorization: w.authorization, ...JSON_TYPE, ...headers },
      body,
    });
  const badAt = async (body: unknown, ...expected: string[]) => {
    const answer = await verify(body);
    expect(answer.status, JSON.stringify(body).slice(0, 100)).toBe(400);
    expect(locations(answer)).toEqual(expected);
  };
  const balance = async () => (await w.keyring.getKey({ keyId })).credits?.remaining;

  it("A001: a body that is no object is a 400 at body, and nothing is deducted", async () => {
    const before = await balance();
    for (const body of ["null", "[]", '"x"', "1", "true"]) expect(locations(await post(body)), body).toEqual(["body"]);
    for (const name of ["keys.migrateKeys", "keys.createKey", "ratelimit.multiLimit"])
      expect(locations(await w.call(name, null)), name).toEqual(["body"]);
    expect(await balance()).toBe(before);
  });

  it("A003, A013: an unknown property is a 400 at its place, constructor and __proto__ too, and changes nothing", async () => {
    await badAt({ key: "k", apiId: "api_1" }, "body.apiId");
    await badAt({ key: "k", constructor: { prototype: { valid: true } } }, "body.constructor");
    expect(locations(await post('{"key":"k","__proto__":{"valid":true}}'))).toEqual(["body.__proto__"]);
    expect(({} as { valid?: unknown }).valid).toBeUndefined();
  });

  it("A005: a key that is missing or no text is a 400 at body.key, without coercion", async () => {
    for (const bad of [undefined, null, 123, ["k"], {}]) await badAt({ key: bad }, "body.key");
  });

  it("A007: lengths count code points", async () => {
    expect((await verify({ key: "😀".repeat(512) })).body.data).toEqual(NOT_FOUND);
    await badAt({ key: "😀".repeat(513) }, "body.key");
  });

  it("A009: a key with NUL is not found; name, externalId and meta with NUL are a 400 at migration", async () => {
    expect((await verify({ key: "a\0b" })).body.data).toEqual(NOT_FOUND);
    const { migrationId } = await w.keyring.createMigration({ algorithm: "sha256" });
    for (const [field, value] of Object.entries({ name: "a\0", externalId: "a\0", meta: { a: "\0" } })) {
      const answer = await w.call("keys.migrateKeys", {
        migrationId,
        apiId: w.apiId,
        keys: [{ hash: hash("n"), [field]: value }],
      });
      expect([answer.status, locations(answer)]).toEqual([400, [`body.keys[0].${field}`]]);
    }
  });

  it("A011: of a name that comes twice the last value is the one that is checked, charged and told", async () => {
    const before = (await balance())!;
    const { body } = await post(
      `{"key":"nobody's","key":${JSON.stringify(key)},"credits":{"cost":1000000},"credits":{"cost":2}}`,
    );
    expect(body.data).toMatchObject({ code: "VALID", credits: before - 2 });
    expect(await balance()).toBe(before - 2);
  });

  it("A017: a million nested arrays stall nobody", async () => {
    const close = await world({ host, maxBodyBytes: 32 << 20, memoryBudget: 4 * 2 ** 30 });
    const headers = { authorization: close.authorization, ...JSON_TYPE };
    for (const body of [`{"key":${"[".repeat(1e6)}`, "[".repeat(1e6) + "]".repeat(1e6), '{"a":'.repeat(1e6)]) {
      const bytes = new TextEncoder().encode(body);
      const answer = await close.send("/v2/keys.verifyKey", { method: "POST", headers, body: bytes });
      expect([answer.status, locations(answer)]).toEqual([400, ["body"]]);
      expect(answer.body.error.detail, "it was counted, not parsed").toBe(
        "body: must be nested at most 64 levels deep",
      );
    }
    await close.close();
    for (const body of ["[".repeat(1e6) + "]".repeat(1e6), "[".repeat(5e6) + "]".repeat(5e6)])
      expect((await post(body)).status).toBe(413);
  });

  it("A017, a control: brackets inside texts are no levels, and 64 levels are none too many for the parser", async () => {
    const padding = "[".repeat(5_000) + '\\"'.repeat(100);
    expect(
      (await post(`{"key":"k","tags":["${padding.slice(0, 400)}"],"permissions":"${"a".repeat(5_000)}"}`)).status,
    ).toBe(400);
    const { migrationId } = await w.keyring.createMigration({ algorithm: "sha256" });
    const deep = (levels: number): object => (levels === 1 ? { text: "[[[[".repeat(2_000) } : { a: deep(levels - 1) });
    const send = (levels: number) =>
      w.call("keys.migrateKeys", {
        migrationId,
        apiId: w.apiId,
        keys: [{ hash: hash(`deep ${levels}`), meta: deep(levels) }],
      });
    expect((await send(32)).body.data.migrated).toHaveLength(1);
    expect(locations(await send(33))).toEqual(["body.keys[0].meta"]);
  });

  it("A019: an encoded body is a 415, and nothing is decompressed", async () => {
    for (const encoding of ["gzip", "deflate", "br", "x-gzip", "identity, gzip"])
      expect((await post("x", { "content-encoding": encoding })).status, encoding).toBe(415);
    expect((await post(JSON.stringify({ key: "k" }), { "content-encoding": "identity" })).status).toBe(200);
  });

  it("a body of another type or charset is a 415; parameters that say nothing of the bytes are ignored", async () => {
    const body = JSON.stringify({ key: "k" });
    const types = [
      "text/plain",
      "application/x-www-form-urlencoded",
      "application/json2",
      "application/problem+json",
      "json",
      "text/json",
    ];
    for (const type of [
      ...types,
      "application/json; charset=latin1",
      "application/json; charset = utf-8",
      'application/json; charset="utf-16"',
    ])
      expect((await post(body, { "content-type": type })).status, type).toBe(415);
    for (const type of [
      "APPLICATION/JSON",
      "application/json;",
      'application/json; charset="UTF-8"',
      'application/json; profile="a,b"',
      "application/json;charset=utf8",
      "application/json; v=2",
    ])
      expect((await post(body, { "content-type": type })).status, type).toBe(200);
    const headers = { authorization: w.authorization };
    const none = await w.send("/v2/keys.verifyKey", { method: "POST", headers, body: new TextEncoder().encode(body) });
    expect(none.status, "no type at all").toBe(415);
  });

  it("A021: bytes that are no UTF-8, a byte order mark inside, an empty body and half a body are a 400 at body", async () => {
    const text = JSON.stringify({ key: "k" });
    const bytes = (...parts: (number[] | string)[]) =>
      Uint8Array.from(parts.flatMap((part) => [...(typeof part === "string" ? Buffer.from(part) : part)]));
    const bad = [
      bytes([0xef, 0xbb, 0xbf, 0xef, 0xbb, 0xbf], text),
      bytes('{"key":"', [0xff], '"}'),
      bytes('{"key":"', [0xed, 0xa0, 0x80], '"}'),
      bytes([0xc0, 0x80]),
    ];
    for (const body of [
      ...bad,
      "",
      "{",
      `{"key":"${"a".repeat(5_000)}`,
      '{"key":"k"} x',
      "{'key':'k'}",
      "NaN",
      "undefined",
    ])
      expect(locations(await post(body))).toEqual(["body"]);
    expect((await post(bytes([0xef, 0xbb, 0xbf], text))).status, "a byte order mark at the start").toBe(200);
    expect(locations(await post('{"key":"\\ud800"}')), "a lone surrogate by escape").toEqual(["body.key"]);
    expect((await post(` \r\n\t${text}\n`)).status).toBe(200);
  });

  it("A023: other methods on a path of an operation are a 405 with Allow, and nothing is verified", async () => {
    const before = await balance();
    for (const method of ["GET", "PUT", "HEAD", "OPTIONS", "DELETE", "PATCH"]) {
      const headers = { authorization: w.authorization, ...JSON_TYPE };
      const answer = await w
        .send("/v2/keys.verifyKey", {
          method,
          headers,
          ...(!["GET", "HEAD"].includes(method) && { body: JSON.stringify({ key }) }),
        })
        .catch((error: unknown) => {
          if (method !== "HEAD") throw error;
          return { status: 405, headers: new Headers({ allow: "POST" }) };
        });
      expect([answer.status, answer.headers.get("allow")], method).toEqual([405, "POST"]);
      expect(answer.headers.get("access-control-allow-origin"), "no CORS").toBeNull();
    }
    expect((await w.send("/v2/liveness", { method: "POST" })).headers.get("allow")).toBe("GET, HEAD");
    expect(await balance()).toBe(before);
  });

  it("A023: every other path is a 404: case, slashes, dots, encodings, prefixes", async () => {
    for (const path of [
      "/",
      "/v2",
      "/v2/",
      "/v2/keys.verifyKey/",
      "/V2/keys.verifyKey",
      "/v2/keys.verifykey",
      "/v2/keys%2EverifyKey",
      "/v2//keys.verifyKey",
      "/v1/keys.verifyKey",
      "/v2/constructor",
      "/v2/__proto__",
      "/v2/keys.verifyKey.x",
      "/docs//",
      "/docs/errors/",
      "/metrics",
      "/v2/analytics.getVerification",
    ]) {
      const { status, body } = await w.send(path, {
        method: "POST",
        headers: { authorization: w.authorization, ...JSON_TYPE },
        body: "{}",
      });
      expect([status, body.error.title], path).toEqual([404, "Not Found"]);
    }
  });

  it("A025: the query string is ignored: no key and no credential comes from there", async () => {
    const headers = { authorization: w.authorization, ...JSON_TYPE };
    const ask = (query: string, over: Record<string, string>) =>
      w.send(`/v2/keys.verifyKey?${query}`, {
        method: "POST",
        headers: over,
        body: JSON.stringify({ key: "unknown" }),
      });
    expect((await ask(`key=${key}`, headers)).body.data).toEqual(NOT_FOUND);
    expect((await ask(`access_token=${w.rootKey}`, JSON_TYPE)).status).toBe(401);
  });

  it("A029: credits that are no object with a cost", async () => {
    await badAt({ key: "k", credits: null }, "body.credits");
    await badAt({ key: "k", credits: [] }, "body.credits");
    await badAt({ key: "k", credits: {} }, "body.credits.cost");
  });

  it("A031: a cost that is no integer in bounds, 1e400 and 2^53 + 1 included; 1.0 is 1", async () => {
    for (const cost of ["1.5", '"1"', "true", "null", "[1]", "1e400", "9007199254740993", "-1", "1000000000001"])
      expect(locations(await post(`{"key":"k","credits":{"cost":${cost}}}`)), cost).toEqual(["body.credits.cost"]);
    expect((await post('{"key":"k","credits":{"cost":1.0}}')).status).toBe(200);
  });

  it("A037, A039: credits and times of an import", async () => {
    const { migrationId } = await w.keyring.createMigration({ algorithm: "sha256" });
    const send = (field: string) =>
      w.send("/v2/keys.migrateKeys", {
        method: "POST",
        headers: { authorization: w.authorization, ...JSON_TYPE },
        body: `{"migrationId":"${migrationId}","apiId":"${w.apiId}","keys":[{"hash":"${hash(field)}",${field}}]}`,
      });
    for (const remaining of ["-1", "1.5", '"5"', "9007199254740992", "1e400"])
      expect(locations(await send(`"credits":{"remaining":${remaining}}`)), remaining).toEqual([
        "body.keys[0].credits.remaining",
      ]);
    expect((await send('"credits":{"remaining":null}')).body.data.failed).toEqual([]);
    for (const expires of ["-1", "8640000000000001", "1e16", "NaN"])
      expect((await send(`"expires":${expires}`)).status, expires).toBe(400);
    for (const expires of ["1700000000", "0", "8640000000000000"])
      expect((await send(`"expires":${expires}`)).body.data.migrated, expires).toHaveLength(1);
  });

  it("A041: tags change neither the outcome nor the deduction", async () => {
    for (const tags of [undefined, [], ["a=b"], Array.from({ length: 20 }, () => "😀".repeat(512))]) {
      const before = (await balance())!;
      expect((await verify({ key, ...(tags && { tags }) })).body.data).toMatchObject({
        code: "VALID",
        credits: before - 1,
      });
    }
    await badAt({ key, tags: Array.from({ length: 21 }, () => "a") }, "body.tags");
  });

  it("A047, A049: a faulty query is a 400 at body.permissions of its own type, whether the key exists or not", async () => {
    for (const permissions of ["", "a".repeat(1_001), 5, null]) await badAt({ key, permissions }, "body.permissions");
    const long = `${"a".repeat(496)} OR ${"b".repeat(500)}`;
    expect((await verify({ key, permissions: long })).body.data.code).toBe("INSUFFICIENT_PERMISSIONS");
    const [known, unknown] = [
      await verify({ key, permissions: "a AND" }),
      await verify({ key: "unknown", permissions: "a AND" }),
    ];
    expect(known.body.error).toEqual(unknown.body.error);
    expect(known.body.error).toMatchObject({
      status: 400,
      errors: [{ location: "body.permissions", fix: expect.any(String) }],
    });
    expect(known.body.error.type).toMatch(/\/errors\/user\/bad_request\/permissions_query_syntax_error$/);
  });

  it("A063: the caller comes first: nothing of a body is validated or revealed to an unknown caller", async () => {
    for (const headers of [
      JSON_TYPE,
      { ...JSON_TYPE, authorization: "Bearer nobody" },
      { "content-type": "text/html" },
    ]) {
      const answer = await w.send("/v2/keys.verifyKey", { method: "POST", headers, body: '{"canary":' });
      expect([answer.status, answer.headers.get("www-authenticate")]).toEqual([401, "Bearer"]);
      expect(answer.text).not.toContain("canary");
    }
    const large = await w.send("/v2/keys.verifyKey", { method: "POST", headers: JSON_TYPE, body: "x".repeat(2 << 20) });
    expect(large.status).toBe(401);
  });

  it("A069, A071, A075: the header's form decides what is missing and what is malformed", async () => {
    const typeOf = async (authorization?: string) => {
      const headers = { ...JSON_TYPE, ...(authorization !== undefined && { authorization }) };
      const { status, body } = await w.send("/v2/keys.verifyKey", {
        method: "POST",
        headers,
        body: JSON.stringify({ key }),
      });
      return [status, body.error?.type.split("/errors/")[1] ?? body.data.code];
    };
    const missing = [401, "keystile/authentication/missing"];
    const malformed = [401, "keystile/authentication/malformed"];
    expect(await typeOf()).toEqual(missing);
    expect(await typeOf("")).toEqual(missing);
    for (const bad of [
      "Bearer",
      "Bearer ",
      w.rootKey,
      `Basic ${w.rootKey}`,
      `Bearer ${w.rootKey} x`,
      `Bearer é${w.rootKey}`,
      `Bearer,${w.rootKey}`,
    ])
      expect(await typeOf(bad), bad.replace(w.rootKey, "…")).toEqual(malformed);
    for (const good of [`bearer ${w.rootKey}`, `BEARER ${w.rootKey}`, `BeArEr   ${w.rootKey} `])
      expect(await typeOf(good)).toEqual([200, "VALID"]);
  });

  it("A077: an ordinary key, a disabled, expired, deleted and a random root key answer alike", async () => {
    const { keyring } = w;
    const disabled = await keyring.createRootKey({ permissions: ["api.*.verify_key"] });
    await keyring.updateRootKey({ rootKeyId: disabled.rootKeyId, enabled: false });
    const expired = await keyring.createRootKey({ permissions: ["api.*.verify_key"], expires: w.time.now - 1 });
    const deleted = await keyring.createRootKey({ permissions: ["api.*.verify_key"] });
    expect((await w.as(deleted.key)("keys.verifyKey", { key })).status).toBe(200);
    await keyring.deleteRootKey({ rootKeyId: deleted.rootKeyId });
    const bodies = new Set<string>();
    for (const credential of [key, disabled.key, expired.key, deleted.key, "root_2VfUsSLDxXbVYNyMuJ5EGZ"]) {
      const { status, body } = await w.as(credential)("keys.verifyKey", { key });
      expect(status).toBe(401);
      bodies.add(JSON.stringify(body.error));
    }
    expect(bodies.size).toBe(1);
    expect([...bodies][0]).toContain("/errors/keystile/authentication/key_not_found");
    expect((await verify({ key: w.rootKey })).body.data, "a root key is no key").toEqual(NOT_FOUND);
  });

  it("A085: migrating takes create_key on that API", async () => {
    const { migrationId } = await w.keyring.createMigration({ algorithm: "sha256" });
    const body = { migrationId, apiId: w.apiId, keys: [{ hash: hash("A085") }] };
    for (const granted of ["api.*.verify_key", "api.api_other.create_key"])
      expect((await (await w.rootKeyOf(granted))("keys.migrateKeys", body)).status, granted).toBe(403);
    expect(
      (await (await w.rootKeyOf(`api.${w.apiId}.create_key`))("keys.migrateKeys", body)).body.data.migrated,
    ).toHaveLength(1);
  });

  it("A167, A169: what cannot go in is in failed, and the others verify", async () => {
    const { migrationId } = await w.keyring.createMigration({ algorithm: "sha256" });
    const one = (text: string, over: object = {}) => ({ hash: hash(text), ...over });
    await w.call("keys.migrateKeys", { migrationId, apiId: w.apiId, keys: [one("there")] });
    const keys = [
      ...Array.from({ length: 97 }, (_, i) => one(`k${i}`)),
      one("there"),
      one("k0"),
      one("wild", { permissions: ["documents.*"] }),
    ];
    const { body } = await w.call("keys.migrateKeys", {
      migrationId,
      apiId: w.apiId,
      keys: [...keys, one("no role", { roles: ["nobody's"] })],
    });
    expect(body.data.migrated).toHaveLength(98);
    expect(body.data.failed).toEqual([hash("there"), hash("k0"), hash("no role")]);
    expect((await verify({ key: "wild", permissions: "documents.a.b" })).body.data.code).toBe("VALID");
  });

  it("A171: meta nested 10,000 deep is a 400", async () => {
    const { migrationId } = await w.keyring.createMigration({ algorithm: "sha256" });
    const meta = `${'{"a":'.repeat(10_000)}1${"}".repeat(10_000)}`;
    const body = `{"migrationId":"${migrationId}","apiId":"${w.apiId}","keys":[{"hash":"${hash("deep")}","meta":${meta}}]}`;
    const headers = { authorization: w.authorization, ...JSON_TYPE };
    expect((await w.send("/v2/keys.migrateKeys", { method: "POST", headers, body })).status).toBe(400);
  });

  it("A179: migration ids: 256 characters, 257, unknown, of another workspace", async () => {
    expect((await verify({ key: "k", migrationId: "m".repeat(256) })).body.data).toEqual(NOT_FOUND);
    await badAt({ key: "k", migrationId: "m".repeat(257) }, "body.migrationId");
    expect((await verify({ key: "k", migrationId: "unknown" })).body.data).toEqual(NOT_FOUND);
  });

  it("A197: requestIds are distinct and of one form", async () => {
    const answers = await Promise.all(Array.from({ length: 500 }, () => w.send("/v2/liveness")));
    const ids = answers.map(({ body }) => body.meta.requestId as string);
    expect(new Set(ids).size).toBe(500);
    for (const id of ids) expect(id).toMatch(/^req_[A-Za-z0-9_-]{16,}$/);
  });
});
