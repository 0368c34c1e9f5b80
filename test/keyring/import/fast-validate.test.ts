import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { ValidationProblem } from "../../../src/contracts/errors.js";
import { fastAccept } from "../../../src/keyring/import/fast-validate.js";
import { migratedKey } from "../../../src/keyring/schemas/keys.js";
import { validate } from "../../../src/keyring/schemas/parse.js";
import { copyBody } from "../../../src/lib/copy-json.js";
import { runs } from "../../runs.js";

/** What the schema makes of a copied key; `undefined`: it refuses. */
function bySchema(copy: unknown): unknown {
  const problems: ValidationProblem[] = [];
  return validate(migratedKey, copy, "body.keys[0]", problems);
}

const HASH = "n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg=";
const LIMIT = { name: "requests", limit: 600, duration: 60_000, autoApply: true };
const USUAL = {
  hash: HASH,
  name: "Key 1",
  externalId: "customer_7",
  meta: { plan: "team", seats: 3 },
  roles: ["reader", "admin"],
  permissions: ["documents.read", "documents.*"],
  expires: 1_800_000_000_000,
  enabled: true,
  credits: { remaining: 1_000_000 },
  ratelimits: [LIMIT],
};

const lengths = [0, 1, 2, 3, 5, 6, 127, 128, 129, 254, 255, 256, 257, 1_023, 1_024, 1_025, 2_048];
const sizes = fc.constantFrom(...lengths).map((length) => "x".repeat(length));
const emoji = fc.constantFrom(...lengths).map((length) => "🔑".repeat(length));
const odd = fc.constantFrom<unknown>(
  ...["", "a\0b", "\ud800", "\udc00x", "a:b-c_d.*", "a b", "é", "daily"],
  ...[0, -0, -1, 0.5, 1, 999, 1_000, NaN, Infinity, 2 ** 53 - 1, 2 ** 53, 8.64e15, 8.64e15 + 1, 1n],
  ...[null, undefined, true, false, Symbol("x"), () => 1, [], {}, [[]], new Date(0), new Map(), Object.create(null)],
);
const anything = fc.oneof(
  odd,
  sizes,
  emoji,
  fc.string({ unit: "binary" }),
  fc.anything({ maxDepth: 2, withDate: true }),
);
const maybe = <T>(right: fc.Arbitrary<T>): fc.Arbitrary<unknown> =>
  fc.oneof({ weight: 20, arbitrary: right }, { weight: 1, arbitrary: anything });
const lists = <T>(item: fc.Arbitrary<T>) =>
  fc.oneof(
    fc.array(maybe(item), { maxLength: 4 }),
    fc.nat(120).map((length) => Array(length).fill("abc")),
  );
const limit = fc.record(
  {
    name: maybe(fc.constantFrom("requests", "tokens", "日本語")),
    limit: maybe(fc.constantFrom(1, 600)),
    duration: maybe(fc.constantFrom(1_000, 60_000)),
    autoApply: maybe(fc.boolean()),
  },
  { requiredKeys: ["name", "limit", "duration", "autoApply"] },
);
const credits = fc.record(
  {
    remaining: maybe(fc.constantFrom(0, 5, null)),
    refill: maybe(fc.constantFrom({ interval: "daily", amount: 1 }, { interval: "monthly", amount: 1 })),
  },
  { requiredKeys: ["remaining"] },
);
const key = fc.record(
  {
    hash: maybe(fc.constant(HASH)),
    name: maybe(fc.constantFrom("Key 1", "é", "日本")),
    externalId: maybe(fc.constant("customer_7")),
    meta: maybe(
      fc.oneof(
        fc.constant(USUAL.meta),
        fc.nat(120).map((n) => Object.fromEntries(Array.from({ length: n }, (_, i) => [`m${i}`, i]))),
      ),
    ),
    roles: maybe(lists(fc.constantFrom("reader", "x", "Ω admin"))),
    permissions: maybe(lists(fc.constantFrom("a.*", "documents.read"))),
    expires: maybe(fc.constantFrom(0, 8.64e15)),
    enabled: maybe(fc.boolean()),
    credits: maybe(credits),
    ratelimits: maybe(fc.array(maybe(limit), { maxLength: 3 })),
  },
  { requiredKeys: ["hash"] },
);

describe("isPlainlyRight: the shortcut and the schema", () => {
  it("ruling E2: whatever the shortcut accepts, the schema accepts as it is (property)", () => {
    const numRuns = runs(5_000);
    let accepted = 0;
    fc.assert(
      fc.property(fc.oneof({ weight: 20, arbitrary: key }, { weight: 1, arbitrary: anything }), (raw) => {
        const copy = copyBody(raw);
        if (!fastAccept(copy)) return;
        accepted++;
        expect(bySchema(copy)).toEqual(copy);
      }),
      { numRuns },
    );
    // Otherwise nothing was compared.
    expect(accepted).toBeGreaterThan(0);
  });

  it("ruling E2: one property that is anything at all, the others as usual (property)", () => {
    const names = [...Object.keys(USUAL), "extra", "__proto__"] as const;
    fc.assert(
      fc.property(fc.constantFrom(...names), anything, (name, value) => {
        const raw = Object.defineProperty({ ...USUAL }, name, {
          value,
          enumerable: true,
          configurable: true,
          writable: true,
        });
        const copy = copyBody(raw);
        if (fastAccept(copy)) expect(bySchema(copy)).toEqual(copy);
      }),
      { numRuns: runs(5_000) },
    );
  });

  it("takes the usual key, and any part of it that has a hash", () => {
    expect(fastAccept(copyBody(USUAL))).toBe(true);
    for (const name of Object.keys(USUAL)) {
      const { [name as keyof typeof USUAL]: _, ...rest } = USUAL;
      expect(fastAccept(copyBody(rest)), name).toBe(name !== "hash");
    }
    for (const part of [
      { credits: { remaining: null } },
      { ratelimits: [] },
      { ratelimits: [LIMIT, { ...LIMIT, name: "tokens" }] },
    ])
      expect(fastAccept(copyBody({ ...USUAL, ...part }))).toBe(true);
  });

  it("leaves to the schema what is refused and what binds one another's fields", () => {
    const parts = [
      { ratelimits: [LIMIT, LIMIT] },
      { ratelimits: [{ name: "requests", limit: 1, duration: 1_000 }] },
      { credits: {} },
      { credits: { remaining: 1, refill: { interval: "monthly", amount: 1 } } },
      { permissions: ["a b"] },
      { hash: "ab" },
      { meta: { n: NaN } },
      { meta: [] },
      { extra: 1 },
      { credits: { remaining: 1, extra: 1 } },
      { ratelimits: [{ ...LIMIT, extra: 1 }] },
      { expires: 0.5 },
    ];
    for (const part of parts) expect(fastAccept(copyBody({ ...USUAL, ...part })), JSON.stringify(part)).toBe(false);
    for (const raw of [null, [], "x", 1, undefined]) expect(fastAccept(copyBody(raw))).toBe(false);
  });
});
