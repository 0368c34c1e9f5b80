import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { compileQuery, createQueryCompiler } from "../../src/access/permission-query.js";
import { type CachedKey, createPreparer } from "../../src/cache/cached-key.js";
import { internPolicies, memoizeByListIdentity } from "../../src/cache/key-policy.js";
import { fieldsThat, KEY_FIELDS, type KeyField, type RecordPart } from "../../src/contracts/key-fields.js";
import type { KeyRecord } from "../../src/contracts/store.js";
import type { Identity } from "../../src/contracts/types.js";
import { deepFreeze } from "../../src/lib/deep-freeze.js";
import { createAllowlist } from "../../src/lib/ip-ranges.js";
import { clampIdentity } from "../../src/ratelimit/take-limits.js";
import { plainRecord, records } from "../records.js";

const record = (permissions: readonly string[], roles: readonly string[] = []): KeyRecord =>
  plainRecord({ permissions, roles });

/** The part of a cached key that keeps a field, by the part that the table gives it to. */
const PARTS = {
  key: (key) => key,
  policy: ({ policy }) => policy,
  rare: ({ rare }) => rare,
} satisfies Partial<Record<RecordPart, (key: CachedKey) => object>> as Partial<
  Record<RecordPart, (key: CachedKey) => object>
>;

describe("createPreparer: one key", () => {
  it("keeps every field of its record, in the part that the table says", () => {
    const prepare = createPreparer();
    fc.assert(
      fc.property(records, (one) => {
        const key = prepare(one);
        for (const [name, { record: part, usual }] of Object.entries<KeyField>(KEY_FIELDS)) {
          const place = part && PARTS[part];
          if (place === undefined) continue;
          const given = one[name as keyof KeyRecord] ?? usual;
          const right =
            name === "ref"
              ? (one.account?.ref ?? one.ref)
              : name === "identity"
                ? given && clampIdentity(given as Identity)
                : given;
          expect((place(key) as Record<string, unknown>)[name], name).toEqual(right);
        }
        const { permissions, roles, ratelimits } = one;
        expect([key.policy.grants.permissions, key.policy.grants.roles]).toEqual([permissions, roles]);
        const shared = (one.identity?.ratelimits ?? []).filter(
          ({ name }) => !ratelimits.some((own) => own.name === name),
        );
        const limits = key.limits.map(({ id, name, limit, duration, autoApply }) => ({
          id,
          name,
          limit,
          duration,
          autoApply,
        }));
        expect(limits).toEqual([...ratelimits, ...shared]);
        const addresses = [undefined, "192.0.2.1", "192.0.2.2"];
        const allows = one.ipAllowlists.length === 0 ? () => true : createAllowlist(one.ipAllowlists);
        expect(addresses.map((address) => key.rare.allows?.(address) ?? true)).toEqual(addresses.map(allows));
      }),
    );
  });

  it("takes nothing from a polluted prototype that its record lacks", () => {
    const absent = fieldsThat({ absent: true }).filter((name) => (KEY_FIELDS[name] as KeyField).record !== undefined);
    const clean = createPreparer()(plainRecord());
    for (const name of absent) {
      Object.defineProperty(Object.prototype, name, {
        value: { id: "x", ref: "x", ratelimits: [] },
        configurable: true,
        writable: true,
      });
      try {
        const key = createPreparer()(plainRecord());
        for (const place of [key, key.policy, key.rare])
          expect(
            Object.hasOwn(place, name) ? (place as unknown as Record<string, unknown>)[name] : undefined,
            name,
          ).toBeUndefined();
        expect(key.ref).toBe(clean.ref);
        expect(key.bucketOwner).toBe(clean.keyId);
        expect(key.rare.shared).toBeUndefined();
      } finally {
        delete (Object.prototype as Record<string, unknown>)[name];
      }
    }
  });

  it("what results show of it is frozen all the way down", () => {
    const { rare } = createPreparer()(
      plainRecord({ meta: { a: { b: [1] } }, identity: { id: "id_1", externalId: "user", meta: { a: {} } } }),
    );
    const { meta, identity } = rare as unknown as { meta: { a: { b: unknown } }; identity: { meta: { a: unknown } } };
    for (const part of [meta, meta.a, meta.a.b, identity, identity.meta, identity.meta.a])
      expect(Object.isFrozen(part)).toBe(true);
  });
});

describe("createPreparer: what keys share", () => {
  it("keys with the same permissions and roles share what is derived of them", () => {
    const prepare = createPreparer();
    for (const [permissions, roles] of [[["a", "b"]], [["a"], ["r"]], [["a b"]], [[]]] as const) {
      expect(prepare(record(permissions, roles)).policy.grants).toBe(
        prepare(record([...permissions], roles && [...roles])).policy.grants,
      );
    }
  });

  it("ruling B5: no two others do, whatever names a store may hold", () => {
    const prepare = createPreparer();
    const different = [
      record(["a", "b"]),
      record(["a b"]),
      record(["a\nb"]),
      record(["", "a", "b"]),
      record(["a"], ["b"]),
      record(["a", '["b"]']),
      record(["a"], ["b", "c"]),
      record(["a"], ["b c"]),
      record([' [["a"],[]]']),
      record([""]),
      record([]),
      record([], [""]),
    ].map((one) => prepare(one).policy.grants);
    expect(new Set(different).size).toBe(different.length);
    const query = createQueryCompiler()("a");
    expect(different.map((grants) => grants.satisfies(query)).indexOf(false)).toBe(1);
  });

  it("of the last query its mark is kept, and not the query, which nobody else may hold any more", () => {
    const { grants } = createPreparer()(record(["a"])).policy;
    const mark = Symbol();
    let asked = 0;
    const ask = (of: symbol, answer: boolean) => grants.satisfies({ mark: of, satisfiedBy: () => (asked++, answer) });
    expect([ask(mark, true), ask(mark, false), ask(Symbol(), false), ask(mark, true)]).toEqual([
      true,
      true,
      false,
      true,
    ]);
    expect(asked).toBe(3);
    expect(compileQuery("a").mark).not.toBe(compileQuery("a").mark);
  });

  it("ruling C1: a limit of one key is never taken for permissions of another", () => {
    const prepare = createPreparer();
    const limit = { id: "rl_1", name: "a", limit: 1, duration: 1_000, autoApply: true };
    const limited = prepare({ ...record(['["r"]']), ratelimits: [limit] });
    const named = prepare(record(['"a"', "1", "1000", "true"], ["r"]));
    expect(named.policy).not.toBe(limited.policy);
    expect(named.policy.limits).toEqual([]);
    expect(named.policy.grants.roles).toEqual(["r"]);
  });

  it("keys whose lists are the same objects share what those with equal lists do, and no more (property)", () => {
    const lists = deepFreeze([[], ["a"], ["a", "b"], ["a b"]]);
    const limit = { id: "rl_1", name: "one", limit: 1, duration: 1_000, autoApply: true };
    const limits = [
      limit,
      { ...limit, name: "two" },
      { ...limit, limit: 2 },
      { ...limit, duration: 2_000 },
      { ...limit, autoApply: false },
    ];
    const monthly = { interval: "monthly", amount: 1, refillDay: 1 } as const;
    const refills = [
      monthly,
      { ...monthly, refillDay: 2 },
      { ...monthly, amount: 2 },
      { interval: "daily", amount: 1 } as const,
    ];
    const flag = fc.boolean();
    const some = fc.record({
      permissions: fc.constantFrom(...lists),
      roles: fc.constantFrom(...lists),
      enabled: flag,
      parentDisabled: flag,
      hasCredits: flag,
      workspaceId: fc.constantFrom("ws", "ws2"),
      apiId: fc.constantFrom("api", "api2"),
      ratelimits: fc.array(fc.constantFrom(...limits), { maxLength: 2 }),
      refill: fc.option(fc.constantFrom(...refills), { nil: undefined }),
    });
    // Each part is often as in the one before: else hardly two would share.
    const next = fc.tuple(
      some,
      fc.subarray(["permissions", "roles", "ratelimits", "refill", "enabled", "parentDisabled", "hasCredits", "apiId"]),
    );
    fc.assert(
      fc.property(some, fc.array(next, { maxLength: 40 }), (first, rest) => {
        const [near, byName] = [createPreparer(), createPreparer()];
        const policyOf = new Map<unknown, unknown>();
        let last: Record<string, unknown> = first;
        for (const [drawn, changed] of [[first, []] as const, ...rest]) {
          last = { ...last, ...Object.fromEntries(changed.map((name) => [name, drawn[name as keyof typeof drawn]])) };
          const { refill, ...one } = { ...record([]), ...last };
          const whole = refill === undefined ? one : { ...one, refill };
          const { policy } = near(whole);
          const twin = byName({ ...whole, permissions: [...one.permissions], roles: [...one.roles] }).policy;
          expect(policy).toEqual(twin);
          expect(policyOf.get(twin) ?? policy).toBe(policy);
          policyOf.set(twin, policy);
        }
        expect(new Set(policyOf.values()).size).toBe(policyOf.size);
      }),
    );
  });

  it("keys that differ in one field of a policy never share, whichever it is", () => {
    const whole = record(deepFreeze(["a"]), deepFreeze(["r"]));
    const limit = { id: "rl_1", name: "one", limit: 1, duration: 1_000, autoApply: true };
    const values: Readonly<Record<string, readonly [unknown, unknown]>> = {
      text: ["a", "b"],
      flag: [true, false],
      refill: [undefined, { interval: "daily", amount: 1 }],
    };
    for (const field of [
      ...fieldsThat({ record: "policy" }),
      ...fieldsThat({ record: "limits" }),
      ...fieldsThat({ record: "grants" }),
    ]) {
      const { row = "flag" }: KeyField = KEY_FIELDS[field];
      const [one, other] =
        field === "ratelimits" ? [[], [limit]] : typeof row === "string" ? values[row]! : [["x"], ["y"]];
      const prepare = createPreparer();
      expect(prepare({ ...whole, [field]: one }).policy, field).not.toBe(prepare({ ...whole, [field]: other }).policy);
      expect(prepare({ ...whole, [field]: other }).policy[field as "enabled"] ?? other, field).toEqual(other);
    }
  });

  it("a field that is new to policies: keys that differ in it never share, and all else is shared as before", () => {
    const planted = "validHours" as "apiId";
    const intern = internPolicies([...fieldsThat({ record: "policy" }), planted]);
    const [lists, none] = [deepFreeze(["a"]), deepFreeze<string[]>([])];
    const hours: unknown[] = [
      undefined,
      null,
      NaN,
      Infinity,
      "9-17",
      "undefined",
      "9",
      9,
      true,
      [],
      {},
      [9],
      { 0: 9 },
      ["9"],
    ];
    hours.push({ from: 9, to: 17 }, { from: 9 }, { from: 9, to: 18 }, { from: { to: 9 } }, { from: [9] });
    const of = (value: unknown, permissions: readonly string[]) =>
      intern({ ...record(permissions, none), [planted]: structuredClone(value) as string });
    // The same lists are compared field by field, equal ones by name; each value after each other.
    const policies = hours.map((value) => of(value, lists));
    expect(new Set(policies).size).toBe(hours.length);
    hours.forEach((one, i) => {
      expect(of(one, [...lists])).toBe(policies[i]);
      expect(policies[i]![planted]).toEqual(one);
      for (const [j, other] of hours.entries()) {
        expect(of(one, lists)).toBe(policies[i]);
        expect(of(other, lists)).toBe(policies[j]);
      }
    });
  });

  it("lists that are not frozen may change, and are read each time", () => {
    const prepare = createPreparer();
    const permissions = ["a"];
    expect(prepare(record(permissions)).policy.grants.permissions).toEqual(["a"]);
    permissions.push("b");
    expect(prepare(record(permissions)).policy.grants.permissions).toEqual(["a", "b"]);
  });

  it("lists that are too long for a text share their grants if they have the same names, and nothing else", () => {
    const prepare = createPreparer();
    const lists = Array.from({ length: 6 }, (_, n) => Array.from({ length: 5_000 }, (_, i) => `p${i}.n${n}.*`).sort());
    const grantsOf = (list: readonly string[], roles: readonly string[] = []) => {
      const { policy } = prepare({ ...record(list), roles });
      expect(policy.grants.roles).toEqual(roles);
      expect(policy.grants.permissions).toEqual(list);
      return policy.grants;
    };
    const [one, two] = lists as [string[], string[]];
    const first = grantsOf(one);
    expect(grantsOf(Object.freeze([...one]))).toBe(first);
    expect(grantsOf(one, ["admin"])).not.toBe(first);
    expect([first.covers("p4999.n0.x"), first.covers("p4999.n1.x"), grantsOf(two).covers("p4999.n1.x")]).toEqual([
      ...[true, false, true],
    ]);
    // A list that is not frozen may change.
    one.pop();
    expect(grantsOf(one)).not.toBe(first);
    for (const list of lists) grantsOf(list);
    expect(grantsOf([...lists[5]!])).toBe(grantsOf(lists[5]!));
    const other = prepare({ ...record(two), enabled: false }).policy;
    expect([other.enabled, prepare(record(two)).policy.enabled]).toEqual([false, true]);
  });

  it("long lists are held while they are few, and are let go together", () => {
    const lists = deepFreeze(
      Array.from({ length: 12 }, (_, n) => Array.from({ length: 10_000 }, (_, i) => `p${n}.${i}`)),
    );
    const roles = deepFreeze<string[]>([]);
    let made = 0;
    const find = memoizeByListIdentity(
      () => ++made,
      () => true,
    );
    const madeOf = (list: readonly string[]): number => {
      const before = made;
      find(record(list, roles));
      return made - before;
    };
    expect(lists.slice(0, 6).map(madeOf)).toEqual([1, 1, 1, 1, 1, 1]);
    expect(lists.slice(0, 6).map(madeOf)).toEqual([0, 0, 0, 0, 0, 0]);
    expect(lists.slice(6).map(madeOf)).toEqual([1, 1, 1, 1, 1, 1]);
    expect(lists.slice(0, 6).map(madeOf)).toEqual([1, 1, 1, 1, 1, 1]);
    const longest = deepFreeze(lists.flat());
    // Longer than the bound, it is held alone.
    expect([madeOf(longest), madeOf(longest), ...lists.slice(0, 2).map(madeOf), madeOf(longest)]).toEqual([
      1, 0, 1, 1, 1,
    ]);
  });

  it("more lists than are held: each key still has its own", () => {
    const prepare = createPreparer();
    const lists = deepFreeze(Array.from({ length: 200 }, (_, n) => [`p.${n}`]));
    for (let round = 0; round < 2; round++) {
      for (const list of lists) expect(prepare(record(list, lists[0])).policy.grants.permissions).toEqual(list);
    }
  });

  it("memory: what is remembered is bounded by the length of the names, not by their number alone", () => {
    const prepare = createPreparer();
    const first = ["long", "short"].map((name) => prepare(record([name])));
    const fill = (length: number) => {
      for (let n = 0; n < 500; n++) prepare(record([`${n}.`.padEnd(length, "x")]));
    };
    fill(20);
    expect(prepare(record(["short"])).policy).toBe(first[1]!.policy);
    fill(10_000);
    const again = prepare(record(["long"]));
    expect(again.policy).not.toBe(first[0]!.policy);
    expect(again.policy.grants).not.toBe(first[0]!.policy.grants);
  });
});
