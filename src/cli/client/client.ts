/** Calls the service over HTTP, and maps responses to exit codes (contract 1, 2.4, 7). */
import { IDEMPOTENCY_KEY } from "../../http/idempotency-key.js";
import { EXIT, type ExitCode, type Failure, failure } from "../io/failures.js";
import { tryJson } from "../io/input.js";
import type { Io } from "../io/io.js";
import { isObject } from "../../lib/copy-json.js";
import type { Settings } from "./settings.js";

/** A success envelope. */
export interface Envelope {
  readonly meta: { readonly requestId: string };
  readonly data: unknown;
  readonly pagination?: { readonly cursor?: string; readonly hasMore: boolean };
}

/** Result of one call. */
export type Answer =
  | { readonly ok: true; readonly envelope: Envelope }
  /** The server refused: its error envelope, unchanged. */
  | {
      readonly ok: false;
      readonly status: number;
      readonly envelope: unknown;
      readonly message: string;
      readonly retryAfter?: number;
    }
  /** No response, or one that is not in the envelope. */
  | { readonly ok: false; readonly status?: number; readonly message: string; readonly retryAfter?: number };

/** Timeout of a request, milliseconds. */
const TIMEOUT = 120_000;
/** Maximum validation errors shown of one response. */
const MAX_FAULTS = 20;

/** What is sent. */
export interface Request {
  /** Name of the operation. */
  readonly name: string;
  /** JSON text; absent: GET. */
  readonly body?: string;
  /** Printable ASCII; absent: every repeat acts again. */
  readonly idempotencyKey?: string | undefined;
}

/**
 * Sends one request.
 * @returns the result; failures too are values, so that the caller can retry
 */
export async function call(
  io: Io,
  { apiUrl, rootKey }: Settings,
  { name, body, idempotencyKey }: Request,
): Promise<Answer> {
  const headers: Record<string, string> = { accept: "application/json" };
  if (rootKey !== undefined) headers["authorization"] = `Bearer ${rootKey}`;
  if (idempotencyKey !== undefined) headers[IDEMPOTENCY_KEY] = `"${idempotencyKey.replace(/["\\]/g, "\\$&")}"`;
  if (body !== undefined) headers["content-type"] = "application/json";
  let response: Response;
  let text: string;
  try {
    // Redirects are not followed: the root key must be sent only to this address.
    const init = {
      method: body === undefined ? "GET" : "POST",
      headers,
      redirect: "manual",
      signal: AbortSignal.timeout(TIMEOUT),
    } as const;
    response = await io.fetch(`${apiUrl}/v2/${name}`, body === undefined ? init : { ...init, body });
    text = await response.text();
  } catch (error) {
    return { ok: false, message: `no answer from ${apiUrl}: ${reasonOf(error)}` };
  }
  return readAnswer(response, text, apiUrl);
}

function readAnswer(response: Response, text: string, apiUrl: string): Answer {
  const { status } = response;
  const envelope = readObject(text);
  const requestId = readObject(envelope?.["meta"])?.["requestId"];
  if (status === 200 && typeof requestId === "string" && envelope !== undefined && "data" in envelope) {
    return { ok: true, envelope: envelope as unknown as Envelope };
  }
  const after = Number(response.headers.get("retry-after") ?? Number.NaN);
  const retryAfter = Number.isFinite(after) && after >= 0 ? { retryAfter: after * 1_000 } : {};
  const error = readObject(envelope?.["error"]);
  if (error === undefined || typeof requestId !== "string") {
    return {
      ok: false,
      status,
      message: `${apiUrl} answered HTTP ${status} without the envelope of this interface`,
      ...retryAfter,
    };
  }
  const message = `${String(error["title"])} (${status}): ${String(error["detail"])} [${requestId}]`;
  return { ok: false, status, envelope, message, ...retryAfter };
}

/** An object unchanged, or the JSON object in a string; otherwise `undefined`. */
function readObject(value: unknown): Readonly<Record<string, unknown>> | undefined {
  const object = typeof value === "string" ? tryJson(value).value : value;
  return isObject(object) ? object : undefined;
}

/** Only the system's error code: messages of `fetch` may repeat what was sent. */
function reasonOf(error: unknown): string {
  const { name, cause } = error as { name?: unknown; cause?: unknown };
  const code = (cause as { code?: unknown } | null | undefined)?.code;
  if (code === "ECONNREFUSED") return "connection refused; is the server running? `keystile serve` starts one";
  if (name === "TimeoutError") return `none came within ${TIMEOUT / 1_000} seconds`;
  return typeof code === "string" ? code : "the network failed";
}

/** The exit code of an error status. */
function exitCodeOf(status: number): ExitCode {
  if (status === 400 || status === 413 || status === 422) return EXIT.usage;
  return status === 404 || status === 409 ? EXIT.no : EXIT.failed;
}

/** The failure of a command for a failed call, with the server's list of validation errors. */
export function refusal(answer: Exclude<Answer, { ok: true }>): Failure {
  if (!("envelope" in answer)) return failure(EXIT.failed, answer.message);
  const faults = readObject(readObject(answer.envelope)?.["error"])?.["errors"];
  const lines = (Array.isArray(faults) ? faults : []).slice(0, MAX_FAULTS).map((fault) => {
    const { location, message, fix } = (readObject(fault) ?? {}) as Readonly<Record<string, string | undefined>>;
    return `${location}: ${message}${fix === undefined ? "" : `; ${fix}`}`;
  });
  return failure(exitCodeOf(answer.status), answer.message, lines);
}
