/**
 * How fast would the common verification be as one function over flat tables? What is left when there is nothing else:
 * no other outcome, no other kind of limit, no store that may have changed, no bound, nothing evicted, a query that is
 * compared by its text.
 */
import type { V2KeysVerifyKeyResponseData } from "../src/contracts/types.js";
import { FingerprintIndex } from "../src/cache/fingerprint-cache.js";
import { Fingerprint } from "../src/lib/fingerprint.js";
import { measure, report, type Row, scaled, type Side } from "./harness.js";
import { BALANCE, keyIdOf, keyRow, keyText, PERMISSIONS, QUERY, type Request, requestsFor } from "./keys.js";
import { H, hashSide } from "./work.js";

/** What answers show of a key. */
interface Shown {
  readonly keyId: string;
  readonly name: string;
  readonly limitId: string;
}

const [{ limit: LIMIT, duration: DURATION, name: LIMIT_NAME } = { limit: 0, duration: 0, name: "" }] = keyRow(0, true)
  .row.ratelimits;
/** Units of the bucket: a token is `DURATION` of them, and `LIMIT` drain each millisecond. */
const CAPACITY = LIMIT * DURATION;

/** `keys` keys, and the function that judges them. */
function flat(keys: number): (request: Request) => Promise<V2KeysVerifyKeyResponseData> {
  const tag = new Fingerprint();
  const index = new FingerprintIndex();
  const shown: Shown[] = [];
  /** Two numbers a key: when its bucket was brought up to date, and what is used of it. */
  const buckets = new Float64Array(keys * 2);
  const credits = new Float64Array(keys).fill(BALANCE);
  const permissions = [...PERMISSIONS].sort();
  const roles: string[] = [];
  for (let n = 0; n < keys; n++) {
    tag.read(keyText(n));
    const entry = index.add(tag.h0, tag.h1, tag.h2);
    shown[entry] = { keyId: keyIdOf(n), name: `Key ${n}`, limitId: keyRow(n, true).row.ratelimits[0]?.id ?? "" };
  }
  return ({ key, permissions: query }) => {
    if (typeof key !== "string" || key.length > 512 || query !== QUERY)
      throw new Error("not what this function is for");
    const now = Date.now();
    tag.read(key);
    const entry = index.find(tag.h0, tag.h1, tag.h2);
    const found = shown[entry];
    if (found === undefined) return Promise.resolve({ valid: false, code: "NOT_FOUND" });
    const at = entry * 2;
    const used = Math.max(0, (buckets[at + 1] as number) - (now - (buckets[at] as number)) * LIMIT) + DURATION;
    if (used > CAPACITY) return Promise.resolve({ valid: false, code: "RATE_LIMITED" });
    const left = (credits[entry] as number) - 1;
    if (left < 0) return Promise.resolve({ valid: false, code: "USAGE_EXCEEDED" });
    buckets[at] = now;
    buckets[at + 1] = used;
    credits[entry] = left;
    return Promise.resolve({
      valid: true,
      code: "VALID",
      keyId: found.keyId,
      enabled: true,
      name: found.name,
      credits: left,
      permissions: permissions.slice(),
      roles: roles.slice(),
      ratelimits: [
        {
          exceeded: false,
          id: found.limitId,
          name: LIMIT_NAME,
          limit: LIMIT,
          duration: DURATION,
          reset: Math.min(DURATION, Math.max(1_000, Math.ceil(used / LIMIT))),
          remaining: Math.floor((CAPACITY - used) / DURATION),
          autoApply: true,
        },
      ],
    });
  };
}

/** Beside H, over `used` keys at random of `keys`. */
async function over(keys: number, used: number, label: string): Promise<Row[]> {
  const verify = flat(keys);
  const { next, ready } = requestsFor(used);
  const side: Side = {
    name: `one function: ${label}`,
    floor: H,
    ready,
    async run(operations) {
      let right = 0;
      for (let i = 0; i < operations; i++) {
        const { code, ratelimits } = await verify(next());
        if (code === "VALID" && ratelimits?.length === 1) right++;
      }
      return right;
    },
  };
  return measure([hashSide(), side]);
}

const MANY = scaled(1_000_000, 2_000);
report({
  question: "How fast would the common verification be as one function over flat tables?",
  rows: [
    ...(await over(scaled(10_000, 500), scaled(1_000, 64), "1,000 keys of 10,000")),
    ...(await over(scaled(10_000, 500), scaled(10_000, 500), "any of 10,000 keys")),
    ...(await over(MANY, scaled(4_096, 64), "4,096 keys of 1,000,000")),
    ...(await over(MANY, MANY, "any of 1,000,000 keys")),
  ],
});
