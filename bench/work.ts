/**
 * The sides that several benches share: verifying keys one after the other, and the bare hash that no verification can
 * do without.
 */
import { hash } from "node:crypto";
import { setTimeout as wait } from "node:timers/promises";
import type { KeysVerifyKeyCredits } from "../src/contracts/types.js";
import type { Verifier } from "../src/verify/verifier.js";
import { scaled, type Side } from "./harness.js";
import { endless, keyText, type Request, requestFor, requestsFor, sample } from "./keys.js";

/** The floor of everything in memory: H. */
export const H = "H: bare SHA-256 of a key of 40 characters";

/** Leases so large from the first draw on, and of so many keys, that no draw falls into the time measured. */
export const LARGE_LEASES = {
  mode: "leased",
  size: 1_000_000_000,
  firstStep: 250_000_000,
  ttl: 3_600_000,
  keys: 1_000_000,
} as const;

/** `crypto.hash` of keys like those that are verified. */
export function hashSide(): Side {
  const next = endless(sample(4_096).map(keyText));
  return {
    name: H,
    run(operations) {
      let right = 0;
      for (let i = 0; i < operations; i++) if (hash("sha256", next(), "base64").length === 44) right++;
      return right;
    },
  };
}

/** Awaits one verification after the other, as a program does, of keys at random below `keys`. */
export function verifySide(
  verifier: Pick<Verifier, "verify">,
  keys: number,
  side: Omit<Side, "run">,
  most?: number,
): Side {
  const { next, ready } = requestsFor(keys, most);
  return { ...side, ready, run: (operations) => verifyEach(verifier, next, operations) };
}

/** @returns how many were VALID, with their one limit in the answer */
export async function verifyEach(
  verifier: Pick<Verifier, "verify">,
  next: () => Request,
  operations: number,
): Promise<number> {
  let right = 0;
  for (let i = 0; i < operations; i++) {
    const { code, ratelimits } = await verifier.verify(next());
    if (code === "VALID" && ratelimits?.length === 1) right++;
  }
  return right;
}

/** The same with so many in flight at any time. */
export async function verifyTogether(
  verifier: Verifier,
  next: () => Request,
  operations: number,
  inFlight: number,
): Promise<number> {
  let begun = 0;
  let right = 0;
  const work = async (): Promise<void> => {
    while (begun++ < operations) {
      const { code, ratelimits } = await verifier.verify(next());
      if (code === "VALID" && ratelimits?.length === 1) right++;
    }
  };
  await Promise.all(Array.from({ length: inFlight }, work));
  return right;
}

/**
 * Verifies each key below `keys` once, so that it is remembered, and leased if `credits` says so. Throws unless all are
 * VALID.
 */
export async function remember(verifier: Verifier, keys: number, credits?: KeysVerifyKeyCredits): Promise<void> {
  let n = 0;
  const next = (): Request => (credits === undefined ? requestFor(n++) : { ...requestFor(n++), credits });
  const right = await verifyTogether(verifier, next, keys, 256);
  if (right !== keys) throw new Error("a key of the bench is not VALID");
}

/**
 * Resolves once the uses that {@link remember} noted are written: up to 100,000 at a time, 5 s after the first. They
 * belong to the minute in which they were made, not to the calls that are measured next.
 */
export const settle = (): Promise<void> => wait(scaled(7_000, 0));

const MINUTE = 60_000;

/** Resolves when so many milliseconds of the current minute are left, in which first uses are noted but once. */
export async function untilMinuteHas(ms: number): Promise<void> {
  const left = MINUTE - (Date.now() % MINUTE);
  if (left < scaled(ms, 0)) await wait(left);
}
