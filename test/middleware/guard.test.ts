/** The guard as `keystile/web` exports it, and what it hands over: the key that can be asked for permissions. */
import fc from "fast-check";
import { beforeEach, describe, expect, expectTypeOf, it, vi } from "vitest";
import type { VerificationResult } from "../../src/contracts/types.js";
import {
  createKeyring,
  createVerifier,
  type Keyring,
  memoryStore,
  type Store,
  type Verifier,
} from "../../src/index.js";
import {
  apiKey,
  type ApiKeyOptions,
  createGuard,
  type Decision,
  type Guard,
  headersOf,
  type KeyRequirement,
  type KeyVerifier,
  setHeaders,
  toResponse,
  type VerifiedKey,
} from "../../src/middleware/web.js";

interface Call {
  readonly tool: string;
}

let store: Store;
let keyring: Keyring;
let verifier: Verifier;
let apiId: string;
beforeEach(async () => {
  store = memoryStore();
  keyring = createKeyring(store);
  verifier = createVerifier(store);
  ({ apiId } = await keyring.createApi({ name: "documents" }));
});

const incoming = (key: string, tool = "search") => ({
  request: { tool },
  memory: {},
  header: headersOf({ "x-api-key": key }),
});
const check = (guard: Guard<Call>, key: string, inner?: () => readonly KeyRequirement<Call>[]) =>
  guard.check(incoming(key), inner);
const codeOf = (decision: Decision) => (decision.outcome === "refuse" ? decision.refusal.code : decision.outcome);
const left = async (key: string) => (await verifier.verify({ key, credits: { cost: 0 } })).credits;
/** The key that a guard hands over. */
async function handedOver(by: KeyVerifier, key: string, options?: ApiKeyOptions<Call>): Promise<VerifiedKey> {
  const decision = await check(createGuard<Call>(by, options), key);
  if (decision.outcome !== "pass") throw new Error(codeOf(decision));
  return decision.apiKey;
}

describe("createGuard", () => {
  it("passes with key and headers, skips a JWT, and refuses with status, headers and body", async () => {
    const ratelimits = [{ name: "requests", limit: 3, duration: 60_000, autoApply: true }];
    const { key, keyId } = await keyring.createKey({ apiId, ratelimits });
    const guard = createGuard<Call>(verifier, { apiId, skipJwt: true });
    expect(await check(guard, key)).toEqual({
      outcome: "pass",
      apiKey: expect.objectContaining({ valid: true, code: "VALID", keyId }),
      headers: {
        Vary: "authorization, x-api-key",
        "Cache-Control": "private",
        "RateLimit-Policy": '"requests";q=3;w=60',
        RateLimit: expect.stringMatching(/^"requests";r=2;t=\d+$/),
      },
    });
    const jwt = headersOf({ authorization: "Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln" });
    expect(await guard.check({ ...incoming(key), header: jwt })).toEqual({ outcome: "skip" });
    const decision = await check(guard, "nobody");
    if (decision.outcome !== "refuse") throw new Error("it passed");
    expect(decision).toMatchObject({
      refusal: { code: "KEY_INVALID", status: 401, title: "Unauthorized" },
      rendered: { type: "application/problem+json" },
      headers: { "WWW-Authenticate": 'Bearer error="invalid_token"', Vary: "authorization, x-api-key" },
    });
    const response = toResponse(decision);
    expect([response.status, response.headers.get("content-type"), await response.text()]).toEqual([
      401,
      "application/problem+json",
      decision.rendered.body,
    ]);
  });

  it("an option that narrows and is undefined is a TypeError, and so is what is no verifier", () => {
    for (const name of ["apiId", "permissions", "ratelimits"])
      expect(() => createGuard(verifier, { [name]: undefined })).toThrow(
        new TypeError(`options.${name} is undefined: give it a value, or leave it out`),
      );
    expect(() => createGuard({} as KeyVerifier)).toThrow(new TypeError("verifier lacks the method verify()"));
  });

  it("an object that stands for several requests is charged once, and a new one each time", async () => {
    const { key } = await keyring.createKey({ apiId, credits: { remaining: 10 } });
    const guard = createGuard<Call>(verifier);
    const one = incoming(key);
    for (let i = 0; i < 2; i++) expect(codeOf(await guard.check(one))).toBe("pass");
    expect(await left(key)).toBe(9);
    expect(codeOf(await guard.check({ ...one, memory: {} }))).toBe("pass");
    expect(await left(key)).toBe(8);
  });

  it("requirements of a route are merged before anything is taken; functions of theirs get the request", async () => {
    const { key } = await keyring.createKey({ apiId, permissions: ["tools.search"], credits: { remaining: 10 } });
    const guard = createGuard<Call>(verifier, { apiId, cost: 0 });
    const inner = () => [{ cost: 4, permissions: ({ tool }: Call) => `tools.${tool}` }];
    expect(codeOf(await guard.check(incoming(key, "purge"), inner))).toBe("INSUFFICIENT_PERMISSIONS");
    expect(await left(key)).toBe(10);
    expect(codeOf(await guard.check(incoming(key), inner))).toBe("pass");
    expect(await left(key)).toBe(6);
  });

  it.each<[object, RegExp]>([
    [{ permissions: undefined }, /^requirement\.permissions is undefined/],
    [{ permission: "documents.read" }, /^requirement\.permission is not an option/],
    [{ cost: -1 }, /^requirement\.cost must be from 0/],
  ])("a requirement of a route that is not valid, %j, is a 500 that takes nothing", async (given, message) => {
    const { key } = await keyring.createKey({ apiId, credits: { remaining: 10 } });
    const errors: Error[] = [];
    const guard = createGuard<Call>(verifier, { onError: (error) => errors.push(error as Error) });
    expect(codeOf(await check(guard, key, () => [given]))).toBe("INTERNAL");
    expect(errors.map((error) => error.message)).toEqual([expect.stringMatching(message)]);
    expect(await left(key)).toBe(10);
  });
});

describe("setHeaders", () => {
  it("takes an empty text for a header that was not set, as Koa returns it", () => {
    const headers = new Map<string, string>();
    const set = (name: string, value: string) => headers.set(name, value);
    setHeaders({ Vary: "x-api-key", "Cache-Control": "private" }, (name) => headers.get(name) ?? "", set);
    expect([...headers]).toEqual([
      ["Vary", "x-api-key"],
      ["Cache-Control", "private"],
    ]);
  });
});

describe("can", () => {
  it("evaluates a query with AND, OR, parentheses and wildcards, also of roles", async () => {
    await keyring.createRole({ name: "editor" });
    await keyring.setRolePermissions({ roleId: "editor", permissions: ["reports.*"] });
    const given = { permissions: ["documents.*", "*.view"], roles: ["editor"] };
    const { key } = await keyring.createKey({ apiId, ...given });
    const { can } = await handedOver(verifier, key);
    expectTypeOf(can).toEqualTypeOf<(query: string) => boolean>();
    expect(can("documents.write OR admin")).toBe(true);
    expect(can("documents.write AND admin")).toBe(false);
    expect(can("admin OR (billing.view AND reports.monthly.read)")).toBe(true);
    expect(can("billing.pay")).toBe(false);
  });

  it("answers as a verification with the query does", async () => {
    const word = fc.constantFrom("a", "b", "*");
    const name = fc.array(word, { minLength: 1, maxLength: 3 }).map((words) => words.join("."));
    const query = fc
      .tuple(name, fc.array(fc.tuple(fc.constantFrom("AND", "OR"), name), { maxLength: 3 }))
      .map(([first, more]) => [first, ...more.flat()].join(" "));
    const granted = fc.uniqueArray(name, { maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(granted, query, async (permissions, asked) => {
        const { key } = await keyring.createKey({ apiId, permissions });
        const { valid } = await verifier.verify({ key, permissions: asked });
        expect((await handedOver(verifier, key)).can(asked)).toBe(valid);
      }),
      { numRuns: 100 },
    );
  });

  it("takes nothing, verifies nothing, and tells what the key had when it was verified", async () => {
    const ratelimits = [{ name: "requests", limit: 3, duration: 60_000, autoApply: true }];
    const given = { permissions: ["admin"], credits: { remaining: 10 }, ratelimits };
    const { key, keyId } = await keyring.createKey({ apiId, ...given });
    const verify = vi.spyOn({ verify: verifier.verify }, "verify");
    const handed = await handedOver({ verify }, key);
    const { credits, ratelimits: limits } = await verifier.verify({ key, credits: { cost: 0 } });
    for (let i = 0; i < 5; i++) expect(handed.can("admin")).toBe(true);
    expect(verify).toHaveBeenCalledTimes(1);
    const after = await verifier.verify({ key, credits: { cost: 0 } });
    expect([after.credits, after.ratelimits?.[0]?.remaining]).toEqual([credits, limits![0]!.remaining - 1]);
    await keyring.setPermissions({ keyId, permissions: [] });
    await verifier.close();
    await store.close();
    expect([handed.can("admin"), handed.can("other")]).toEqual([true, false]);
  });

  it("sees permissions that are too long for a result", async () => {
    const slugs = (role: string) => Array.from({ length: 1_000 }, (_, i) => `${role}.${i}.`.padEnd(128, "s"));
    const roles = Array.from({ length: 12 }, (_, i) => `role_${i}`);
    for (const name of roles) await keyring.createRole({ name });
    const { key } = await keyring.createKey({ apiId, roles });
    for (const roleId of roles) await keyring.setRolePermissions({ roleId, permissions: slugs(roleId) });
    const [first, last] = [slugs("role_0")[0]!, slugs("role_11")[999]!];
    const handed = await handedOver(verifier, key, { permissions: first });
    expect("permissions" in handed).toBe(false);
    expect([handed.can(last), handed.can("role_11.other")]).toEqual([true, false]);
  });

  it("a query that does not parse is a KeystileError, and so is one that was lost", async () => {
    const { key } = await keyring.createKey({ apiId, permissions: ["admin"] });
    const handed = await handedOver(verifier, key);
    const at = [expect.objectContaining({ location: "body.permissions" })];
    const thrown = (query: unknown) => {
      try {
        return handed.can(query as string);
      } catch (error) {
        return error;
      }
    };
    for (const query of ["admin OR", "admin AND AND admin", "(admin"])
      expect(thrown(query)).toMatchObject({ name: "KeystileError", code: "PERMISSIONS_QUERY_SYNTAX", errors: at });
    for (const query of [undefined, null, 7, "", "a".repeat(1_001)])
      expect(thrown(query)).toMatchObject({ name: "KeystileError", code: "BAD_REQUEST", errors: at });
  });

  it("is no property of a result, and none that copies, JSON or comparisons see of a key that is handed over", async () => {
    const { key, keyId } = await keyring.createKey({ apiId, name: "first", permissions: ["admin"] });
    const results: VerificationResult[] = [];
    const verify: Verifier["verify"] = async (...call) => {
      const result = Object.freeze(await verifier.verify(...call));
      results.push(result);
      return result;
    };
    const handed = await handedOver({ verify }, key, { permissions: "admin" });
    const specified = { valid: true, code: "VALID", keyId, enabled: true, name: "first", permissions: ["admin"] };
    expect(results).toStrictEqual([{ ...specified, roles: [] }]);
    expect(Reflect.ownKeys(results[0]!)).toEqual(Object.keys({ ...specified, roles: [] }));
    expect(handed).toStrictEqual(results[0]);
    expect(JSON.stringify(handed)).toBe(JSON.stringify(results[0]));
    expect(structuredClone(handed)).toStrictEqual(results[0]);
    expect(handed.can("admin")).toBe(true);
  });

  it("goes through what wraps a verifier, as long as it passes on the context or lists the permissions", async () => {
    const { key, keyId } = await keyring.createKey({ apiId, permissions: ["admin.*"] });
    const copying: KeyVerifier = {
      verify: async (body, context) => ({ ...(await verifier.verify(body, { ...context })) }),
    };
    expect((await handedOver(copying, key)).can("admin.read")).toBe(true);
    const deaf: KeyVerifier = { verify: (body) => verifier.verify(body) };
    const listed = await handedOver(deaf, key, { permissions: "admin.write" });
    expect([listed.keyId, listed.can("admin.read"), listed.can("other")]).toEqual([keyId, true, false]);
    const silent = await handedOver(deaf, key);
    expect(() => silent.can("admin.read")).toThrow(
      new TypeError("the verifier of this guard must pass on its context, or list the key's permissions"),
    );
  });

  it("a handler of keystile/web asks the key that it gets", async () => {
    const { key } = await keyring.createKey({ apiId, permissions: ["documents.read"] });
    const route = apiKey(verifier, { apiId, permissions: "documents.read" }, (_request, handed) =>
      Response.json({ write: handed.can("documents.write OR admin"), read: handed.can("documents.read") }),
    );
    const response = await route(new Request("http://localhost/", { headers: { "x-api-key": key } }));
    expect(await response.json()).toEqual({ write: false, read: true });
  });
});
