/** The manifest of what a store can do besides: validated, and asked for by what needs it. Store clause 21. */
import { KeystileError } from "../../contracts/errors.js";
import type { Power, Store, StorePowers } from "../../contracts/store.js";
import { type Check, flag, oneOf, ownProperty } from "../check-options.js";

/** Optional: a store without one needs no word about it. */
const OPTIONAL = ["audit", "reservations", "analytics", "search", "alerts", "wallets", "rollover", "refusals"] as const;

const CHECKS: Readonly<Record<Exclude<keyof StorePowers, (typeof OPTIONAL)[number]>, Check>> = {
  leases: flag,
  reserves: flag,
  idempotency: flag,
  usage: flag,
  changes: oneOf("own", "polled", "pushed"),
  durability: oneOf("none", "process", "power"),
};

/**
 * A frozen copy of a manifest, read once.
 * @throws TypeError that names what is missing or wrong, such as `store.powers.leases`
 */
export function readPowers(powers: unknown): StorePowers {
  if (typeof powers !== "object" || powers === null) throw new TypeError("store.powers must be an object");
  const copy: Record<string, unknown> = {};
  for (const [name, check] of Object.entries(CHECKS)) {
    const value: unknown = Object.hasOwn(powers, name) ? (powers as Record<string, unknown>)[name] : undefined;
    check(value, `store.powers.${name}`);
    copy[name] = value;
  }
  for (const name of OPTIONAL) {
    const value = ownProperty(powers as StorePowers, name);
    if (value === undefined) continue;
    flag(value, `store.powers.${name}`);
    copy[name] = value;
  }
  const { leases, reserves } = copy as unknown as StorePowers;
  if (reserves && !leases) throw new TypeError("store.powers.reserves must be false without leases");
  return Object.freeze(copy as unknown as StorePowers);
}

/**
 * @param what needs the power, for the message: an option or a method
 * @throws KeystileError STORE_POWER_MISSING
 */
export function requirePower({ powers }: Pick<Store, "powers">, power: Power, what: string): void {
  if (powers[power] !== true) throw lacking(power, what);
}

/** The methods of a power, for a store that lacks it: each throws STORE_POWER_MISSING. */
function without<M extends keyof Store>(power: Power, ...methods: readonly M[]): Pick<Store, M> {
  const fail = (method: M) => (): never => {
    throw lacking(power, method);
  };
  return Object.freeze(Object.fromEntries(methods.map((method) => [method, fail(method)]))) as unknown as Pick<
    Store,
    M
  >;
}

/** The methods of the power `leases`, for a store that lacks it: each throws STORE_POWER_MISSING. */
export const withoutLeases = without("leases", "drawCredits", "returnCredits");
/** The methods of the power `reservations`, for a store that lacks it: each throws STORE_POWER_MISSING. */
export const withoutReservations = without("reservations", "reserveCredits", "settleCredits");
/** The methods of the power `idempotency`, for a store that lacks it: each throws STORE_POWER_MISSING. */
export const withoutIdempotency = without("idempotency", "spendOnce", "findOnce", "readSecret");
/** The method of the power `usage`, for a store that lacks it: it throws STORE_POWER_MISSING. */
export const withoutUsage = without("usage", "recordUses");
/** The method that reads what the power `audit` keeps, for a store that lacks it: it throws STORE_POWER_MISSING. */
export const withoutAudit = without("audit", "readAudit");
/** The methods of the power `analytics`, for a store that lacks it: each throws STORE_POWER_MISSING. */
export const withoutAnalytics = without(
  "analytics",
  ...(["countOutcomes", "readOutcomes", "readCreditDays", "pruneOutcomes"] as const),
);

/** What a call fails with that needs a power. @param what needs it */
export function lacking(power: Power, what: string): KeystileError {
  return new KeystileError("STORE_POWER_MISSING", `${what} needs the power "${power}", which this store lacks`);
}
