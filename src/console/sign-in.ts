/**
 * Signing in: one answer to all that fail, after one time, and few failures a minute. Why a right root key is let in
 * whatever failed before: strangers could keep its owner out. Root keys are random, so that none is found by trying.
 */
import type { Limiter } from "../contracts/limiter.js";
import { MAX_KEY_LENGTH } from "../lib/copy-json.js";
import type { Sessions } from "./sessions.js";
import { setTimeout } from "../lib/timers.js";

const MINUTE = 60_000;
/** Failures a minute that are answered as such: of one address, and of all together. */
const MAX_OF_ADDRESS = 5;
const MAX_OF_ALL = 30;
/** Milliseconds that a failure takes, whatever failed. */
const FAILURE_MS = 250;

/** A new session, or why there is none. */
export type SignIn = { readonly session: string } | { readonly refused: "wrong" | "flood" };

/**
 * @param limiter of this console alone
 * @param clock returns Unix time, milliseconds
 * @returns signs in with the text of a root key
 */
export function createSignIn(
  sessions: Sessions,
  limiter: Limiter,
  clock: () => number,
): (rootKey: string, address: string | undefined) => Promise<SignIn> {
  const isFlood = async (address: string | undefined): Promise<boolean> => {
    const one = { duration: MINUTE, cost: 1 };
    const checks = [{ ...one, bucket: "all", limit: MAX_OF_ALL }];
    if (address !== undefined) checks.push({ ...one, bucket: `address ${address}`, limit: MAX_OF_ADDRESS });
    const verdicts = await limiter.take(checks, clock());
    return verdicts.some(({ exceeded }) => exceeded);
  };
  return async (rootKey, address) => {
    const began = performance.now();
    const text = rootKey.trim();
    const isPossible = text !== "" && text.length <= MAX_KEY_LENGTH && text.isWellFormed();
    const session = isPossible ? await sessions.begin(text) : undefined;
    if (session !== undefined) return { session };
    if (await isFlood(address)) return { refused: "flood" };
    await new Promise((resolve) => setTimeout(resolve, began + FAILURE_MS - performance.now()));
    return { refused: "wrong" };
  };
}
