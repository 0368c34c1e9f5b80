/** One call of the service over HTTP, and what its answer means for the exit code. Spec §1, §2.4, §7. Decides nothing about operations. */
import { EXIT, type ExitCode, type Failure, failure } from "../io/failures.js";
import type { Io } from "../io/io.js";
import type { Settings } from "./settings.js";

/** A success envelope. */
export interface Envelope {
  readonly meta: { readonly requestId: string };
  readonly data: unknown;
  readonly pagination?: { readonly cursor?: string; readonly hasMore: boolean };
}

/** What came of one call. */
export type Answer =
  | { readonly ok: true; readonly envelope: Envelope }
  /** The server said no, in the error envelope as it came. */
  | {
      readonly ok: false;
      readonly status: number;
      readonly envelope: unknown;
      readonly message: string;
      readonly retryAfter?: number;
    }
  /** No answer that could be understood. */
  | { readonly ok: false; readonly status?: number; readonly message: string; readonly retryAfter?: number };

/** Longest wait for an answer, milliseconds. */
const TIMEOUT = 120_000;
/** Faults that are shown of one answer. */
const MAX_FAULTS = 20;

/**
 * Sends one request.
 * @param body JSON text; none: GET
 * @returns the answer; what failed is a value too, so that it can be tried again
 */
export async function call(
  io: Io,
  { apiUrl, rootKey }: Settings,
  name: string,
  body: string | undefined,
): Promise<Answer> {
  const headers: Record<string, string> = { accept: "application/json" };
  if (rootKey !== undefined) headers["authorization"] = `Bearer ${rootKey}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  let response: Response;
  let text: string;
  try {
    // Redirects are not followed: the root key is for this address and no other.
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

/** An object as it is, or the JSON object that a text holds. */
function readObject(value: unknown): Record<string, unknown> | undefined {
  let object = value;
  if (typeof value === "string") {
    try {
      object = JSON.parse(value) as unknown;
    } catch {
      return undefined;
    }
  }
  return typeof object === "object" && object !== null ? (object as Record<string, unknown>) : undefined;
}

/** The system's own code only: other texts of `fetch` may repeat what was sent. */
function reasonOf(error: unknown): string {
  const { name, cause } = error as { name?: unknown; cause?: unknown };
  const code = (cause as { code?: unknown } | null | undefined)?.code;
  if (code === "ECONNREFUSED") return "connection refused; is the server running? `keystile serve` starts one";
  if (name === "TimeoutError") return `none came within ${TIMEOUT / 1_000} seconds`;
  return typeof code === "string" ? code : "the network failed";
}

/** What a refusal means: a request that is wrong, a no, or a failure. */
function exitCodeOf(status: number): ExitCode {
  if (status === 400 || status === 413) return EXIT.usage;
  return status === 404 || status === 409 ? EXIT.no : EXIT.failed;
}

/** The failure that an answer means for a command, with the server's own list of faults. */
export function refusal(answer: Exclude<Answer, { ok: true }>): Failure {
  if (!("envelope" in answer)) return failure(EXIT.failed, answer.message);
  const faults = readObject(readObject(answer.envelope)?.["error"])?.["errors"];
  const lines = (Array.isArray(faults) ? faults : []).slice(0, MAX_FAULTS).map((fault) => {
    const { location, message, fix } = (readObject(fault) ?? {}) as Readonly<Record<string, string | undefined>>;
    return `${location}: ${message}${fix === undefined ? "" : `; ${fix}`}`;
  });
  return failure(exitCodeOf(answer.status), answer.message, lines);
}
