/**
 * The ordered checks on every state that a cache can be in, at every hour: the answer is that of a plain list of
 * conditions.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type CacheOptions,
  createKeyring,
  createVerifier,
  memoryStore,
  type VerificationCode,
} from "../../src/index.js";
import { CHECKS, type FreeChecks, type TakingChecks } from "../../src/verify/verify-key.js";
import { runs } from "../runs.js";

const DAY = 86_400_000;
const EXPIRY = Date.UTC(2026, 2, 31, 12);
const HOME = "10.0.0.1";

/** What makes a key fail one check; in the order of the checks. */
const FAULTS = [
  "DISABLED",
  "EXPIRED",
  "FORBIDDEN",
  "INSUFFICIENT_PERMISSIONS",
  "RATE_LIMITED",
  "USAGE_EXCEEDED",
] as const;
type Fault = (typeof FAULTS)[number];
const ALONE_AND_IN_PAIRS: readonly (readonly Fault[])[] = [
  [],
  ...FAULTS.map((fault) => [fault]),
  ...FAULTS.flatMap((one, i) => FAULTS.slice(i + 1).map((other) => [one, other])),
];

/** How a verifier comes to know a key before the call that counts. */
const CACHES: Record<string, { readonly cache: CacheOptions; readonly calls: number; readonly others: boolean }> = {
  "never seen": { cache: {}, calls: 0, others: false },
  remembered: { cache: {}, calls: 1, others: false },
  "seen often": { cache: {}, calls: 6, others: false },
  "evicted between calls": { cache: { size: 1 }, calls: 2, others: true },
  "one of many": { cache: { size: 64 }, calls: 3, others: true },
  "found by digest": { cache: { by: "digest" }, calls: 2, others: true },
  "with a time to live": { cache: { ttl: 60_000 }, calls: 2, others: true },
};

/** Days, nights, midnights and the ends of months, before and after the expiry. */
const instants = fc.oneof(
  fc.integer({ min: EXPIRY - 40 * DAY, max: EXPIRY + 40 * DAY }),
  fc.integer({ min: -40, max: 40 }).map((day) => Math.floor(EXPIRY / DAY) * DAY + day * DAY),
  fc.constantFrom(
    EXPIRY,
    EXPIRY + 1,
    EXPIRY - 1,
    Date.UTC(2026, 2, 1) - 1,
    Date.UTC(2026, 3, 1),
    Date.UTC(2026, 1, 28, 3),
  ),
);

interface Sample {
  readonly key: string;
  readonly faults: readonly Fault[];
}

async function world(cache: CacheOptions) {
  const time = { now: EXPIRY };
  const clock = () => time.now;
  const store = memoryStore();
  const keyring = createKeyring(store, { clock });
  const { apiId } = await keyring.createApi({ name: "documents" });
  const samples: Sample[] = [];
  for (const faults of ALONE_AND_IN_PAIRS) {
    const has = (fault: Fault) => faults.includes(fault);
    const { key } = await keyring.createKey({
      apiId,
      enabled: !has("DISABLED"),
      ...(has("EXPIRED") && { expires: EXPIRY }),
      ipAllowlist: [has("FORBIDDEN") ? "192.168.0.0/16" : "10.0.0.0/8"],
      permissions: has("INSUFFICIENT_PERMISSIONS") ? ["documents.write"] : ["documents.read"],
      ratelimits: [{ name: "requests", limit: has("RATE_LIMITED") ? 1 : 1_000_000, duration: 1_000, autoApply: false }],
      credits: { remaining: has("USAGE_EXCEEDED") ? 0 : 1_000_000 },
    });
    samples.push({ key, faults });
  }
  const verifier = createVerifier(store, { clock, cache });
  const verify = (key: string) =>
    verifier.verify(
      { key, permissions: "documents.read AND (documents.read OR other)", ratelimits: [{ name: "requests", cost: 2 }] },
      { clientAddress: HOME },
    );
  return { time, samples, verify, close: () => verifier.close() };
}

/** The specification as a list of conditions. */
function expected({ faults }: Sample, now: number): VerificationCode {
  return faults.find((fault) => fault !== "EXPIRED" || now > EXPIRY) ?? "VALID";
}

describe.each(Object.entries(CACHES))("a key that is %s", (_, { cache, calls, others }) => {
  it("fails the first check of the list that it fails, alone and in pairs, whatever the time", async () => {
    const { time, samples, verify, close } = await world(cache);
    const sample = fc.constantFrom(...samples);
    await fc.assert(
      fc.asyncProperty(
        sample,
        sample,
        fc.array(instants, { minLength: calls + 1, maxLength: calls + 1 }),
        async (one, other, moments) => {
          for (const now of moments) {
            time.now = now;
            if (others) expect((await verify(other.key)).code).toBe(expected(other, now));
            const answer = await verify(one.key);
            expect(answer.code).toBe(expected(one, now));
            expect(answer.valid).toBe(answer.code === "VALID");
          }
        },
      ),
      { numRuns: runs(150) },
    );
    await close();
  });
});

describe("a check that does not say false", () => {
  it.each([undefined, null, 0, "", {}, []])("is failed by %o of a limiter's promise", async (junk) => {
    const store = memoryStore();
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "documents" });
    const ratelimits = [{ name: "requests", limit: 10, duration: 60_000, autoApply: true }];
    const { key } = await keyring.createKey({ apiId, ratelimits });
    const limiter = { take: () => Promise.resolve([{ exceeded: junk, remaining: 1, reset: 1 }]) } as never;
    const verifier = createVerifier(store, { limiter, onLimiterFailure: "deny" });
    await expect(verifier.verify({ key })).rejects.toMatchObject({ code: "LIMITER_UNAVAILABLE" });
  });
});

describe("the list of checks", () => {
  it("ends with the two that take something: what stands behind them, or takes before them, does not compile", () => {
    expect(CHECKS.map(({ code }) => code).slice(-2)).toEqual(["RATE_LIMITED", "USAGE_EXCEEDED"]);
    const last: TakingChecks[1] = { code: "USAGE_EXCEEDED", fails: () => false };
    // @ts-expect-error: it would refuse a call whose credits and tokens were taken
    const behind: TakingChecks = [last, last, { code: "FORBIDDEN", fails: () => true }];
    // @ts-expect-error: a check that takes nothing has no limiter and no spender
    const taking: FreeChecks = [{ code: "FORBIDDEN", fails: ({ deps }) => deps.limiter.degradedCalls() > 0 }];
    expect([behind, taking]).toHaveLength(2);
  });
});

describe("VALID", () => {
  const sources = (readdirSync("src", { recursive: true }) as string[]).filter(
    // Pages only show what was concluded.
    (file) => file.endsWith(".ts") && !file.startsWith("console"),
  );
  const lines = sources.flatMap((file) =>
    readFileSync(join("src", file), "utf8")
      .split("\n")
      .filter((line) => line.includes('"VALID"') && !/^\s*(\/?\*|\/\/|\|)/.test(line))
      .map((line) => ({ file, line: line.trim() })),
  );

  // They read the sources, which look otherwise with faults planted.
  it.skipIf(process.env["MUTATE"] !== undefined)("is concluded in one place, at the end of the list of checks", () => {
    const concluded = lines.filter(
      // The demo of the command line says what it expects, and a spend by id checks nothing.
      ({ file, line }) =>
        !file.startsWith("cli/demo/") &&
        file !== "verify/spend-by-id.ts" &&
        !/[!=]==? "VALID"|Exclude<|^"NOT_FOUND" \||^code: "VALID";$|^"VALID",$/.test(line),
    );
    expect(concluded).toEqual([
      { file: expect.stringMatching(/verify-key\.ts$/), line: 'return concludeOrRestart(call, key, "VALID");' },
    ]);
  });

  it.skipIf(process.env["MUTATE"] !== undefined)(
    "is true of nothing else: `valid` is set where the one builder compares the code",
    () => {
      const set = sources.flatMap((file) =>
        readFileSync(join("src", file), "utf8")
          .split("\n")
          .filter(
            (line) =>
              /\b(?:valid:|this\.valid =) (?!false\b|boolean\b|number;|flag\b|\[?"|true;$|\{ text: )/.test(line) &&
              !/^\s*(\/?\*|\/\/)/.test(line),
          )
          .map((line) => `${file}: ${line.trim()}`),
      );
      expect(set).toHaveLength(1);
      expect(set[0]).toContain('valid = code === "VALID"');
    },
  );
});
