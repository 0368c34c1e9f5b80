/** The kinds of customer in the quickstart: what their key carries, what they ask, what the answer must be. */
import type { V2KeysMigrateKeyData, V2KeysVerifyKeyRequestBody, VerificationCode } from "../../src/contracts/types.js";

/** One kind of key. */
export interface Kind {
  readonly name: string;
  /** Of 100 keys, so many are of this kind. */
  readonly share: number;
  /** What the key carries besides its hash, name, owner and metadata; `n` counts the keys of the file. */
  readonly carries: (n: number) => Omit<V2KeysMigrateKeyData, "hash">;
  /** What is asked with it. */
  readonly asks: Omit<V2KeysVerifyKeyRequestBody, "key" | "migrationId">;
  /** The answers, in order; more than one: it is asked so many times. */
  readonly expects: readonly VerificationCode[];
}

const HOUR = 3_600_000;
const MINUTE = 60_000;
/** Fixed dates, so that the file is the same on every day. */
const PAST = Date.UTC(2021, 4, 1);
const FUTURE = Date.UTC(2089, 0, 1);
/** Enough for thousands of runs on one file. */
const PLENTY = 5_000_000;

export const SPENDER = "spends credits, refilled daily";
export const CALLER = "wildcards, under a rate limit";

export const KINDS: readonly Kind[] = [
  {
    name: "reads through a role",
    share: 14,
    carries: () => ({ roles: ["viewer"] }),
    asks: { permissions: "documents.read" },
    expects: ["VALID"],
  },
  {
    name: CALLER,
    share: 12,
    carries: () => ({
      permissions: ["documents.*", "audit.*.export"],
      ratelimits: [{ name: "requests", limit: 1_000_000, duration: MINUTE, autoApply: true }],
    }),
    asks: { permissions: "documents.read AND (billing.view OR audit.eu.export)", credits: { cost: 0 } },
    expects: ["VALID"],
  },
  {
    name: "asks for more than it may",
    share: 8,
    carries: () => ({ roles: ["viewer"], permissions: ["reports.*"] }),
    asks: { permissions: "documents.delete OR reports" },
    expects: ["INSUFFICIENT_PERMISSIONS"],
  },
  { name: "switched off", share: 8, carries: () => ({ enabled: false }), asks: {}, expects: ["DISABLED"] },
  { name: "expired", share: 9, carries: (n) => ({ expires: PAST - n * HOUR }), asks: {}, expects: ["EXPIRED"] },
  { name: "expires one day", share: 9, carries: (n) => ({ expires: FUTURE + n * HOUR }), asks: {}, expects: ["VALID"] },
  {
    name: SPENDER,
    share: 12,
    carries: (n) => ({ credits: { remaining: PLENTY + n, refill: { interval: "daily", amount: 1_000 } } }),
    asks: {},
    expects: ["VALID"],
  },
  {
    name: "spends credits, refilled monthly",
    share: 8,
    carries: (n) => ({
      credits: { remaining: PLENTY, refill: { interval: "monthly", amount: 50_000, refillDay: 1 + (n % 31) } },
    }),
    asks: { credits: { cost: 5 } },
    expects: ["VALID"],
  },
  {
    name: "has no credits left",
    share: 8,
    carries: () => ({ credits: { remaining: 0 } }),
    asks: {},
    expects: ["USAGE_EXCEEDED"],
  },
  {
    name: "calls too often",
    share: 6,
    carries: () => ({ ratelimits: [{ name: "requests", limit: 2, duration: 24 * HOUR, autoApply: true }] }),
    asks: {},
    expects: ["VALID", "VALID", "RATE_LIMITED"],
  },
  { name: "carries nothing special", share: 6, carries: () => ({}), asks: {}, expects: ["VALID"] },
];
