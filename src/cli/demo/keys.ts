/** The demo's keys, the same in every run: ten thousand of a former provider, and what verifying each must answer. */
import type { V2KeysMigrateKeyData, V2KeysVerifyKeyRequestBody, VerificationCode } from "../../contracts/types.js";
import { digestKey } from "../../lib/hash.js";

/** A kind of customer: what their key has, what they ask, what the answers must be in order. */
interface Kind {
  readonly has: Omit<V2KeysMigrateKeyData, "hash">;
  readonly asks?: Omit<V2KeysVerifyKeyRequestBody, "key">;
  readonly expects: readonly VerificationCode[];
}

const DAY = 86_400_000;
const READ = "documents.read AND (billing.view OR documents.list)";

const KINDS: readonly Kind[] = [
  { has: { roles: ["viewer"] }, asks: { permissions: "documents.read" }, expects: ["VALID"] },
  { has: { permissions: ["documents.*"], meta: { plan: "team" } }, asks: { permissions: READ }, expects: ["VALID"] },
  {
    has: { credits: { remaining: 1_000_000, refill: { interval: "monthly", amount: 1_000, refillDay: 31 } } },
    asks: { credits: { cost: 5 } },
    expects: ["VALID"],
  },
  { has: { enabled: false }, expects: ["DISABLED"] },
  { has: { expires: Date.UTC(2021, 4, 1) }, expects: ["EXPIRED"] },
  { has: { roles: ["viewer"] }, asks: { permissions: "documents.delete" }, expects: ["INSUFFICIENT_PERMISSIONS"] },
  {
    has: { ratelimits: [{ name: "requests", limit: 2, duration: DAY, autoApply: true }] },
    expects: ["VALID", "VALID", "RATE_LIMITED"],
  },
  { has: { credits: { remaining: 0 } }, expects: ["USAGE_EXCEEDED"] },
];

/** Keys of the former provider. */
export const TOTAL = 10_000;
/** Rows that must fail: their hashes came before, and a role that is not there. */
export const FAULTS = { ALREADY_EXISTS: 10, UNKNOWN_ROLE: 5 };
/** Whose balance and whole result are shown. */
export const ADA = "Ada's notebook";
/** Deleted in the first run. */
export const GRACE = "Grace's old laptop";
/** Disabled in the first run. */
export const LINUS = "Linus's lost phone";

const NAMED: Readonly<Record<string, Kind["has"]>> = {
  [ADA]: { externalId: "analytical_engines", permissions: ["documents.*"], credits: { remaining: 1_000_000 } },
  [GRACE]: { roles: ["viewer"] },
  [LINUS]: { roles: ["viewer"] },
};

/** A call, and its answers in order. */
export interface Call {
  readonly request: V2KeysVerifyKeyRequestBody;
  readonly clientAddress?: string;
  readonly expects: readonly VerificationCode[];
}

/** The text of a sample key, by its number or name: of no use outside the demo. */
export const textOf = async (name: number | string): Promise<string> =>
  `demo_${(await digestKey(`keystile demo, key ${name}`)).replace(/\W/g, "x")}`;

const kindOf = (n: number): Kind => KINDS[n % KINDS.length] as Kind;

/** The rows that a former provider hands over: hashes, never keys. */
export async function* exportedRows(): AsyncIterable<V2KeysMigrateKeyData> {
  const hashOf = async (name: number | string) => digestKey(await textOf(name));
  for (const [name, has] of Object.entries(NAMED)) yield { hash: await hashOf(name), name, ...has };
  for (let n = 0; n < TOTAL; n++) {
    yield { hash: await hashOf(n), name: `key ${n}`, externalId: `customer_${n % 2_500}`, ...kindOf(n).has };
  }
  for (let n = 0; n < FAULTS.ALREADY_EXISTS; n++) yield { hash: await hashOf(n * 7), name: "sent twice" };
  for (let n = 0; n < FAULTS.UNKNOWN_ROLE; n++) yield { hash: await hashOf(`roleless ${n}`), roles: ["no such role"] };
}

/** Keys by name. */
export const NAMED_KEYS = Object.keys(NAMED).length;

const STRANGERS = 100;

/** What all customers ask, and some whose keys were never issued. */
export async function* calls(): AsyncIterable<Call> {
  for (let n = 0; n < TOTAL + STRANGERS; n++) {
    const { asks, expects } = n < TOTAL ? kindOf(n) : { asks: {}, expects: ["NOT_FOUND"] as const };
    yield { request: { ...asks, key: await textOf(n) }, expects };
  }
}
