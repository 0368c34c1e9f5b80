/** Connections that never became a request still get the envelope, written by hand. Ruling G1, spec §2.4. Knows no operation. */
import { badRequest, VerifierError } from "../../contracts/errors.js";
import type { Incoming, Outgoing } from "../messages.js";

/** What is used of a socket. */
export interface Connection {
  readonly writable: boolean;
  end(text: string): unknown;
  destroy(): unknown;
}

/** What was wrong. */
export type Broken = "syntax" | "headers" | "time" | "method";

const REASONS: Readonly<Record<Broken, () => VerifierError>> = Object.freeze({
  syntax: () => badRequest([{ location: "body", message: "did not come as well-formed HTTP" }]),
  headers: () => new VerifierError("HEADERS_TOO_LARGE", "the headers are larger than this server accepts"),
  time: () => new VerifierError("REQUEST_TIMEOUT", "the request did not arrive in time"),
  method: () => new VerifierError("METHOD_NOT_ALLOWED", "this server opens no tunnels"),
});

/** The fault as an error. */
export function toFault(broken: Broken): VerifierError {
  return REASONS[broken]();
}

/** A request that fails with this fault, to be answered, logged and counted like any other (ruling G2). */
export function toBroken(fault: Error, method: string, origin: string): Incoming {
  const none = { authorization: [], header: () => undefined, clientAddress: undefined, bodyAtHand: undefined };
  return { ...none, method, path: "", origin, fault, readBody: () => Promise.reject(fault) };
}

/** Writes the answer, and ends the connection. */
export function sendBroken(socket: Connection, { title }: VerifierError, { status, headers, text }: Outgoing): void {
  const lines = [`HTTP/1.1 ${status} ${title}`];
  for (let i = 0; i + 1 < headers.length; i += 2) lines.push(`${headers[i]!}: ${headers[i + 1]!}`);
  lines.push(`content-length: ${new TextEncoder().encode(text).length}`, "connection: close");
  socket.end(`${lines.join("\r\n")}\r\n\r\n${text}`);
}
