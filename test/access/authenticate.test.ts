/** Authorization header → Caller. Contract 5, rulings F2, B6, B7, hostile inputs A069–A077, A105. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createAuthenticator } from "../../src/access/authenticate.js";
import { signProxyToken } from "../../src/access/proxy-token.js";
import { KeystileError } from "../../src/contracts/errors.js";
import type { Change, Store } from "../../src/contracts/store.js";
import { createKeyring } from "../../src/keyring/keyring.js";
import { memoryStore } from "../../src/stores/memory.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { createVerifier } from "../../src/verify/verifier.js";
import { failure, fault, NOON } from "../keyring/support.js";
import { runs } from "../runs.js";

const proxyTokens = { issuer: "dashboard", audience: "keystile", keys: [{ secret: "0123456789abcdef".repeat(2) }] };

/** Counts reads of root keys. */
function counting(store: Store) {
  const calls = { finds: 0 };
  const findRootKey: Store["findRootKey"] = (digest) => {
    calls.finds++;
    return store.findRootKey(digest);
  };
  return { calls, store: { ...store, findRootKey } };
}

function world(over: Partial<Store> = {}) {
  const { store, calls } = counting({ ...memoryStore(), ...over });
  const time = { now: NOON };
  const clock = () => time.now;
  const keyring = createKeyring(store, { clock });
  const authenticator = createAuthenticator(store, { clock, proxyTokens });
  const { authenticate } = authenticator;
  const create = (permissions: readonly string[] = ["api.*.verify_key"], more: object = {}) =>
    keyring.createRootKey({ permissions, ...more });
  return { store, calls, time, clock, keyring, authenticator, authenticate, create };
}

describe("authenticate: root keys", () => {
  it("answers the caller: its kind, id, workspace and permissions (contract 5)", async () => {
    const { authenticate, create } = world();
    const { key, rootKeyId } = await create(["api.a.read_key"]);
    const caller = await authenticate(`Bearer ${key}`);
    expect(caller).toMatchObject({ kind: "rootKey", id: rootKeyId, workspaceId: "ws_default" });
    expect([caller.may("read_key", { type: "api", id: "a", keyId: "k" }), caller.mayAny("verify_key", "api")]).toEqual([
      true,
      false,
    ]);
    expect(Object.isFrozen(caller)).toBe(true);
    expect(JSON.stringify(caller)).not.toContain(key.slice(9));
  });

  it("A077: unknown, disabled, expired and deleted root keys and ordinary keys get one and the same 401", async () => {
    const { authenticate, create, keyring, time } = world();
    const { apiId } = await keyring.createApi({ name: "documents" });
    const disabled = await create();
    await keyring.updateRootKey({ rootKeyId: disabled.rootKeyId, enabled: false });
    const deleted = await create();
    await authenticate(`Bearer ${deleted.key}`);
    await keyring.deleteRootKey({ rootKeyId: deleted.rootKeyId });
    const expired = await create([], { expires: NOON });
    time.now = NOON + 1;
    const ordinary = await keyring.createKey({ apiId });
    const unknown = `root_${"x".repeat(39)}`;
    const errors = [];
    for (const key of [disabled.key, deleted.key, expired.key, ordinary.key, unknown, "x"]) {
      const { code, status, type, title, detail } = await failure(authenticate(`Bearer ${key}`));
      errors.push(JSON.stringify({ code, status, type, title, detail }));
    }
    expect(new Set(errors).size).toBe(1);
    expect(JSON.parse(errors[0]!)).toMatchObject({
      code: "AUTH_KEY_NOT_FOUND",
      status: 401,
      type: "keystile/authentication/key_not_found",
      title: "Unauthorized",
    });
  });

  it("rulings A3, A7: valid at exactly `expires`, not a millisecond later; a clock that steps back does not matter", async () => {
    const { authenticate, create, time } = world();
    const { key } = await create([], { expires: NOON + 5 });
    time.now = NOON + 5;
    await authenticate(`Bearer ${key}`);
    time.now = NOON + 6;
    expect(await fault(authenticate(`Bearer ${key}`))).toBe("AUTH_KEY_NOT_FOUND 401");
    time.now = NOON;
    await authenticate(`Bearer ${key}`);
  });

  it("every change holds from the next request on", async () => {
    const { authenticate, create, keyring } = world();
    const { key, rootKeyId } = await create(["api.a.read_key"]);
    const header = `Bearer ${key}`;
    const before = await authenticate(header);
    await keyring.updateRootKey({ rootKeyId, permissions: ["api.*.verify_key"] });
    const after = await authenticate(header);
    expect([
      before.mayAny("read_key", "api"),
      after.mayAny("read_key", "api"),
      after.mayAny("verify_key", "api"),
    ]).toEqual([true, false, true]);
    await keyring.updateRootKey({ rootKeyId, enabled: false });
    expect(await fault(authenticate(header))).toBe("AUTH_KEY_NOT_FOUND 401");
    await keyring.updateRootKey({ rootKeyId, enabled: true });
    await authenticate(header);
    await keyring.deleteRootKey({ rootKeyId });
    expect(await fault(authenticate(header))).toBe("AUTH_KEY_NOT_FOUND 401");
  });

  it("a disabled workspace keeps its root keys: what they verify is FORBIDDEN (ruling A4)", async () => {
    const { store, clock, authenticate, create, keyring } = world();
    const { apiId } = await keyring.createApi({ name: "documents" });
    const ordinary = await keyring.createKey({ apiId });
    const { key } = await create();
    await keyring.updateWorkspace({ enabled: false });
    const caller = await authenticate(`Bearer ${key}`);
    const answer = await createVerifier(store, { clock }).verify({ key: ordinary.key }, { caller });
    expect(answer).toMatchObject({ valid: false, code: "FORBIDDEN", keyId: ordinary.keyId });
  });

  it("a change by another process on the file is seen by the next turn of the event loop", async () => {
    const folder = mkdtempSync(join(tmpdir(), "keystile-root-"));
    const here = sqliteStore(join(folder, "keys.db"));
    const there = sqliteStore(join(folder, "keys.db"));
    try {
      const { key, rootKeyId } = await createKeyring(there).createRootKey({ permissions: [] });
      const { authenticate, close } = createAuthenticator(here);
      await turn();
      await authenticate(`Bearer ${key}`);
      await createKeyring(there).deleteRootKey({ rootKeyId });
      await turn();
      expect(await fault(authenticate(`Bearer ${key}`))).toBe("AUTH_KEY_NOT_FOUND 401");
      close();
    } finally {
      await here.close();
      await there.close();
      rmSync(folder, { recursive: true });
    }
  });
});

const turn = () => new Promise((resolve) => setTimeout(resolve, 5));

describe("authenticate: the header (ruling F2)", () => {
  const cases: [what: string, header: string | readonly string[] | null | undefined, code: string][] = [
    ["A069: none", undefined, "AUTH_MISSING"],
    ["A069: null", null, "AUTH_MISSING"],
    ["A069: an empty list", [], "AUTH_MISSING"],
    ["A069: empty", "", "AUTH_MISSING"],
    ["A069: only blanks", " \t ", "AUTH_MISSING"],
    ["A069: only the scheme", "Bearer", "AUTH_MALFORMED"],
    ["A069: only the scheme and a blank", "Bearer ", "AUTH_MALFORMED"],
    ["another scheme", "Basic eHg6eHg=", "AUTH_MALFORMED"],
    ["no scheme", "root_xyz", "AUTH_MALFORMED"],
    ["no blank", "Bearer:root_xyz", "AUTH_MALFORMED"],
    ["two tokens", "Bearer a b", "AUTH_MALFORMED"],
    ["A073: two headers", ["Bearer GOOD", "Bearer bad"], "AUTH_MALFORMED"],
    ["A073: two headers, the other way", ["Bearer bad", "Bearer GOOD"], "AUTH_MALFORMED"],
    ["A073: the same twice", ["Bearer GOOD", "Bearer GOOD"], "AUTH_MALFORMED"],
    ["A073: two, one empty", ["", "Bearer GOOD"], "AUTH_MALFORMED"],
    ["A073: two that a web Request joined", "Bearer GOOD, Bearer bad", "AUTH_MALFORMED"],
    ["A073: two that a web Request joined, one empty", "Bearer GOOD, ", "AUTH_MALFORMED"],
    ["A073: joined without a blank", "Bearer GOOD,bad", "AUTH_MALFORMED"],
    ["A075: non-ASCII", "Bearer rootÃ©", "AUTH_MALFORMED"],
    ["A075: a letter that turns to ASCII in capitals", "Bearer ſ", "AUTH_MALFORMED"],
    ["A071: a scheme that only a locale would fold", "BEARER\u0130 x", "AUTH_MALFORMED"],
    ["A071: a Kelvin sign", "Bearer \u212a", "AUTH_MALFORMED"],
    ["a tab after the scheme", "Bearer\tGOOD", "AUTH_MALFORMED"],
    ["a NUL", "Bearer a\0", "AUTH_MALFORMED"],
    ["a line break", "Bearer a\n", "AUTH_MALFORMED"],
    ["a key too long", `Bearer ${"k".repeat(513)}`, "AUTH_MALFORMED"],
    ["a header too long", `Bearer ${"k".repeat(20_000)}`, "AUTH_MALFORMED"],
    ["blanks without end", `Bearer ${" ".repeat(1_000_000)}x`, "AUTH_MALFORMED"],
    ["a header as long as headers may be", `Bearer${" ".repeat(8_192)}k`, "AUTH_KEY_NOT_FOUND"],
    ["a header of one character more", `Bearer${" ".repeat(8_193)}k`, "AUTH_MALFORMED"],
    ["a key as long as keys may be", `Bearer ${"k".repeat(512)}`, "AUTH_KEY_NOT_FOUND"],
    ["the word true", true as never, "AUTH_MISSING"],
  ];
  it.each(cases)("%s", async (_what, header, code) => {
    const { authenticate, create, calls } = world();
    const { key } = await create();
    const fill = (text: string) => text.replaceAll("GOOD", key);
    const filled = typeof header === "string" ? fill(header) : Array.isArray(header) ? header.map(fill) : header;
    expect(await fault(authenticate(filled))).toBe(`${code} 401`);
    expect(calls.finds).toBe(code === "AUTH_KEY_NOT_FOUND" ? 1 : 0);
  });

  it("A071: any letter case of the scheme, and blanks around and between", async () => {
    const { authenticate, create } = world();
    const { key } = await create();
    for (const header of [`bearer ${key}`, `BEARER ${key}`, `bEaReR  ${key}`, `  Bearer   ${key}  `, [`Bearer ${key}`]])
      await authenticate(header);
  });

  it("types and titles of contract 7", async () => {
    const { authenticate } = world();
    const missing = await failure(authenticate(undefined));
    const malformed = await failure(authenticate("Bearer"));
    expect([missing.type, missing.title]).toEqual(["keystile/authentication/missing", "Unauthorized"]);
    expect([malformed.type, malformed.title]).toEqual(["keystile/authentication/malformed", "Unauthorized"]);
  });

  it("ruling G4: whatever came, no error repeats it", async () => {
    const { authenticate } = world();
    await fc.assert(
      fc.asyncProperty(
        fc.string({ minLength: 8, maxLength: 60 }),
        fc.constantFrom("Bearer ", "bearer\t", "", "Basic "),
        async (token, scheme) => {
          const error = await failure(authenticate(scheme + token));
          expect(error.status).toBe(401);
          expect(error.message + JSON.stringify(error)).not.toContain(token);
        },
      ),
      { numRuns: runs(300) },
    );
  });
});

describe("authenticate: what is remembered", () => {
  it("a root key is read once, and a miss once a while", async () => {
    const { authenticate, create, calls } = world();
    const { key } = await create();
    for (let i = 0; i < 5; i++) await authenticate(`Bearer ${key}`);
    expect(calls.finds).toBe(1);
    for (let i = 0; i < 5; i++) await fault(authenticate("Bearer nobody"));
    expect(calls.finds).toBe(2);
  });

  it("a flood of unknown tokens pushes no root key out", async () => {
    const { authenticate, create, calls } = world();
    const { key } = await create();
    await authenticate(`Bearer ${key}`);
    for (let i = 0; i < 12_000; i++) await authenticate(`Bearer t${i}`).catch(() => undefined);
    const before = calls.finds;
    await authenticate(`Bearer ${key}`);
    expect(calls.finds).toBe(before);
  });

  it("its size is bounded by the option", async () => {
    const { store, calls, create } = world();
    const { authenticate } = createAuthenticator(store, { rootKeys: 2 });
    const keys = [await create(), await create(), await create()];
    for (const { key } of keys) await authenticate(`Bearer ${key}`);
    const before = calls.finds;
    await authenticate(`Bearer ${keys[2]!.key}`);
    expect(calls.finds).toBe(before);
    await authenticate(`Bearer ${keys[0]!.key}`);
    expect(calls.finds).toBe(before + 1);
  });

  it("its size is 10,000 unless told otherwise", async () => {
    let finds = 0;
    const row = { version: 0, workspaceId: "ws_1", start: "root_", permissions: [], enabled: true, createdAt: 0 };
    const findRootKey: Store["findRootKey"] = (digest) => (finds++, { ...row, id: digest, digest });
    const { authenticate } = createAuthenticator({ ...memoryStore(), findRootKey });
    const findTwice = async (count: number) => {
      finds = 0;
      for (let i = 0; i < 2 * count; i++) await authenticate(`Bearer root_${i % count}`);
      return finds;
    };
    expect(await findTwice(10_000)).toBe(10_000);
    expect(await findTwice(10_001)).toBeGreaterThan(1);
  });

  it("port clause 9: a read that began before a change is not remembered", async () => {
    const base = memoryStore();
    let release = (): void => undefined;
    const gate = new Promise<void>((resolve) => (release = resolve));
    const slow: Store = {
      ...base,
      async findRootKey(digest) {
        const row = await base.findRootKey(digest);
        await gate;
        return row;
      },
    };
    const keyring = createKeyring(base);
    const { authenticate } = createAuthenticator(slow);
    const { key, rootKeyId } = await keyring.createRootKey({ permissions: [] });
    const begun = authenticate(`Bearer ${key}`);
    await turn();
    await keyring.deleteRootKey({ rootKeyId });
    release();
    await begun;
    expect(await fault(authenticate(`Bearer ${key}`))).toBe("AUTH_KEY_NOT_FOUND 401");
  });

  it("port clause 8: waits for a pollChanges that answers another kind of promise", async () => {
    const base = memoryStore();
    let told = (_: Change): void => undefined;
    const { authenticate } = createAuthenticator({
      ...base,
      subscribe: (listener) => ((told = listener), () => undefined),
      // As a promise made in another realm: it has the methods, and is no instance of this one's Promise.
      pollChanges: () =>
        ({
          then: (done: () => void) => void Promise.resolve().then(() => (told("all"), done())),
        }) as unknown as Promise<void>,
    });
    const keyring = createKeyring(base);
    const { key, rootKeyId } = await keyring.createRootKey({ permissions: [] });
    await authenticate(`Bearer ${key}`);
    await keyring.deleteRootKey({ rootKeyId });
    expect(await fault(authenticate(`Bearer ${key}`))).toBe("AUTH_KEY_NOT_FOUND 401");
  });

  it("other changes of the store do not forget root keys, and `all` does", async () => {
    const listeners = new Set<(change: Change) => void>();
    const base = memoryStore();
    const { calls, store } = counting({
      ...base,
      subscribe: (listener) => (listeners.add(listener), () => void listeners.delete(listener)),
    });
    const { authenticate, close } = createAuthenticator(store);
    const { key } = await createKeyring(store).createRootKey({ permissions: [] });
    const tell = (change: Change) => listeners.forEach((listener) => listener(change));
    const readsAfter = async (change: Change) => {
      tell(change);
      const before = calls.finds;
      await authenticate(`Bearer ${key}`);
      return calls.finds - before;
    };
    await authenticate(`Bearer ${key}`);
    expect([await readsAfter({ digest: "another" }), await readsAfter("created"), await readsAfter("all")]).toEqual([
      0, 0, 1,
    ]);
    close();
    expect(listeners.size).toBe(0);
  });

  it("a store that fails is an error, never a caller, and is not remembered", async () => {
    const base = memoryStore();
    let failing: "findRootKey" | "pollChanges" | undefined;
    const broken = () => Promise.reject(new KeystileError("STORE_FAILED", "disk"));
    const store: Store = {
      ...base,
      findRootKey: (digest) => (failing === "findRootKey" ? broken() : base.findRootKey(digest)),
      pollChanges: () => (failing === "pollChanges" ? broken() : base.pollChanges()),
    };
    const { authenticate } = createAuthenticator(store);
    const { key } = await createKeyring(store).createRootKey({ permissions: [] });
    failing = "findRootKey";
    expect(await fault(authenticate(`Bearer ${key}`))).toBe("STORE_FAILED 500");
    failing = undefined;
    await authenticate(`Bearer ${key}`);
    failing = "pollChanges";
    expect(await fault(authenticate(`Bearer ${key}`))).toBe("STORE_FAILED 500");
  });
});

describe("authenticate: proxy tokens beside root keys (ruling F3)", () => {
  const claims = {
    subject: "user_1",
    workspaceId: "ws_2",
    permissions: ["api.*.read_api", "svc:v1:ws_2:**#*", "svc:v1:ws_1:**#*"],
  };

  it("a token's bearer is a caller of the token's workspace with its permissions", async () => {
    const { authenticate, clock } = world();
    const token = await signProxyToken(claims, { ...proxyTokens, clock });
    const caller = await authenticate(`Bearer ${token}`);
    expect(caller).toMatchObject({ kind: "proxyToken", id: "user_1", workspaceId: "ws_2" });
    expect(caller.may("verify_key", { type: "api", id: "a", keyId: "k" })).toBe(true);
  });

  it("whatever token can be signed authenticates, up to the longest", async () => {
    const { authenticate, clock } = world();
    const sign = (length: number) =>
      signProxyToken({ ...claims, permissions: ["p".repeat(length)] }, { ...proxyTokens, clock });
    // Three characters of claims are four of a token.
    let length = Math.floor(((8_192 - (await sign(1)).length) * 3) / 4) - 3;
    while ((await sign(length)).length < 8_190) length++;
    let longest = "";
    try {
      for (;;) longest = await sign(length++);
    } catch (error) {
      expect(error).toEqual(new RangeError("claims.permissions must fit in a token of 8192 characters"));
    }
    expect(longest.length).toBeGreaterThan(8_185);
    expect(await authenticate(`Bearer ${longest}`)).toMatchObject({ id: "user_1" });
  });

  it("A105: the form decides, and nothing is tried twice: no root key is looked up for a token, and the reverse", async () => {
    const { authenticate, calls, clock } = world();
    for (const token of [
      "a.b.c",
      "..",
      "a..b",
      await signProxyToken(claims, { ...proxyTokens, audience: "other", clock }),
    ]) {
      const error = await failure(authenticate(`Bearer ${token}`));
      expect([error.code, error.status, error.type]).toEqual([
        "AUTH_TOKEN_INVALID",
        401,
        "keystile/authentication/token_invalid",
      ]);
    }
    expect(calls.finds).toBe(0);
    for (const token of ["a.b", "a.b.c.d", "a.b.c.d.e", "."])
      expect(await fault(authenticate(`Bearer ${token}`))).toBe("AUTH_KEY_NOT_FOUND 401");
    expect(calls.finds).toBe(4);
  });

  it("without proxy tokens configured every token is invalid", async () => {
    const { store, clock } = world();
    const { authenticate } = createAuthenticator(store, { clock });
    expect(await fault(authenticate(`Bearer ${await signProxyToken(claims, { ...proxyTokens, clock })}`))).toBe(
      "AUTH_TOKEN_INVALID 401",
    );
  });
});

describe("createAuthenticator: options", () => {
  const wrong: [options: unknown, message: RegExp][] = [
    [null, /options must be an object/],
    [{ rootKey: 1 }, /options\.rootKey is not an option/],
    [{ rootKeys: 0 }, /options\.rootKeys/],
    [{ scheme: "a:b" }, /options\.scheme/],
    [{ clock: 1 }, /options\.clock/],
    [{ proxyTokens: {} }, /options\.proxyTokens\.issuer must be given/],
    [{ proxyTokens: null }, /options\.proxyTokens must be an object/],
  ];
  it.each(wrong)("%j throws", (options, message) => {
    expect(() => createAuthenticator(memoryStore(), options as never)).toThrow(message);
  });

  it("a store that lacks a method throws", () => {
    const { findRootKey, ...rest } = memoryStore();
    expect(findRootKey).toBeTypeOf("function");
    expect(() => createAuthenticator(rest as never)).toThrow(/findRootKey/);
  });

  it("ruling B7: root keys are read with the scheme word given", async () => {
    const store = memoryStore();
    const { key } = await createKeyring(store, { scheme: "acme" }).createRootKey({
      permissions: ["acme:v1:ws_default:**#*"],
    });
    const [acme, svc] = [createAuthenticator(store, { scheme: "acme" }), createAuthenticator(store)];
    expect((await acme.authenticate(`Bearer ${key}`)).mayAny("x", "rbac")).toBe(true);
    expect((await svc.authenticate(`Bearer ${key}`)).mayAny("x", "rbac")).toBe(false);
  });
});
