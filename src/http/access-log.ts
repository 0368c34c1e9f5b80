/** The trace of a request and its log line: fixed fields only, no text that the client chose. */

/** Filled in while a request is handled. */
export interface Trace {
  readonly requestId: string;
  /** `performance.now()` at the start. */
  readonly began: number;
  readonly method: string;
  /** Name of the operation or page; `unknown` for any other path. */
  operation: string;
  status: number;
  /** Code of the error, or outcome of the verification. */
  code: string;
  workspaceId: string | undefined;
  /** Id of the caller's root key; undefined: another caller, or none. */
  rootKeyId: string | undefined;
  keyId: string | undefined;
  /** What the contract accepts although it is hardly meant, such as a time in seconds. */
  warning: string | undefined;
  /** Extra response headers: alternating names and values. */
  headers: readonly string[];
}

/** Any other method is text that the client chose, and is logged as OTHER. */
const METHOD = /^(?:GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|TRACE|CONNECT)$/;

/**
 * The log line of a request, as JSON.
 * @param now Unix time, milliseconds
 * @param ms milliseconds from request to response
 */
export function toLine(
  { requestId, method, operation, status, code, workspaceId, rootKeyId, keyId, warning }: Trace,
  now: number,
  ms: number,
): string {
  return JSON.stringify({
    time: now,
    requestId,
    method: METHOD.test(method) ? method : "OTHER",
    operation,
    status,
    ...(code !== "" && { code }),
    ms: Math.round(ms * 1_000) / 1_000,
    // What is undefined has no JSON.
    ...{ workspaceId, rootKeyId, keyId, warning },
  });
}
