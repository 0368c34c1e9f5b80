/** The client's address: of the connection, or as forwarded by a trusted proxy. */
import { createAllowlist, isAddressOrRange } from "../lib/ip-ranges.js";

/** Maximum addresses of `x-forwarded-for` that are examined, from the end. */
const MAX_CHAIN = 32;

/** @throws TypeError naming the option */
export function trustedProxies(value: unknown, path: string): void {
  const fits = Array.isArray(value) && value.every((entry) => typeof entry === "string" && isAddressOrRange(entry));
  if (!fits) throw new TypeError(`${path} must be an array of IP addresses and CIDR ranges`);
}

/**
 * @param proxies whose `x-forwarded-for` is trusted
 * @returns a function that returns the client's address: the address of the connection, or, if that is a trusted proxy,
 * the last address of the header that is not one
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
