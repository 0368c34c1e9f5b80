/** Every bound of the requests of administration, with the location that names it. */
import { describe, expect, it } from "vitest";
import { createRatelimits } from "../../../src/keyring/ratelimits/create-ratelimits.js";
import { createKeyring } from "../../../src/keyring/keyring.js";
import { newKey } from "../../../src/lib/hash.js";
import { memoryStore } from "../../../src/stores/memory.js";
import { failure, limit, problems, world } from "../support.js";
import { createPastKey } from "../../as-service.js";

/** A keyring over a store that must not be asked: a bad request is refused before. */
function deaf() {
  const { powers, ...store } = memoryStore();
  const refuse = () => {
    throw new Error("the store was asked");
  };
  const over = Object.fromEntries(Object.keys(store).map((name) => [name, refuse]));
  return createKeyring({ ...store, ...over, powers });
}

type Verb = keyof ReturnType<typeof deaf>;
const refusedAt = (verb: Verb, body: unknown) => problems((deaf()[verb] as (body: unknown) => Promise<unknown>)(body));

const API = "api_12345678";
const KEY = "key_12345678";
const TEXT_300 = "x".repeat(300);

describe("requests: every problem at once, before the store is asked", () => {
  it("hostile A001: a body that is no object is a 400 at `body`, whatever the verb", async () => {
    const verbs = Object.keys(deaf()) as Verb[];
    expect(verbs.length).toBeGreaterThanOrEqual(36);
    for (const verb of verbs) {
      for (const body of [null, [], "x", 1, true]) expect(await refusedAt(verb, body), verb).toEqual(["body"]);
    }
  });

  it("hostile A003, A013: every property too many is named, also `constructor` and `__proto__`", async () => {
    const body = JSON.parse(
      `{"apiId":"${API}","constructor":{"prototype":{"valid":true}},"__proto__":{"x":1},"extra":1}`,
    ) as object;
    const error = await failure(deaf().createKey(body as never));
    expect(error.errors).toEqual([
      { location: "body.constructor", message: "is not a property of this object", fix: "remove it" },
      { location: "body.__proto__", message: "is not a property of this object", fix: "remove it" },
      { location: "body.extra", message: "is not a property of this object", fix: "remove it" },
    ]);
    expect(({} as Record<string, unknown>)["valid"]).toBeUndefined();
  });

  it("a Date, or its text, in place of a time is told as that, with what makes one", async () => {
    for (const expires of [new Date(), "2030-01-01"]) {
      const { errors } = await failure(deaf().createKey({ apiId: API, expires } as never));
      expect(errors).toEqual([
        expect.objectContaining({
          ...{ location: "body.expires", fix: "use Date.now() or date.getTime()" },
          message: expect.stringContaining("Unix time in milliseconds"),
        }),
      ]);
    }
  });

  it("ruling G4: a name that is no plain identifier, a long one, or one with a digit, is not repeated", async () => {
    for (const name of ["sk live 1", "x".repeat(25), "sk_live_4eC39HqLyjWD", newKey("sk", 16).key, "", "0"]) {
      const { errors, message } = await failure(deaf().createApi({ name: "docs", [name]: 1 }));
      expect(errors).toEqual([
        {
          location: "body",
          message: "has a property that is not allowed",
          fix: "send only the properties of the interface",
        },
      ]);
      expect(message).toBe("body: has a property that is not allowed");
    }
    expect(await refusedAt("createKey", { apiId: API, credits: { remaining: 1, "a b": 1 } })).toEqual(["body.credits"]);
  });

  it("names all problems of a nested request, in order", async () => {
    const body = {
      apiId: "a!",
      prefix: "bad prefix",
      byteLength: 15,
      roles: ["ok", ""],
      permissions: ["documents.*", "no spaces", 1],
      credits: { remaining: -1, refill: { interval: "yearly", amount: 0, refillDay: 32, x: 1 } },
      ratelimits: [limit("requests"), limit("ab", { limit: 0, duration: 999, autoApply: 1 }), {}],
      unknown: true,
    };
    expect(await refusedAt("createKey", body)).toEqual([
      "body.apiId",
      "body.prefix",
      "body.byteLength",
      "body.roles[1]",
      "body.permissions[1]",
      "body.permissions[2]",
      "body.credits.remaining",
      "body.credits.refill.interval",
      "body.credits.refill.amount",
      "body.credits.refill.refillDay",
      "body.credits.refill.x",
      "body.ratelimits[1].name",
      "body.ratelimits[1].limit",
      "body.ratelimits[1].duration",
      "body.ratelimits[1].autoApply",
      "body.ratelimits[2].name",
      "body.ratelimits[2].limit",
      "body.ratelimits[2].duration",
      "body.unknown",
    ]);
  });

  it("names at most 100 problems", async () => {
    const body = Object.fromEntries(Array.from({ length: 5_000 }, (_, i) => [`p${i}`, 1]));
    expect(await refusedAt("createApi", body)).toHaveLength(100);
  });

  it("says what is required, what would be right, and never the value", async () => {
    const { errors } = await failure(deaf().createKey({ name: "sk_live_secret\0", recoverable: true } as never));
    expect(errors).toEqual([
      { location: "body.apiId", message: "is required" },
      { location: "body.name", message: "must be well-formed text of 1 to 255 characters without control characters" },
      {
        location: "body.recoverable",
        message: "is not supported, it can only be false",
        fix: "leave it out: only the digest of a key is stored, its text cannot be given back",
      },
    ]);
    expect(JSON.stringify(errors)).not.toContain("secret");
  });
});

describe("requests: the bounds of each part", () => {
  /** Bodies with the one location that each is refused at. */
  const createKey: [part: object, location: string][] = [
    [{ apiId: "ab" }, "apiId"],
    [{ apiId: TEXT_300 }, "apiId"],
    [{ apiId: "api-1" }, "apiId"],
    [{ apiId: 123 }, "apiId"],
    [{ prefix: "" }, "prefix"],
    [{ prefix: "x".repeat(17) }, "prefix"],
    [{ name: "" }, "name"],
    [{ name: "x".repeat(256) }, "name"],
    [{ name: "\ud800" }, "name"],
    [{ name: null }, "name"],
    [{ byteLength: 256 }, "byteLength"],
    [{ byteLength: 16.5 }, "byteLength"],
    [{ externalId: "" }, "externalId"],
    [{ externalId: "a\nb" }, "externalId"],
    [{ externalId: "a\0" }, "externalId"],
    [{ externalId: "x".repeat(256) }, "externalId"],
    [{ meta: null }, "meta"],
    [{ meta: [] }, "meta"],
    [{ meta: "x" }, "meta"],
    [{ meta: { note: "\0" } }, "meta"],
    [{ meta: { big: 1n } }, "meta"],
    [{ meta: Object.fromEntries(Array.from({ length: 101 }, (_, i) => [`p${i}`, i])) }, "meta"],
    [{ roles: "reader" }, "roles"],
    [{ roles: Array.from({ length: 101 }, (_, i) => `r${i}`) }, "roles"],
    [{ roles: ["x".repeat(129)] }, "roles[0]"],
    [{ permissions: Array.from({ length: 1_001 }, (_, i) => `p${i}`) }, "permissions"],
    [{ permissions: new Array(1_000_000_000) }, "permissions"],
    [{ permissions: ["a b"] }, "permissions[0]"],
    [{ permissions: ["x".repeat(129)] }, "permissions[0]"],
    [{ permissions: ["ümlaut"] }, "permissions[0]"],
    [{ expires: -1 }, "expires"],
    [{ expires: 4_102_444_800_001 }, "expires"],
    [{ expires: NaN }, "expires"],
    [{ expires: "1" }, "expires"],
    [{ credits: null }, "credits"],
    [{ credits: [] }, "credits"],
    [{ credits: {} }, "credits.remaining"],
    [{ credits: { remaining: 1.5 } }, "credits.remaining"],
    [{ credits: { remaining: "5" } }, "credits.remaining"],
    [{ credits: { remaining: 5n } }, "credits.remaining"],
    [{ credits: { remaining: new Number(5) } }, "credits.remaining"],
    [{ credits: { remaining: { valueOf: () => -5 } } }, "credits.remaining"],
    [{ credits: { remaining: () => 5 } }, "credits.remaining"],
    [{ credits: { remaining: 2 ** 53 } }, "credits.remaining"],
    [{ credits: { remaining: 1, refill: null } }, "credits.refill"],
    [{ credits: { remaining: 1, refill: { interval: "monthly", amount: 1 } } }, "credits.refill.refillDay"],
    [{ credits: { remaining: 1, refill: { interval: "weekly", amount: 1 } } }, "credits.refill.refillDay"],
    [
      { credits: { remaining: 1, refill: { interval: "weekly", amount: 1, refillDay: 8 } } },
      "credits.refill.refillDay",
    ],
    [
      { credits: { remaining: 1, refill: { interval: "weekly", amount: 1, refillDay: 0 } } },
      "credits.refill.refillDay",
    ],
    [
      { credits: { remaining: 1, refill: { interval: "hourly", amount: 1, refillDay: 1 } } },
      "credits.refill.refillDay",
    ],
    [
      { credits: { remaining: 1, refill: { interval: "daily", amount: 1, timeZone: "Mars/Olympus" } } },
      "credits.refill.timeZone",
    ],
    [
      { credits: { remaining: 1, refill: { interval: "daily", amount: 1, timeZone: "+01:00" } } },
      "credits.refill.timeZone",
    ],
    [{ credits: { remaining: 1, refill: { interval: "daily", amount: 1, timeZone: "" } } }, "credits.refill.timeZone"],
    [
      { credits: { remaining: 1, refill: { interval: "daily", amount: 1, timeZone: null } } },
      "credits.refill.timeZone",
    ],
    [{ credits: { remaining: 1, refill: { interval: "daily", amount: 1, rollover: -1 } } }, "credits.refill.rollover"],
    [
      { credits: { remaining: 1, refill: { interval: "daily", amount: 1, rollover: 2 ** 53 } } },
      "credits.refill.rollover",
    ],
    [
      { credits: { remaining: 1, refill: { interval: "daily", amount: 1, rollover: null } } },
      "credits.refill.rollover",
    ],
    [{ credits: { remaining: 1, refill: { interval: "daily", amount: 2 ** 53 } } }, "credits.refill.amount"],
    [{ credits: { remaining: 1, refill: { interval: "daily", amount: 1, refillDay: 0 } } }, "credits.refill.refillDay"],
    [{ ratelimits: {} }, "ratelimits"],
    [{ ratelimits: Array.from({ length: 51 }, (_, i) => limit(`limit${i}`)) }, "ratelimits"],
    [{ ratelimits: [limit("x".repeat(129))] }, "ratelimits[0].name"],
    [{ ratelimits: [limit("one"), limit("two"), limit("one")] }, "ratelimits[2].name"],
    [{ ratelimits: [limit("one", { limit: 2 ** 53 })] }, "ratelimits[0].limit"],
    [{ ratelimits: [7] }, "ratelimits[0]"],
    [{ enabled: "false" }, "enabled"],
    [{ recoverable: true }, "recoverable"],
    [{ ipAllowlist: "10.0.0.1" }, "ipAllowlist"],
    [{ ipAllowlist: ["10.0.0.1", "10.0.0.0/33"] }, "ipAllowlist[1]"],
    [{ ipAllowlist: [1] }, "ipAllowlist[0]"],
    [{ ipAllowlist: Array.from({ length: 1_001 }, () => "10.0.0.1") }, "ipAllowlist"],
  ];

  it("createKey: each bound of contract 2.3 and 8 by itself", async () => {
    for (const [part, location] of createKey) {
      expect(await refusedAt("createKey", { apiId: API, ...part }), JSON.stringify(Object.keys(part))).toEqual([
        `body.${location}`,
      ]);
    }
  });

  it("createKey: the largest and the smallest of each part go in", async () => {
    const { create, keyring, time, apiId } = await world();
    const names = Array.from({ length: 1_000 }, (_, i) => `p${i}`);
    for (let i = 0; i < 100; i++) await keyring.createRole({ name: `role ${i}` });
    const { keyId, key } = await create({
      prefix: "x".repeat(16),
      byteLength: 255,
      name: "🔑".repeat(255),
      externalId: "x".repeat(255),
      meta: Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`p${i}`, i])),
      permissions: names,
      roles: Array.from({ length: 100 }, (_, i) => `role ${i}`),
      expires: 4_102_444_800_000,
      credits: {
        remaining: Number.MAX_SAFE_INTEGER,
        refill: { interval: "monthly", amount: Number.MAX_SAFE_INTEGER, refillDay: 31 },
      },
      ratelimits: Array.from({ length: 50 }, (_, i) => limit(`limit ${i}`, { limit: 1, duration: 1_000 })),
      recoverable: false,
      ipAllowlist: ["10.0.0.1", "2001:db8::/32"],
    });
    expect(key.length).toBeLessThanOrEqual(512);
    const record = await keyring.getKey({ keyId, decrypt: false });
    expect(record.permissions).toHaveLength(1_000);
    expect(record.credits?.remaining).toBe(Number.MAX_SAFE_INTEGER);
    expect(record.createdAt).toBe(time.now);
    const smallest = {
      name: "x",
      meta: {},
      permissions: [],
      roles: [],
      expires: 0,
      credits: { remaining: 0 },
      ratelimits: [],
    };
    const least = await createPastKey(keyring, { apiId, ...smallest });
    expect(await keyring.getKey({ keyId: least.keyId })).toMatchObject({
      expires: 0,
      meta: {},
      credits: { remaining: 0 },
    });
  });

  it("ruling G6: integers by value, −0 is 0; an undefined property is absent", async () => {
    const { keyring, apiId } = await world();
    const body = { apiId, expires: -0, credits: { remaining: -0 }, name: undefined } as never;
    const { keyId } = await createPastKey(keyring, body);
    const record = await keyring.getKey({ keyId });
    expect(Object.is(record.expires, 0)).toBe(true);
    expect(Object.is(record.credits?.remaining, 0)).toBe(true);
    expect(Object.hasOwn(record, "name")).toBe(false);
  });

  it("what cannot be read is a 400 that repeats nothing: a getter that throws, a trap of a Proxy", async () => {
    const { store, keyring, apiId } = await world();
    const { migrationId } = await keyring.createMigration({ algorithm: "sha256" });
    const fail = (): never => {
      throw new Error("secret");
    };
    const bodies = [
      {
        apiId,
        get name(): string {
          return fail();
        },
      },
      {
        apiId,
        meta: {
          get plan(): string {
            return fail();
          },
        },
      },
      {
        apiId,
        ratelimits: [
          {
            get name(): string {
              return fail();
            },
          },
        ],
      },
      new Proxy({}, { ownKeys: fail }),
      {
        apiId,
        migrationId,
        get keys(): [] {
          return fail();
        },
      },
    ] as object[];
    const ratelimits = createRatelimits(store);
    const verbs = [keyring.createKey, keyring.createMigration, keyring.migrateKeys, ratelimits.limit];
    for (const body of bodies)
      for (const verb of verbs as ((body: object) => Promise<unknown>)[]) {
        const error = await failure(verb(body));
        expect([error.code, error.status]).toEqual(["BAD_REQUEST", 400]);
        expect(JSON.stringify([error.message, error.errors])).not.toContain("secret");
      }
    expect((await failure(keyring.createKey(bodies[0] as never))).message).toContain("body: cannot be read");
  });

  const others: [verb: Verb, body: object, location: string][] = [
    ["createApi", {}, "name"],
    ["createApi", { name: "ab" }, "name"],
    ["createApi", { name: "docs", apiId: "api_123" }, "apiId"],
    ["getOrCreateApi", { name: "docs" }, "apiId"],
    ["getOrCreateApi", { name: "docs", apiId: "api-12345678" }, "apiId"],
    ["listApis", { limit: 0 }, "limit"],
    ["createApi", { name: "x".repeat(257) }, "name"],
    ["getApi", { apiId: "api_123" }, "apiId"],
    ["deleteApi", { apiId: "api 12345678" }, "apiId"],
    ["updateApi", { apiId: API, name: null }, "name"],
    ["updateApi", { apiId: API, enabled: null }, "enabled"],
    ["updateApi", { apiId: API, ipAllowlist: ["1.2.3"] }, "ipAllowlist[0]"],
    ["getKey", { keyId: KEY, decrypt: true }, "decrypt"],
    ["getKey", { keyId: "k!" }, "keyId"],
    ["listKeys", { apiId: "" }, "apiId"],
    ["listKeys", { apiId: API, limit: 0 }, "limit"],
    ["listKeys", { apiId: API, limit: 101 }, "limit"],
    ["listKeys", { apiId: API, cursor: "" }, "cursor"],
    ["listKeys", { apiId: API, cursor: "nonsense" }, "cursor"],
    ["listKeys", { apiId: API, cursor: "x".repeat(1_025) }, "cursor"],
    ["listKeys", { apiId: API, cursor: "abcde" }, "cursor"],
    ["listKeys", { apiId: API, cursor: 1 }, "cursor"],
    ["listKeys", { apiId: API, externalId: "" }, "externalId"],
    ["listKeys", { apiId: API, decrypt: true }, "decrypt"],
    ["listKeys", { apiId: API, revalidateKeysCache: 1 }, "revalidateKeysCache"],
    ["updateKey", { keyId: KEY, enabled: null }, "enabled"],
    ["updateKey", { keyId: KEY, roles: null }, "roles"],
    ["updateKey", { keyId: KEY, permissions: null }, "permissions"],
    ["updateKey", { keyId: KEY, ratelimits: null }, "ratelimits"],
    ["updateKey", { keyId: KEY, credits: { remaining: -1 } }, "credits.remaining"],
    ["updateKey", { keyId: KEY, credits: { refill: { interval: "monthly", amount: 1 } } }, "credits.refill.refillDay"],
    ["deleteKey", { keyId: KEY, permanent: 1 }, "permanent"],
    ["rerollKey", { keyId: KEY }, "expiration"],
    ["rerollKey", { keyId: KEY, expiration: -1 }, "expiration"],
    ["rerollKey", { keyId: KEY, expiration: 4_102_444_800_001 }, "expiration"],
    ["updateCredits", { keyId: KEY, operation: "increment" }, "value"],
    ["updateCredits", { keyId: KEY, operation: "increment", value: null }, "value"],
    ["updateCredits", { keyId: KEY, operation: "decrement", value: null }, "value"],
    ["updateCredits", { keyId: KEY, operation: "double", value: 1 }, "operation"],
    ["updateCredits", { keyId: "k", operation: "set", value: 1 }, "keyId"],
    ["whoami", { key: "" }, "key"],
    ["whoami", { key: "🔑".repeat(513) }, "key"],
    ["whoami", { key: "\udfff" }, "key"],
    ["addPermissions", { keyId: KEY, permissions: [] }, "permissions"],
    ["removePermissions", { keyId: KEY, permissions: [] }, "permissions"],
    ["setPermissions", { keyId: KEY }, "permissions"],
    ["addRoles", { keyId: KEY, roles: [] }, "roles"],
    ["removeRoles", { keyId: KEY, roles: [] }, "roles"],
    ["setRoles", { keyId: KEY, roles: [""] }, "roles[0]"],
    ["createPermission", { name: "", slug: "a" }, "name"],
    ["createPermission", { name: "x".repeat(513), slug: "a" }, "name"],
    ["createPermission", { name: "a", slug: "a b" }, "slug"],
    ["createPermission", { name: "a", slug: "a", description: "x".repeat(513) }, "description"],
    ["getPermission", { permission: "a b" }, "permission"],
    ["deletePermission", { permission: "" }, "permission"],
    ["listPermissions", { search: "x".repeat(257) }, "search"],
    ["createRole", { name: "" }, "name"],
    ["createRole", { name: "a", permissions: ["a b"] }, "permissions[0]"],
    ["getRole", { role: "x".repeat(129) }, "role"],
    ["deleteRole", {}, "role"],
    ["listRoles", { limit: 1.5 }, "limit"],
    ["setRolePermissions", { roleId: "a!", permissions: [] }, "roleId"],
    ["createIdentity", { externalId: "a\nb" }, "externalId"],
    ["createIdentity", { externalId: "a", ratelimits: [limit("one"), limit("one")] }, "ratelimits[1].name"],
    ["getIdentity", { identity: "" }, "identity"],
    ["updateIdentity", { identity: "a", ratelimits: null }, "ratelimits"],
    ["updateIdentity", { identity: "a", meta: 1 }, "meta"],
    ["deleteIdentity", { identity: "" }, "identity"],
    ["listIdentities", { search: 1 }, "search"],
    ["createMigration", { id: "ab", algorithm: "sha256" }, "id"],
    ["createMigration", {}, "algorithm"],
    ["getWorkspace", { id: "x" }, "id"],
    ["updateWorkspace", {}, "enabled"],
    ["updateWorkspace", { enabled: null }, "enabled"],
  ];

  it("all other verbs: each bound by itself", async () => {
    for (const [verb, body, location] of others) {
      expect(await refusedAt(verb, body), `${verb} ${location}`).toEqual([`body.${location}`]);
    }
  });

  it("code points between the bounds are counted, not UTF-16 units (ruling G6)", async () => {
    const { keyring } = await world();
    expect(await problems(keyring.createApi({ name: "🔑🔑" }))).toEqual(["body.name"]);
    await keyring.createApi({ name: "🔑🔑🔑" });
    expect(await problems(keyring.createApi({ name: "🔑".repeat(257) }))).toEqual(["body.name"]);
    expect(await problems(keyring.createApi({ name: "🔑".repeat(600) }))).toEqual(["body.name"]);
  });

  it("a duplicate name is found also where other parts of the list are faulty", async () => {
    const ratelimits = [limit("one"), limit("one", { limit: 0 }), null, {}, {}, limit("one")];
    expect(await refusedAt("createIdentity", { externalId: "a", ratelimits })).toEqual([
      "body.ratelimits[1].limit",
      "body.ratelimits[2]",
      "body.ratelimits[3].name",
      "body.ratelimits[3].limit",
      "body.ratelimits[3].duration",
      "body.ratelimits[4].name",
      "body.ratelimits[4].limit",
      "body.ratelimits[4].duration",
      "body.ratelimits[1].name",
      "body.ratelimits[5].name",
    ]);
  });
});
