/** What is noted of a request, and the one line that a log gets of it. Rulings G2, G4: named fields only, none of the client's making. */

/** Filled in while a request is answered. */
export interface Trace {
  readonly requestId: string;
  /** Of `performance.now()`. */
  readonly began: number;
  readonly method: string;
  /** Name of the operation or page; `unknown` for any other path. */
  operation: string;
  status: number;
  /** Of the error, or of the verification. */
  code: string;
  workspaceId: string | undefined;
  keyId: string | undefined;
  /** For the answer: names and values in turn. */
  headers: readonly string[];
}

/** Any other method is the client's text: logged as OTHER. */
const METHODS: ReadonlySet<string> = new Set([
  "GET",
  "HEAD",
  "POST",
  "PUT",
  "PATCH",
  "DELETE",
  "OPTIONS",
  "TRACE",
  "CONNECT",
]);

/**
 * The line of a request, as JSON.
 * @param now Unix time, milliseconds
 * @param ms from the request to its answer
 */
export function toLine(
  { requestId, method, operation, status, code, workspaceId, keyId }: Trace,
  now: number,
  ms: number,
): string {
  return JSON.stringify({
    time: now,
    requestId,
    method: METHODS.has(method) ? method : "OTHER",
    operation,
    status,
    ...(code !== "" && { code }),
    ms: Math.round(ms * 1_000) / 1_000,
    ...(workspaceId !== undefined && { workspaceId }),
    ...(keyId !== undefined && { keyId }),
  });
}
