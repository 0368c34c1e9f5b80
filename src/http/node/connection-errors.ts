/** Connections that never became a request still get the envelope, written by hand. Ruling G1, spec §2.4. Knows no operation. */
import { badRequest, KeystileError } from "../../contracts/errors.js";
import type { Outgoing } from "../messages.js";

/** What is used of a socket. */
export interface Connection {
  readonly writable: boolean;
  end(text: string): unknown;
  destroy(): unknown;
}

/** What was wrong. */
export type ConnectionError = "syntax" | "headers" | "time" | "method";

const REASONS: Readonly<Record<ConnectionError, () => KeystileError>> = Object.freeze({
  syntax: () => badRequest([{ location: "body", message: "did not come as well-formed HTTP" }]),
  headers: () => new KeystileError("HEADERS_TOO_LARGE", "the headers are larger than this server accepts"),
  time: () => new KeystileError("REQUEST_TIMEOUT", "the request did not arrive in time"),
  method: () => new KeystileError("METHOD_NOT_ALLOWED", "this server opens no tunnels"),
});

/** The fault as an error. */
export function toFault(kind: ConnectionError): KeystileError {
  return REASONS[kind]();
}

/** Writes the answer, and ends the connection. */
export function sendConnectionError(
  socket: Connection,
  { title }: KeystileError,
  { status, headers, text }: Outgoing,
): void {
  const lines = [`HTTP/1.1 ${status} ${title}`];
  for (let i = 0; i + 1 < headers.length; i += 2) lines.push(`${headers[i]!}: ${headers[i + 1]!}`);
  lines.push(`content-length: ${new TextEncoder().encode(text).length}`, "connection: close");
  socket.end(`${lines.join("\r\n")}\r\n\r\n${text}`);
}
