/** The words that histories are made of: few, so that they meet, and odd where oddness has cost others. */
import type { JsonObject, RatelimitRequest, Refill } from "../../src/contracts/types.js";
import type { Dice } from "./dice.js";

export const DAY = 86_400_000;

/** As granted: wildcards, and what only looks like one. */
export const GRANTS = [
  "docs.read",
  "docs.write",
  "docs.*",
  "docs.a.*",
  "*.read",
  "docs.*.c",
  "billing.view",
  "doc*",
  "a:b-c_1",
  "*",
];
/** As asked for. */
export const ASKED = [
  "docs.read",
  "docs.write",
  "docs.a",
  "docs.a.b",
  "docs.b.c",
  "docs",
  "billing.view",
  "doc*",
  "docs.*",
  "a:b-c_1",
  "x/y",
  "ORchid.and",
];
export const ROLES = ["reader", "writer", "Ω admin"];
export const USERS = ["user_1", "user_2", "user-3.x"];
export const LIMITS = ["requests", "tokens", "uploads", "日本語"];
export const NAMES = ["one", "zwei", "三", "'; DROP TABLE keystile_keys;--"];
export const METAS: readonly JsonObject[] = [
  {},
  { plan: "pro", seats: [1, 2, { deep: null }] },
  JSON.parse('{"__proto__":{"polluted":true},"constructor":"plain"}') as JsonObject,
];
export const MIGRATIONS = [
  { id: "mig_sha256", algorithm: "sha256" },
  { id: "mig_sha512", algorithm: "sha512" },
  { id: "mig_sha512_too", algorithm: "sha512" },
  { id: "mig_prefixed", algorithm: "prefixed-api-key" },
] as const;
/** Texts of keys made elsewhere. Two share a long token, and one is another's long token. */
export const FOREIGN = [
  "old_Ab1_longlong1",
  "old_Xy9_longlong1",
  "longlong1",
  "pre_BB_longlong2",
  "old_legacy-key-3",
  "ключ_ß_4",
];

const RANGES = ["10.0.0.0/8", "192.0.2.7", "2001:db8::/32", "::ffff:192.0.2.8"];
/** Which addresses each entry of an allow-list admits. */
export const ADMITS: Readonly<Record<string, readonly string[]>> = {
  "10.0.0.0/8": ["10.1.2.3", "::ffff:10.1.2.3", "10.1.2.3:80"],
  "192.0.2.7": ["192.0.2.7", "::FFFF:192.0.2.7"],
  "2001:db8::/32": ["2001:DB8::1", "2001:db8:0:0:0:0:0:2"],
  "::ffff:192.0.2.8": ["192.0.2.8"],
};
// A zone is of a link-local address alone.
export const ADDRESSES = [
  ...Object.values(ADMITS).flat(),
  "2001:db8::2%eth0",
  "11.1.2.3",
  "garbage",
  "10.1.2.3:http",
  "",
];

export const rollAllowlist = (dice: Dice): string[] => (dice.chance(0.5) ? [] : dice.some(RANGES, 0.6));

export function rollLimits(dice: Dice): RatelimitRequest[] {
  return dice.some(LIMITS, 0.35).map((name) => ({
    name,
    limit: dice.pick([1, 2, 3, 5, 100, 5_000_000]),
    duration: dice.pick([1_000, 1_500, 60_000, 3_600_000, 30 * DAY, 60 * DAY]),
    ...(dice.chance(0.6) && { autoApply: dice.chance(0.7) }),
  }));
}

export function rollRefill(dice: Dice): Refill {
  const rollover = dice.chance(0.3) && { rollover: dice.pick([0, 1, 5, 1_000, Number.MAX_SAFE_INTEGER]) };
  return { ...rollDays(dice, dice.pick([1, 2, 10, Number.MAX_SAFE_INTEGER])), ...rollover };
}

function rollDays(dice: Dice, amount: number): Refill {
  if (dice.chance(0.5))
    return dice.chance(0.2) ? { interval: "daily", amount, refillDay: 31 } : { interval: "daily", amount };
  return { interval: "monthly", amount, refillDay: dice.pick([1, 2, 15, 28, 29, 30, 31]) };
}

export function rollRemaining(dice: Dice): number | null {
  return dice.chance(0.2) ? null : dice.pick([0, 1, 2, 5, 20, 1_000, 1_000_000_000_000, Number.MAX_SAFE_INTEGER]);
}

/** Where the clock goes next: a little on, to the edge of a day or month, far ahead, or back. */
export function rollTime(dice: Dice, now: number): number {
  const kind = dice.below(20);
  if (kind < 8) return now + dice.below(3_000);
  if (kind < 11) return now + dice.below(2 * 3_600_000);
  if (kind < 14) return (Math.floor(now / DAY) + 1) * DAY + dice.pick([-1, 0, 1]);
  if (kind < 16) {
    const date = new Date(now);
    const [year, month] = [date.getUTCFullYear(), date.getUTCMonth()];
    const first = Date.UTC(year, month + 1, 1);
    return Math.max(
      now,
      dice.pick([first - DAY, first, first + 14 * DAY, Date.UTC(year, 1, 28), Date.UTC(year + 1, 2, 1)]) +
        dice.pick([-1, 0, 1]),
    );
  }
  if (kind < 17) return now + dice.below(400) * DAY + dice.below(DAY);
  if (kind < 19) return Math.max(0, now - dice.below(5_000));
  return Math.max(0, now - dice.below(40) * DAY - dice.below(DAY));
}
