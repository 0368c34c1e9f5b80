/** Which page a form was sent from. */
import { KeystileError } from "../contracts/errors.js";
import type { Incoming } from "../http/messages.js";

/** What a request is read from. */
export type Sent = Pick<Incoming, "header" | "toRequest">;

/** The host that a browser addressed, with its port. */
const hostOf = (sent: Sent): string => (sent.header("host") ?? new URL(sent.toRequest().url).host).toLowerCase();
/** The same without its port. */
export const nameOf = (sent: Sent): string => hostOf(sent).replace(/:\d*$/, "");

/**
 * A form must come from a page of this host: browsers say so in one of two headers, which no page can change.
 * @param where names the pages, for the message
 * @throws KeystileError CALLER_FORBIDDEN
 */
export function requireSameOrigin(sent: Sent, where: string): void {
  const [site, origin] = [sent.header("sec-fetch-site"), sent.header("origin")];
  const isSaid = site !== undefined || origin !== undefined;
  const isSame =
    (origin === undefined || inOrigin(origin) === hostOf(sent)) && (site ?? "same-origin") === "same-origin";
  if (isSaid && isSame) return;
  throw new KeystileError("CALLER_FORBIDDEN", `a form must be sent from a page of ${where}`);
}

const inOrigin = (origin: string): string | undefined => /^https?:\/\/([^/]+)$/.exec(origin)?.[1];
