/** Error responses (contract 2.4) on connections without a parsed request, written directly to the socket. */
import { badRequest, KeystileError } from "../../contracts/errors.js";
import type { Outgoing } from "../messages.js";

/** What was wrong with a connection. */
export type ConnectionError = "syntax" | "headers" | "time" | "method";

/** The error of a connection, by what was wrong with it. */
export const CONNECTION_FAULTS: Readonly<Record<ConnectionError, () => KeystileError>> = Object.freeze({
  syntax: () => badRequest([{ location: "body", message: "did not come as well-formed HTTP" }]),
  headers: () => new KeystileError("HEADERS_TOO_LARGE", "the headers are larger than this server accepts"),
  time: () => new KeystileError("REQUEST_TIMEOUT", "the request did not arrive in time"),
  method: () => new KeystileError("METHOD_NOT_ALLOWED", "this server opens no tunnels"),
});

/** Writes the answer, and ends the connection. */
export function sendConnectionError(
  socket: { end(text: string): unknown },
  { title }: KeystileError,
  { status, headers, text }: Outgoing,
): void {
  const lines = [`HTTP/1.1 ${status} ${title}`];
  for (let i = 0; i + 1 < headers.length; i += 2) lines.push(`${headers[i]!}: ${headers[i + 1]!}`);
  if (status === 405) lines.push("allow: GET, POST");
  lines.push(`content-length: ${new TextEncoder().encode(text).length}`, "connection: close");
  socket.end(`${lines.join("\r\n")}\r\n\r\n${text}`);
}
