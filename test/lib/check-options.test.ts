import { runInNewContext } from "node:vm";
import { describe, expect, it, vi } from "vitest";
import { createKeyring, explain, forOwner, verifyHeaders } from "../../src/index.js";
import { createRatelimits } from "../../src/keyring/ratelimits/create-ratelimits.js";
import { checkOptions, group, integer, methods, oneOf } from "../../src/lib/check-options.js";
import { createGuard } from "../../src/middleware/guard.js";
import { memoryStore } from "../../src/stores/memory.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { createVerifier } from "../../src/verify/verifier.js";

describe("createVerifier options", () => {
  it("A199: a store that is none is a TypeError that names what it lacks", () => {
    expect(() => createVerifier(null as never)).toThrow(TypeError);
    expect(() => createVerifier({ ...memoryStore(), spendCredits: undefined } as never)).toThrow(
      /store lacks the method spendCredits\(\)/,
    );
  });

  it.each(["postgres://user:word@host/db", "keys.db", undefined, 7])(
    "a path or an address in place of a store: the error names what makes a store, and does not repeat it: %s",
    (given) => {
      const message = "store must be a store: sqliteStore(path), postgresStore(options) and memoryStore() make one";
      for (const make of [createVerifier, createKeyring] as readonly ((store: never) => unknown)[])
        expect(() => make(given as never)).toThrow(new TypeError(message));
    },
  );

  it("a store that is still a promise is to be awaited", () => {
    for (const make of [createVerifier, createKeyring] as readonly ((store: never) => unknown)[])
      expect(() => make(Promise.resolve({}) as never)).toThrow(new TypeError("store is a promise: await it first"));
  });

  it("a runtime older than keystile takes is a TypeError that says which it takes", () => {
    const { isWellFormed } = String.prototype;
    const message = /takes Node 20\.12 or later/;
    Object.assign(String.prototype, { isWellFormed: undefined });
    try {
      for (const make of [() => sqliteStore(":memory:"), () => createKeyring({} as never)])
        expect(make).toThrow(message);
    } finally {
      Object.defineProperty(String.prototype, "isWellFormed", { value: isWellFormed, enumerable: false });
    }
  });

  it.each([
    [{ cacheSize: 5 }, /options\.cacheSize is not an option/],
    [{ toString: 5 }, /options\.toString is not an option/],
    [{ cache: { size: 0 } }, /options\.cache\.size must be from 1/],
    [{ cache: { size: "5" } }, /options\.cache\.size must be an integer/],
    [{ cache: { sizes: 5 } }, /options\.cache\.sizes is not an option/],
    [{ cache: { ttl: 0 } }, /options\.cache\.ttl/],
    [{ cache: { missTtl: 60_001 } }, /options\.cache\.missTtl/],
    [{ cache: null }, /options\.cache must be an object/],
    [{ clock: 5 }, /options\.clock must be a function/],
    [{ onOutcome: {} }, /options\.onOutcome must be a function/],
    [{ limiter: { close() {} } }, /options\.limiter lacks the method take\(\)/],
    [{ onLimiterFailure: "open" }, /options\.onLimiterFailure must be one of: local, deny, allow/],
    [{ nodes: 0 }, /options\.nodes/],
    [{ nodes: NaN }, /options\.nodes must be an integer/],
    [{ workspaceId: "" }, /options\.workspaceId must be 1 to 255 characters/],
    [{ workspaceId: "with space" }, /options\.workspaceId must be 1 to 255 characters/],
    [{ credits: { mode: "fast" } }, /options\.credits\.mode must be one of/],
    [{ credits: {} }, /options\.credits\.mode must be one of/],
    [{ credits: null }, /options\.credits must be an object/],
    [{ credits: { mode: "exact", size: 5 } }, /options\.credits\.size is not an option/],
    [{ credits: { mode: "leased", size: 0 } }, /options\.credits\.size/],
    [
      { credits: { mode: "leased", size: 5, step: 6 } },
      /options\.credits\.step must be at most options\.credits\.size/,
    ],
    [{ credits: { mode: "leased", ttl: 1 } }, /options\.credits\.ttl/],
    [{ credits: { mode: "leased", closeTimeout: -1 } }, /options\.credits\.closeTimeout must be from 0 to 3600000/],
    [{ credits: { mode: "leased", closeTimeout: Infinity } }, /options\.credits\.closeTimeout must be an integer/],
    [{ migrationAlgorithms: { x: 1 } }, /options\.migrationAlgorithms\.x must be a function/],
  ])("%j is refused and the option named", (options, expected) => {
    expect(() => createVerifier(memoryStore(), options as never)).toThrow(expected);
  });

  it("undefined counts as not given", () => {
    const options = {
      clock: undefined,
      cache: { size: undefined, ttl: Infinity },
      limiter: undefined,
      credits: undefined,
    };
    expect(() => createVerifier(memoryStore(), options as never)).not.toThrow();
  });

  it("a limiter needs no close: nothing here calls one", async () => {
    const close = vi.fn();
    for (const limiter of [{ take: () => [] }, { take: () => [], close }])
      await createVerifier(memoryStore(), { limiter }).close();
    expect(close).not.toHaveBeenCalled();
  });

  it("the store is told the time of the system's clock, given by name or not, and of no other", async () => {
    const pollChanges = vi.fn();
    const store = { ...memoryStore(), pollChanges };
    for (const options of [{}, { clock: Date.now }, { clock: () => 5 }])
      await createVerifier(store, options).verify({ key: "k" });
    expect(pollChanges.mock.calls).toEqual([[expect.any(Number)], [expect.any(Number)], [undefined]]);
  });

  it("a clock that answers nonsense fails the call instead of validating it", async () => {
    for (const nonsense of [NaN, -8.64e15 - 1, 8.64e15 + 1, 1.79e18]) {
      const verifier = createVerifier(memoryStore(), { clock: () => nonsense });
      await expect(verifier.verify({ key: "k" })).rejects.toThrow(/options\.clock must return/);
    }
    expect((await createVerifier(memoryStore(), { clock: () => 8.64e15 }).verify({ key: "k" })).code).toBe("NOT_FOUND");
  });
});

describe("verify: its context", () => {
  it("one that is no object is the programmer's mistake, named before the key is looked for", async () => {
    const { verify } = createVerifier(memoryStore());
    for (const context of [null, "192.0.2.7", 5, [], Promise.resolve({ clientAddress: "192.0.2.7" })]) {
      await expect(verify({ key: "k" }, context as never)).rejects.toThrow(/^context must be an object/);
    }
    expect((await verify({ key: "k" }, undefined)).code).toBe("NOT_FOUND");
  });

  it("a caller that is none is named too, by both verifier and rate limits", async () => {
    const { verify } = createVerifier(memoryStore());
    const { limit } = createRatelimits(memoryStore());
    const check = { namespace: "email", identifier: "user_1", limit: 10, duration: 60_000 };
    for (const caller of [null, {}, "root_1", { mayAny: () => true }]) {
      await expect(verify({ key: "k" }, { caller } as never)).rejects.toThrow(
        /^context\.caller (must be an object|lacks the method)/,
      );
      await expect(limit(check, { caller } as never)).rejects.toThrow(
        /^context\.caller (must be an object|lacks the method)/,
      );
    }
    for (const context of [null, 5, [1], Promise.resolve({})])
      await expect(limit(check, context as never)).rejects.toThrow(/^context must be an object/);
  });

  it("an argument that throws when it is looked at rejects the call, which never throws itself", async () => {
    const traps = Reflect.ownKeys(Reflect).map((trap) => [
      trap,
      () => {
        throw new Error("trap");
      },
    ]);
    const hostile = new Proxy({}, Object.fromEntries(traps) as ProxyHandler<object>);
    const store = memoryStore();
    const [verifier, ratelimits, keyring] = [createVerifier(store), createRatelimits(store), createKeyring(store)];
    const owner = forOwner(keyring, "user_1", { apiId: "api_1" });
    const guard = createGuard(verifier, { onError() {} });
    const given = [hostile, hostile];
    const calls: (readonly [string, () => unknown])[] = [
      ["verify context", () => verifier.verify({ key: "k" }, hostile)],
      ["verify", () => verifier.verify(...(given as [never, never]))],
      ["explain", () => explain(verifier, ...(given as [never, never]))],
      ["explain context", () => explain(verifier, { key: "k" }, hostile)],
      ["verifyHeaders", () => verifyHeaders(verifier, hostile)],
      ["verifyHeaders options", () => verifyHeaders(verifier, {}, hostile)],
      [
        "limit context",
        () => ratelimits.limit({ namespace: "a", identifier: "b", limit: 1, duration: 1_000 }, hostile),
      ],
      ...[ratelimits, keyring, owner].flatMap((object) =>
        Object.entries(object)
          .filter(([name]) => name !== "revokeAll" && name !== "balance")
          .map(([name, act]) => [name, () => (act as (...all: unknown[]) => unknown)(...given)] as const),
      ),
    ];
    for (const [name, call] of calls) {
      const called = vi.fn(call);
      expect(called, name).not.toThrow();
      await expect(called.mock.results[0]!.value, name).rejects.toThrow();
    }
    const decision = await guard.check({ request: hostile, memory: hostile, header: () => hostile as never });
    expect(decision).toMatchObject({ outcome: "refuse", refusal: { status: 500 } });
  });

  it("an unknown name is a mistake, which must open no other API and make nobody the program", async () => {
    const { verify } = createVerifier(memoryStore());
    const { limit, listNamespaces } = createRatelimits(memoryStore());
    const check = { namespace: "email", identifier: "user_1", limit: 10, duration: 60_000 };
    for (const name of ["apiID", "Caller", "toString", "constructor", "idempotency"])
      await expect(verify({ key: "k" }, { [name]: "api_1" })).rejects.toThrow(
        new TypeError(`context.${name} is not an option; there are: clientAddress, caller, apiId, idempotencyKey`),
      );
    const own = JSON.parse('{"__proto__":{}}') as object;
    await expect(verify({ key: "k" }, own)).rejects.toThrow(/^context\.__proto__ is not an option/);
    await expect(verify({ key: "k" }, { user: undefined } as object)).rejects.toThrow(/^context\.user is not/);
    for (const call of [limit(check, { user: {} } as object), listNamespaces({}, { user: {} } as object)])
      await expect(call).rejects.toThrow(new TypeError("context.user is not an option; there are: caller"));
    const absent = { clientAddress: undefined, idempotencyKey: undefined };
    expect((await verify({ key: "k" }, absent as object)).code).toBe("NOT_FOUND");
    const lost = { caller: undefined } as object;
    for (const call of [verify({ key: "k" }, lost), limit(check, lost)])
      await expect(call).rejects.toThrow(/^context\.caller /);
  });

  it("a name that may be a secret is not repeated", async () => {
    const context = { key_4f9aB2: "192.0.2.7" };
    const { verify } = createVerifier(memoryStore());
    const { limit } = createRatelimits(memoryStore());
    const check = { namespace: "email", identifier: "user_1", limit: 10, duration: 60_000 };
    await expect(verify({ key: "k" }, context as object)).rejects.toThrow(
      /^context has a property that is no option; there are: clientAddress, /,
    );
    await expect(limit(check, context as object)).rejects.toThrow(
      /^context has a property that is no option; there are: caller$/,
    );
  });

  it("each property is read once", async () => {
    const reads: string[] = [];
    const read = <T>(name: string, value: T): T => {
      reads.push(name);
      return value;
    };
    const context = {
      get idempotencyKey() {
        return read("idempotencyKey", undefined);
      },
      get apiId() {
        return read("apiId", "api_1");
      },
      get caller() {
        return read("caller", { workspaceId: "ws_default", may: () => true, mayAny: () => true });
      },
      get clientAddress() {
        return read("clientAddress", "192.0.2.7");
      },
    };
    const { verify } = createVerifier(memoryStore());
    expect((await verify({ key: "k" }, context)).code).toBe("NOT_FOUND");
    expect(reads.sort()).toEqual(["apiId", "caller", "clientAddress", "idempotencyKey"]);
  });

  it("a caller or an API that is not enumerable counts as well", async () => {
    const { verify } = createVerifier(memoryStore());
    const caller = { workspaceId: "ws_default", may: () => false, mayAny: () => false };
    const hidden = Object.create(null, { caller: { value: caller } }) as object;
    await expect(verify({ key: "k" }, hidden)).rejects.toMatchObject({ code: "CALLER_FORBIDDEN" });
    const badApi = Object.defineProperty({}, "apiId", { value: 7 });
    await expect(verify({ key: "k" }, badApi)).rejects.toThrow(/^context\.apiId must be the id of an API/);
  });

  it("a caller of no workspace is named too, and would see the keys of none", async () => {
    const caller = { may: () => true, mayAny: () => true } as never;
    const check = { namespace: "email", identifier: "user_1", limit: 10, duration: 60_000 };
    await expect(createVerifier(memoryStore()).verify({ key: "k" }, { caller })).rejects.toThrow(
      /^context\.caller\.workspaceId must be/,
    );
    await expect(createRatelimits(memoryStore()).limit(check, { caller })).rejects.toThrow(
      /^context\.caller\.workspaceId must be/,
    );
  });
});

describe("checkOptions", () => {
  it("names the path of the fault", () => {
    const checks = { a: group({ b: integer(1, 2), c: oneOf("x"), d: methods("run") }) };
    expect(() => checkOptions({ a: { b: 3 } }, checks)).toThrow(new RangeError("options.a.b must be from 1 to 2"));
    expect(() => checkOptions({ a: { c: "y" } }, checks)).toThrow("options.a.c must be one of: x");
    expect(() => checkOptions({ a: { d: {} } }, checks)).toThrow("options.a.d lacks the method run()");
    expect(() => checkOptions({ a: { d: 5 } }, checks)).toThrow("options.a.d must be an object with run");
    expect(() => checkOptions(null, checks)).toThrow("options must be an object");
  });

  it("A199: what only looks like an object of options is refused: a promise that nobody awaited would serve every workspace", () => {
    class Settings {
      get workspaceId(): string {
        return "ws_1";
      }
    }
    const options = { workspaceId: "ws_1" };
    for (const given of [
      [],
      new Map([["workspaceId", "ws_1"]]),
      Promise.resolve(options),
      new Date(),
      new Settings(),
      Object.create(options),
    ]) {
      expect(() => createVerifier(memoryStore(), given as object)).toThrow(
        "options must be an object, not an array or a class instance",
      );
    }
    createVerifier(memoryStore(), Object.assign(Object.create(null) as object, options));
    createVerifier(memoryStore(), runInNewContext("({ workspaceId: 'ws_1' })") as object);
  });
});
