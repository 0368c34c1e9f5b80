/** By which name a request addresses the console, and with which cookie. */
import { KeystileError } from "../contracts/errors.js";
import type { Incoming } from "../http/messages.js";
import { LOOPBACK_HOSTS } from "../lib/loopback.js";
import { nameOf, type Sent } from "../view/origin.js";

/** The cookie of a session. */
const COOKIE = "keystile-console";
/** More of one name are not looked at. */
const MAX_COOKIES = 16;
const SESSION_ID = /^[0-9a-f]{64}$/;

/** @throws KeystileError BAD_REQUEST: a name that is not one of these */
export function requireHost(sent: Sent, hosts: readonly string[] | undefined): void {
  if (hosts === undefined || hosts.includes(nameOf(sent))) return;
  throw new KeystileError("BAD_REQUEST", "this name is not one of the console's; see its option hosts");
}

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
