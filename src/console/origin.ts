/** Where a request comes from: by which name, from which page, with which cookie. */
import { KeystileError } from "../contracts/errors.js";
import type { Incoming } from "../http/messages.js";
import { LOOPBACK_HOSTS } from "../lib/loopback.js";

/** The cookie of a session. */
const COOKIE = "keystile-console";
/** More of one name are not looked at. */
const MAX_COOKIES = 16;
const SESSION_ID = /^[0-9a-f]{64}$/;

/** What a request is read from. */
type Sent = Pick<Incoming, "header" | "toRequest">;

/** The host that a browser addressed, with its port. */
const hostOf = (sent: Sent): string => (sent.header("host") ?? new URL(sent.toRequest().url).host).toLowerCase();
/** The same without its port. */
const nameOf = (sent: Sent): string => hostOf(sent).replace(/:\d*$/, "");

/** @throws KeystileError BAD_REQUEST: a name that is not one of these */
export function requireHost(sent: Sent, hosts: readonly string[] | undefined): void {
  if (hosts === undefined || hosts.includes(nameOf(sent))) return;
  throw new KeystileError("BAD_REQUEST", "this name is not one of the console's; see its option hosts");
}

/**
 * A form must come from a page of this console: browsers say so in one of two headers, which no page can change.
 * @throws KeystileError CALLER_FORBIDDEN
 */
export function requireSameOrigin(sent: Sent): void {
  const [site, origin] = [sent.header("sec-fetch-site"), sent.header("origin")];
  const isSaid = site !== undefined || origin !== undefined;
  const isSame =
    (origin === undefined || inOrigin(origin) === hostOf(sent)) && (site ?? "same-origin") === "same-origin";
  if (isSaid && isSame) return;
  throw new KeystileError("CALLER_FORBIDDEN", "a form must be sent from a page of the console");
}

const inOrigin = (origin: string): string | undefined => /^https?:\/\/([^/]+)$/.exec(origin)?.[1];

/** The sessions that a browser says it has: another page of the same site may have set cookies of this name too. */
export function sessionsOf({ header }: Pick<Incoming, "header">): readonly string[] {
  const pairs = (header("cookie") ?? "").split(";").map((pair) => pair.trim().split("="));
  const found = pairs.flatMap(([name, value = ""]) => (name === COOKIE && SESSION_ID.test(value) ? [value] : []));
  return found.slice(0, MAX_COOKIES);
}

/**
 * The header that sets the cookie of a session, or removes it. Browsers send it to the console alone, and off the
 * machine itself only over TLS.
 */
export function cookieHeader(sent: Sent, basePath: string, session: string | undefined): string[] {
  const secure = LOOPBACK_HOSTS.includes(nameOf(sent)) ? "" : "; Secure";
  const end = session === undefined ? "; Max-Age=0" : "";
  return [
    "set-cookie",
    `${COOKIE}=${session ?? ""}; Path=${basePath || "/"}; HttpOnly; SameSite=Strict${secure}${end}`,
  ];
}
