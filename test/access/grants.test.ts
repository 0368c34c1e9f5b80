/**
 * Both permission forms of contract 5.4 with their wildcards (rulings B6, B7), as examples and against a naive matcher.
 */
import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { createCallerGrants, explainGrant } from "../../src/access/grants.js";
import type { Resource } from "../../src/contracts/caller.js";
import { runs } from "../runs.js";

const WS = "ws_1";
const name = (path: string) => `svc:v1:${WS}:${path}`;
const key = (id: string, keyId: string): Resource => ({ type: "api", id, keyId });
const api = (id: string): Resource => ({ type: "api", id });
const may = (grant: string, action: string, resource: Resource) =>
  createCallerGrants([grant], WS).may(action, resource);
const mayAny = (grant: string, action: string, type: Resource["type"] = "api") =>
  createCallerGrants([grant], WS).mayAny(action, type);

describe("callerGrants: tuples (ruling B7)", () => {
  it("an id covers that API and its keys; * covers all, and what has no id", () => {
    expect(may("api.a.verify_key", "verify_key", key("a", "k"))).toBe(true);
    expect(may("api.a.verify_key", "verify_key", key("b", "k"))).toBe(false);
    expect(may("api.a.read_api", "read_api", api("a"))).toBe(true);
    expect(may("api.a.create_api", "create_api", { type: "api" })).toBe(false);
    expect(may("api.*.create_api", "create_api", { type: "api" })).toBe(true);
    expect(may("api.*.verify_key", "verify_key", key("b", "k"))).toBe(true);
  });

  it("the action and the type are compared exactly", () => {
    for (const action of ["verify", "verify_keys", "VERIFY_KEY", "*", ""])
      expect(may("api.*.verify_key", action, key("a", "k"))).toBe(false);
    expect(may("ratelimit.*.limit", "limit", { type: "ratelimit", id: "ns_1" })).toBe(true);
    expect(may("ratelimit.*.limit", "limit", api("a"))).toBe(false);
    expect(may("rbac.*.create_role", "create_role", { type: "rbac" })).toBe(true);
    expect(may("identity.*.read_identity", "read_identity", { type: "identity" })).toBe(true);
  });

  const malformed = [
    "",
    "*",
    "api",
    "api.*",
    "api.*.*",
    "*.*.*",
    "*.*.verify_key",
    "api.*.verify_key.x",
    "api..verify_key",
    "api.**.verify_key",
  ];
  it.each([
    ...malformed,
    "api.a*.verify_key",
    "API.*.verify_key",
    " api.*.verify_key",
    "keys.*.verify_key",
    "api/*/verify_key",
    "__proto__.*.x",
  ])("%j grants nothing", (grant) => {
    expect(mayAny(grant, "verify_key")).toBe(false);
    expect(may(grant, "verify_key", key("a", "k"))).toBe(false);
    expect(may(grant, "verify_key", { type: "api" })).toBe(false);
  });
});

describe("callerGrants: resource names (ruling B6)", () => {
  it("the five forms of contract 4.1 that verify", () => {
    const forms: [grant: string, covers: Resource[], not: Resource[]][] = [
      ["api.*.verify_key", [key("a", "k"), key("b", "l")], []],
      ["api.a.verify_key", [key("a", "k"), key("a", "l")], [key("b", "k")]],
      [name("keyspaces/*/keys/*#verify_key"), [key("a", "k"), key("b", "l")], []],
      [name("keyspaces/a/keys/*#verify_key"), [key("a", "k"), key("a", "l")], [key("b", "k")]],
      [name("keyspaces/a/keys/k#verify_key"), [key("a", "k")], [key("a", "l"), key("b", "k")]],
    ];
    for (const [grant, covers, not] of forms) {
      expect(mayAny(grant, "verify_key"), grant).toBe(true);
      for (const resource of covers) expect(may(grant, "verify_key", resource), grant).toBe(true);
      for (const resource of not) expect(may(grant, "verify_key", resource), grant).toBe(false);
    }
  });

  it("* is one segment: keyspaces/* covers no keys, and verifies nothing", () => {
    const grant = name("keyspaces/*#verify_key");
    expect(may(grant, "verify_key", key("a", "k"))).toBe(false);
    expect(mayAny(grant, "verify_key")).toBe(false);
    expect(may(name("keyspaces/*#create_key"), "create_key", api("a"))).toBe(true);
    expect(mayAny(name("keyspaces/*/keys/*#create_key"), "create_key")).toBe(false);
    expect(may(name("keyspaces/*/keys/k#verify_key"), "verify_key", key("b", "k"))).toBe(true);
  });

  it("** as the last segment covers the base and all below, and alone everything; * as the action only with it", () => {
    expect(may(name("keyspaces/a/**#read_key"), "read_key", key("a", "k"))).toBe(true);
    expect(may(name("keyspaces/a/**#read_api"), "read_api", api("a"))).toBe(true);
    expect(may(name("keyspaces/a/**#read_api"), "read_api", api("b"))).toBe(false);
    expect(may(name("keyspaces/a/keys/**#read_api"), "read_api", api("a"))).toBe(false);
    const all = createCallerGrants([name("**#*")], WS);
    for (const type of ["api", "ratelimit", "rbac", "identity"] as const) {
      expect(all.may("anything", { type })).toBe(true);
      expect(all.mayAny("anything", type)).toBe(true);
    }
    expect(all.may("verify_key", key("a", "k"))).toBe(true);
    expect(mayAny(name("keyspaces/*/keys/*#*"), "verify_key")).toBe(false);
    const mixed = createCallerGrants([name("keyspaces/a/**#*"), "api.b.verify_key"], WS);
    expect([mixed.may("verify_key", key("a", "k")), mixed.may("verify_key", key("b", "k"))]).toEqual([true, true]);
    expect([mixed.may("read_key", key("a", "k")), mixed.may("read_key", key("b", "k"))]).toEqual([true, false]);
  });

  const wrong = [
    `svc:v1:ws_2:keyspaces/*/keys/*#verify_key`,
    `svc:v1:*:keyspaces/*/keys/*#verify_key`,
    `svc:v2:${WS}:keyspaces/*/keys/*#verify_key`,
    `SVC:v1:${WS}:keyspaces/*/keys/*#verify_key`,
    `other:v1:${WS}:keyspaces/*/keys/*#verify_key`,
    `svc:v1:${WS}:x:keyspaces/*/keys/*#verify_key`,
    name("keyspaces/*/keys/*"),
    name("keyspaces/*/keys/*#"),
    name("keyspaces/*/keys/*#verify_key#verify_key"),
    name("/keyspaces/*/keys/*#verify_key"),
    name("keyspaces/*/keys/*/#verify_key"),
    name("keyspaces//keys/*#verify_key"),
    name("keyspaces/**/keys/*#verify_key"),
    name("keyspaces/a*/keys/*#verify_key"),
    name("keyspaces/***#verify_key"),
    name("#verify_key"),
    name("keyspaces/*/keys/*/x#verify_key"),
    name("keyspaces/*/keys/*/x/**#verify_key"),
    name("keyspaces/*/rows/*#verify_key"),
  ];
  it.each(wrong)("%s grants nothing", (grant) => {
    expect(mayAny(grant, "verify_key")).toBe(false);
    expect(may(grant, "verify_key", key("a", "k"))).toBe(false);
    expect(explainGrant(grant, WS)).toBeDefined();
  });

  it("the peer's paths of namespaces, permissions and roles are aliases", () => {
    const space = (id?: string): Resource => (id === undefined ? { type: "ratelimit" } : { type: "ratelimit", id });
    const rbac = (id?: string): Resource => (id === undefined ? { type: "rbac" } : { type: "rbac", id });
    const one = name("ratelimits/namespaces/ns_1#limit");
    expect([may(one, "limit", space("ns_1")), may(one, "limit", space("ns_2")), may(one, "limit", space())]).toEqual([
      true,
      false,
      false,
    ]);
    for (const all of ["ratelimits/namespaces/*#limit", "ratelimits/namespaces/**#*", "ratelimits/**#limit"]) {
      expect(may(name(all), "limit", space()), all).toBe(true);
      expect(may(name(all), "read_key", { type: "api", id: "a" }), all).toBe(false);
      expect(explainGrant(name(all), WS), all).toBeUndefined();
    }
    expect(may(name("rbac/permissions/*#read_permission"), "read_permission", rbac())).toBe(true);
    expect(may(name("rbac/permissions/perm_1#read_permission"), "read_permission", rbac("perm_1"))).toBe(true);
    expect(may(name("rbac/permissions/perm_1#read_permission"), "read_permission", rbac("perm_2"))).toBe(false);
    expect(may(name("rbac/roles/*#add_permission_to_role"), "add_permission_to_role", rbac("role_1"))).toBe(true);
    expect(may(name("rbac/permissions/*#add_permission_to_key"), "add_permission_to_key", rbac("perm_1"))).toBe(true);
    expect(may(name("rbac/roles/*#add_permission_to_key"), "add_permission_to_key", rbac("perm_1"))).toBe(false);
    expect(may(name("rbac/permissions/**#*"), "create_permission", rbac())).toBe(true);
    // A path of permissions says nothing of roles, and the other way round.
    for (const [path, action] of [
      ["rbac/permissions/**#*", "delete_role"],
      ["rbac/permissions/*#delete_role", "delete_role"],
      ["rbac/roles/**#*", "delete_permission"],
      ["ratelimits/overrides/*#limit", "limit"],
    ] as const)
      for (const resource of [rbac(), rbac("x"), space(), space("x")])
        expect(may(name(path), action, resource), path).toBe(false);
    expect(explainGrant(name("rbac/permissions/*#delete_role"), WS)).toBeDefined();
  });

  it("the scheme word is an option", () => {
    const grants = createCallerGrants([`acme:v1:${WS}:**#*`, name("keyspaces/b/**#*")], WS, "acme");
    expect([
      grants.may("read_api", api("a")),
      createCallerGrants([`acme:v1:${WS}:**#*`], WS).may("read_api", api("a")),
    ]).toEqual([true, false]);
    expect(createCallerGrants([name("**#*")], WS, "acme").mayAny("read_api", "api")).toBe(false);
  });
});

describe("callerGrants: questions about keys", () => {
  it("a key without its API is not one of an API that is called undefined", () => {
    for (const grant of ["keyspaces/undefined/keys/k#read_key", "keyspaces/undefined/keys/*#read_key"]) {
      expect(may(name(grant), "read_key", { type: "api", keyId: "k" })).toBe(false);
      expect(may(name(grant), "read_key", key("undefined", "k"))).toBe(true);
    }
    expect(may("api.undefined.read_api", "read_api", { type: "api" })).toBe(false);
  });
});

describe("explainGrant: what can never grant anything", () => {
  it("says what is wrong, and what would be right", () => {
    const tuple =
      "write <type>.<id or *>.<action> with a type of api, ratelimit, rbac, identity, workspace, such as api.*.verify_key";
    const message = "is not a valid root key permission";
    expect(explainGrant("documents.read", WS)).toEqual({ message, fix: tuple });
    const path =
      "write a path below keyspaces, namespaces, rbac, identities, workspace, ratelimits/namespaces, rbac/permissions, rbac/roles and an action, such as ";
    const wrongPath = { message, fix: `${path}${name("keyspaces/*/keys/*#verify_key")}` };
    for (const grant of ["documents/*#read", "keyspaces/**#", "keyspaces/**#a b", "keyspaces/**#**", "keyspaces/**"])
      expect(explainGrant(name(grant), WS), grant).toEqual(wrongPath);
    expect(explainGrant(name("keyspaces/**#*"), WS)).toBeUndefined();
  });

  it("an action on keys grants nothing where no key is covered; read_key is asked of an API too", () => {
    const message = "is not a valid root key permission";
    for (const path of ["keyspaces/*", "keyspaces/a", "namespaces/**", "rbac/*"]) {
      const fault = { message, fix: expect.stringContaining(`such as ${name("keyspaces/*/keys/*#verify_key")}`) };
      expect(explainGrant(name(`${path}#verify_key`), WS), path).toEqual(fault);
    }
    for (const grant of ["rbac.*.verify_key", "rbac.*.read_key", "identity.*.delete_key"])
      expect(explainGrant(grant, WS), grant).toEqual({ message, fix: expect.stringContaining("api.*.verify_key") });
    for (const action of ["update_key", "delete_key", "encrypt_key", "decrypt_key"])
      expect(explainGrant(name(`keyspaces/*#${action}`), WS)?.message, action).toBe(message);
    for (const action of ["verify_key", "read_key", "update_key"])
      for (const path of ["keyspaces/**", "keyspaces/a/**", "keyspaces/a/keys/*", "keyspaces/*/keys/k", "**"])
        expect(explainGrant(name(`${path}#${action}`), WS), path).toBeUndefined();
    // `listKeys` asks whether any key may be read, and then about the API.
    expect(explainGrant(name("keyspaces/*#read_key"), WS)).toBeUndefined();
  });

  it("says what would be right, and not what was sent", () => {
    expect(explainGrant("api.*.verify_key", WS)).toBeUndefined();
    expect(explainGrant(name("keyspaces/a#create_key"), WS)).toBeUndefined();
    expect(explainGrant("documents.read", WS)?.fix).toContain("api.*.verify_key");
    expect(explainGrant("svc:v1:ws_2:**#*", WS)).toEqual({
      message: "names another version or workspace",
      fix: `begin it with svc:v1:${WS}:`,
    });
    expect(explainGrant(name("documents/*#read"), WS)?.fix).toContain("keyspaces");
    for (const grant of ["secret_1", "svc:secret_1", name("secret_1")])
      expect(JSON.stringify(explainGrant(grant, WS))).not.toContain("secret_1");
  });
});

const ROOTS = {
  api: "keyspaces",
  ratelimit: "namespaces",
  rbac: "rbac",
  identity: "identities",
  workspace: "workspace",
} as const;

/** The rulings said again, as a regular expression over a path that is written out. */
function naive(grant: string, action: string, { type, id, keyId }: Resource): boolean {
  const path = [ROOTS[type], id ?? " ", ...(keyId === undefined ? [] : ["keys", keyId])].join("/");
  const tuple = /^(\w+)\.(\*|[\w-]+)\.([\w-]+)$/.exec(grant);
  if (tuple !== null) return tuple[1] === type && (tuple[2] === "*" || tuple[2] === id) && tuple[3] === action;
  const parts = new RegExp(`^svc:v1:${WS}:((?:(?:\\*|[\\w-]+)/)*(?:\\*\\*|\\*|[\\w-]+))#(\\*|[\\w-]+)$`).exec(grant);
  if (parts === null) return false;
  const [, pattern = "", verb = ""] = parts;
  const isDeep = /(^|\/)\*\*$/.test(pattern);
  if (verb === "*" ? !isDeep : verb !== action) return false;
  const segment = (text: string) => (text === "*" ? "[^/]+" : text);
  if (pattern === "**") return true;
  const base = pattern
    .replace(/\/\*\*$/, "")
    .split("/")
    .map(segment)
    .join("/");
  // The aliases of a role and a permission, which have a segment more.
  const alias = { read_role: "rbac/roles", read_permission: "rbac/permissions" }[action];
  const paths = type === "rbac" && alias !== undefined && id !== undefined ? [path, `${alias}/${id}`] : [path];
  const covered = new RegExp(`^${base}${isDeep ? "(/.*)?" : ""}$`);
  return paths.some((one) => covered.test(one));
}

const word = fc.constantFrom(
  "a",
  "b",
  "k",
  "verify_key",
  "read_api",
  "*",
  "**",
  "keyspaces",
  "keys",
  "rbac",
  "namespaces",
  "",
  "x*",
);
const anyGrant = fc.oneof(
  fc
    .tuple(fc.constantFrom("api", "rbac", "ratelimit", "x"), word, fc.constantFrom("verify_key", "read_api", "*"))
    .map((parts) => parts.join(".")),
  fc
    .tuple(
      fc.constantFrom(...Object.values(ROOTS), "*"),
      fc.array(word, { maxLength: 4 }),
      fc.constantFrom("verify_key", "read_api", "*"),
    )
    .map(([root, rest, action]) => name(`${[root, ...rest].join("/")}#${action}`)),
  fc
    .tuple(
      fc.constantFrom("a", "b", "*"),
      fc.constantFrom("k", "l", "*", "**"),
      fc.constantFrom("verify_key", "read_api", "*"),
    )
    .map(([id, k, action]) => name(`keyspaces/${id}/keys/${k}#${action}`)),
);
const universe: Resource[] = (Object.keys(ROOTS) as Resource["type"][]).flatMap((type) => {
  const ids = [
    undefined,
    "a",
    "b",
    "k",
    "l",
    "verify_key",
    "read_api",
    "keyspaces",
    "keys",
    "rbac",
    "namespaces",
    "fresh",
  ];
  const plain = ids.map((id): Resource => (id === undefined ? { type } : { type, id }));
  const keys = plain.flatMap((resource) =>
    ids.flatMap((keyId) => (keyId === undefined ? [] : [{ ...resource, keyId }])),
  );
  return type === "api" ? [...plain, ...keys] : plain;
});

describe("callerGrants: many grants", () => {
  const grantsOf = (count: number) =>
    Array.from({ length: count }, (_, i) => (i % 2 === 0 ? name(`keyspaces/a${i}/**#*`) : `api.a${i}.act_${i}`));

  it("compiling holds each grant once, whatever the others: 1,000 take ten times what 100 take", () => {
    const heldOf = (count: number) => {
      const adding = vi.spyOn(Set.prototype, "add");
      createCallerGrants(grantsOf(count), WS);
      const held = adding.mock.calls.length;
      adding.mockRestore();
      return held;
    };
    // An id among the APIs and one among those whose keys are covered.
    expect([heldOf(100), heldOf(1_000)]).toEqual([200, 2_000]);
  });

  it("1,000 grants of their own action and of every action answer as each alone would", () => {
    const grants = grantsOf(1_000);
    const compiled = createCallerGrants(grants, WS);
    for (let i = 0; i < 1_000; i += 37) {
      for (const action of [`act_${i}`, "act_1", "other"]) {
        for (const resource of [api(`a${i}`), key(`a${i}`, "k"), api("a1"), api("fresh"), { type: "api" } as const]) {
          const expected = grants.some((grant) => naive(grant, action, resource));
          expect(compiled.may(action, resource), `${action} ${JSON.stringify(resource)}`).toBe(expected);
        }
      }
    }
  });
});

describe("callerGrants: against a naive matcher", () => {
  it("may: every resource of a small universe, whatever the grants (rulings B6, B7)", () => {
    fc.assert(
      fc.property(
        fc.array(anyGrant, { maxLength: 4 }),
        fc.constantFrom("verify_key", "read_api", "other"),
        (grants, action) => {
          const compiled = createCallerGrants(grants, WS);
          for (const resource of universe) {
            const expected = grants.some((grant) => naive(grant, action, resource));
            if (compiled.may(action, resource) !== expected)
              throw new Error(`${JSON.stringify(resource)}: expected ${expected}`);
          }
        },
      ),
      { numRuns: runs(1_500) },
    );
  });

  it("mayAny: exactly where some resource that the action is for is covered (contract 4.1-4)", () => {
    fc.assert(
      fc.property(fc.array(anyGrant, { maxLength: 3 }), fc.constantFrom("verify_key", "read_api"), (grants, action) => {
        const compiled = createCallerGrants(grants, WS);
        for (const type of Object.keys(ROOTS) as Resource["type"][]) {
          const isOnKeys = type === "api" && action === "verify_key";
          const meant = universe.filter(
            (resource) => resource.type === type && (resource.keyId !== undefined) === isOnKeys,
          );
          const expected = meant.some((resource) => compiled.may(action, resource));
          if (compiled.mayAny(action, type) !== expected) throw new Error(`${type}: expected ${expected}`);
        }
      }),
      { numRuns: runs(1_500) },
    );
  });

  it("explainGrant: silent exactly for what covers something that its action is for", () => {
    fc.assert(
      fc.property(anyGrant, (grant) => {
        const covers = ["verify_key", "read_api", "read_role", "read_permission", "other"].some((action) =>
          universe.some(
            (resource) => (action !== "verify_key" || resource.keyId !== undefined) && naive(grant, action, resource),
          ),
        );
        expect(explainGrant(grant, WS) === undefined).toBe(covers);
      }),
      { numRuns: runs(1_000), examples: [["svc:v1:ws_1:rbac/*/a/**#*"]] },
    );
  });
});
