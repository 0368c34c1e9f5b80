import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type CachedKey, createPreparer } from "../../src/cache/cached-key.js";
import { packedKeys } from "../../src/cache/packed-keys.js";
import { fieldsThat } from "../../src/contracts/key-fields.js";
import type { KeyRecord } from "../../src/contracts/store.js";
import type { AppliedLimit } from "../../src/ratelimit/applied-limits.js";

const id = (prefix: string) => fc.stringMatching(/^[a-zA-Z0-9_]{1,24}$/).map((text) => `${prefix}_${text}`);
const limit = fc.record({
  id: fc.oneof(id("rl"), fc.constant("rl_strange\nid")),
  name: fc.constantFrom("requests", "tokens", "línea\n"),
  limit: fc.nat(),
  duration: fc.nat(),
  autoApply: fc.boolean(),
});
const record: fc.Arbitrary<KeyRecord> = fc.record(
  {
    ref: fc.oneof(fc.nat(), fc.maxSafeNat(), id("ref")),
    keyId: fc.oneof(id("key"), fc.string({ unit: "binary", minLength: 1, maxLength: 2_000 })),
    workspaceId: fc.constantFrom("ws", "other"),
    apiId: fc.constantFrom("api_1", "api_2"),
    name: fc.oneof(fc.string({ unit: "binary", maxLength: 255 }), fc.constant("x".repeat(1_023))),
    meta: fc.constant({ plan: "pro" }),
    expires: fc.oneof(fc.nat(), fc.constant(8.64e15)),
    enabled: fc.boolean(),
    permissions: fc.constantFrom([], ["a"], ["a", "b.*"]),
    roles: fc.constantFrom([], ["admin"]),
    identity: fc.constant({
      id: "id_1",
      externalId: "user",
      ratelimits: [{ id: "rl_shared1", name: "shared", limit: 1, duration: 1_000, autoApply: true }],
    }),
    ratelimits: fc.array(limit, { maxLength: 3 }),
    hasCredits: fc.boolean(),
    refill: fc.constantFrom(
      { interval: "daily" as const, amount: 5 },
      { interval: "monthly" as const, amount: 5, refillDay: 31 },
    ),
    startUnknown: fc.constant(true as const),
    generation: fc.oneof(fc.nat({ max: 40_000 }), fc.constantFrom(0, 2 ** 15 - 1, 2 ** 15, 2 ** 40)),
    parentDisabled: fc.boolean(),
    unadopted: fc.constant(false),
    ipAllowlists: fc.constantFrom([], [["192.0.2.1"]]),
  },
  {
    requiredKeys: [
      "ref",
      "keyId",
      "workspaceId",
      "apiId",
      "enabled",
      "permissions",
      "roles",
      "ratelimits",
      "hasCredits",
      "generation",
      "parentDisabled",
      "unadopted",
      "ipAllowlists",
    ],
  },
);

/** Limits but for the functions that remember where buckets are. */
function limitsSeen({ limits, onlyLimit }: CachedKey) {
  const plain = (list: readonly AppliedLimit[]) => list.map((one) => ({ ...one, hint: one.hint?.bucket }));
  return { onlyLimit, automatic: plain(limits.automatic), named: plain(limits.named) };
}

/** All that a verification reads of a key. */
function seen(key: CachedKey) {
  const { policy, rare, ref, enabled, parentDisabled, hasCredits, refill } = key;
  const own = Object.fromEntries(fieldsThat({ record: "key" }).map((field) => [field, key[field]]));
  const { workspaceId, apiId } = policy;
  const names = [key.grants.copyPermissions(), key.grants.copyRoles()];
  const allows = [undefined, "192.0.2.1", "192.0.2.2"].map((address) => key.allows(address));
  const shown = { meta: rare?.meta, identity: rare?.identity };
  return {
    workspaceId,
    apiId,
    own,
    limits: limitsSeen(key),
    shown,
    ref,
    enabled,
    parentDisabled,
    hasCredits,
    refill,
    names,
    allows,
  };
}

/** A record that can be packed. */
function plainRecord(over: Partial<KeyRecord>): KeyRecord {
  const { meta: _, identity: __, ...plain } = fc.sample(record, { numRuns: 1, seed: 1 })[0]!;
  return { ...plain, ref: 1, ipAllowlists: [], generation: 1, name: "n", ...over };
}

describe("packedKeys", () => {
  it("any key comes back as it went in, whatever lay in its place before", () => {
    fc.assert(
      fc.property(fc.array(record, { minLength: 1, maxLength: 12 }), (records) => {
        const prepare = createPreparer();
        const storage = packedKeys();
        const twin: CachedKey[] = [];
        records.forEach((one, i) => {
          const entry = i % 5;
          if (i >= 5) storage.drop(entry);
          storage.put(entry, prepare(one));
          twin[entry] = prepare(one);
          twin.forEach((key, at) => expect(seen(storage.get(at))).toEqual(seen(key)));
        });
      }),
    );
  });

  it("keeps where a key's bucket was found last, and takes no note of a key that is gone", () => {
    const prepare = createPreparer();
    const storage = packedKeys();
    const one = plainRecord({ ref: 7 });
    const places = () => {
      const { row, h0, h1 } = storage.get(3);
      return [row, h0, h1];
    };
    storage.put(3, prepare(one));
    expect(places()).toEqual([-1, 0, 0]);
    const key = storage.get(3);
    key.foundAt(12, -5, 2 ** 31 - 1);
    expect(places()).toEqual([12, -5, 2 ** 31 - 1]);
    for (const other of [
      { ...one, ref: 8 },
      { ...one, apiId: "renamed" },
    ]) {
      storage.drop(3);
      key.foundAt(1, 1, 1);
      storage.put(3, prepare(other));
      key.foundAt(2, 2, 2);
      expect(places()).toEqual([-1, 0, 0]);
    }
  });

  it.each([
    { name: "x".repeat(1_023) },
    { keyId: `key_${"x".repeat(1_020)}` },
    { generation: 2 ** 15 },
    { ref: "text" },
    { ratelimits: ["rl_1", "rl_\n2"].map((id) => ({ id, name: id, limit: 1, duration: 1_000, autoApply: true })) },
  ])("a key that does not fit a row stays as it is: %j", (over) => {
    const storage = packedKeys();
    const key = createPreparer()(plainRecord(over));
    storage.put(0, key);
    expect(storage.get(0)).toBe(key);
  });

  it("grows far, and can be cleared", () => {
    const prepare = createPreparer();
    const storage = packedKeys();
    const one = plainRecord({ ratelimits: [] });
    for (const entry of [0, 1_500, 40_000]) storage.put(entry, prepare({ ...one, ref: entry, keyId: `key_${entry}` }));
    expect([0, 1_500, 40_000].map((entry) => storage.get(entry).keyId)).toEqual(["key_0", "key_1500", "key_40000"]);
    storage.clear();
    storage.put(3, prepare({ ...one, keyId: "key_3" }));
    expect(storage.get(3).keyId).toBe("key_3");
  });
});
