/** The manifest of what a store can do besides: validated, and asked for by what needs it. Store clause 21. */
import { KeystileError } from "../../contracts/errors.js";
import type { Power, Store, StorePowers } from "../../contracts/store.js";
import { type Check, flag, oneOf, ownProperty } from "../check-options.js";

const CHECKS: Readonly<Record<Exclude<keyof StorePowers, "audit">, Check>> = {
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
  // Optional: a store without it needs no word about it.
  const audit = ownProperty(powers as StorePowers, "audit");
  if (audit !== undefined) {
    flag(audit, "store.powers.audit");
    copy["audit"] = audit;
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
  if (!powers[power]) throw lacking(power, what);
}

/** The methods of the power `leases`, for a store that lacks it: each throws STORE_POWER_MISSING. */
export const withoutLeases: Pick<Store, "drawCredits" | "returnCredits"> = Object.freeze({
  drawCredits(): never {
    throw lacking("leases", "drawCredits");
  },
  returnCredits(): never {
    throw lacking("leases", "returnCredits");
  },
});

/** The methods of the power `idempotency`, for a store that lacks it: each throws STORE_POWER_MISSING. */
export const withoutIdempotency: Pick<Store, "spendOnce" | "findOnce" | "readSecret"> = Object.freeze({
  spendOnce(): never {
    throw lacking("idempotency", "spendOnce");
  },
  findOnce(): never {
    throw lacking("idempotency", "findOnce");
  },
  readSecret(): never {
    throw lacking("idempotency", "readSecret");
  },
});

/** The method of the power `usage`, for a store that lacks it: it throws STORE_POWER_MISSING. */
export const withoutUsage: Pick<Store, "recordUses"> = Object.freeze({
  recordUses(): never {
    throw lacking("usage", "recordUses");
  },
});

function lacking(power: Power, what: string): KeystileError {
  return new KeystileError("STORE_POWER_MISSING", `${what} needs the power "${power}", which this store lacks`);
}
