/** Who connects, or on whose behalf a proxy of the program's does. Ruling A4. Knows no request. */
import { createAllowlist, isAddressOrRange } from "../lib/ip-ranges.js";

/** Addresses of a chain that are looked at. */
const MAX_CHAIN = 32;

/** @throws TypeError naming the option */
export function trustedProxies(value: unknown, path: string): void {
  const fits = Array.isArray(value) && value.every((entry) => typeof entry === "string" && isAddressOrRange(entry));
  if (!fits) throw new TypeError(`${path} must be an array of IP addresses and CIDR ranges`);
}

/**
 * @param proxies whose `x-forwarded-for` is believed
 * @returns the client's address: who connects, or the last address of the header that is no proxy of ours
 */
export function createClientAddress(
  proxies: readonly string[],
): (remoteAddress: string | undefined, forwardedFor: string | readonly string[] | undefined) => string | undefined {
  if (proxies.length === 0) return (remoteAddress) => remoteAddress;
  const isProxy = createAllowlist([proxies]);
  return (remoteAddress, forwardedFor) => {
    if (forwardedFor === undefined || !isProxy(remoteAddress)) return remoteAddress;
    const chain = String(forwardedFor).split(",").slice(-MAX_CHAIN);
    for (const part of chain.reverse()) {
      const address = part.trim();
      if (!isProxy(address)) return address;
    }
    return remoteAddress;
  };
}
