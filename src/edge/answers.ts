/**
 * What an object answers over RPC: a text. An error thrown across RPC loses its class and its code, so both are data,
 * and are made anew on the other side.
 */
import { isKeystileError, KeystileError, type KeystileErrorCode, type ValidationProblem } from "../contracts/errors.js";

/** A result, or an error; and what goes with a verification unseen. */
export interface Answer {
  readonly value?: unknown;
  readonly error?: {
    readonly code: KeystileErrorCode;
    readonly detail: string;
    readonly errors?: readonly ValidationProblem[];
    readonly outcomeUnknown?: boolean;
  };
  /** A programmer's mistake. */
  readonly mistake?: { readonly name: "TypeError" | "RangeError"; readonly message: string };
  /** Milliseconds to wait after a refusal. */
  readonly retryAfter?: number | undefined;
  /** Of the key, if the context of the verification asked to be told. */
  readonly permissions?: readonly string[] | undefined;
}

/**
 * The text of what a call resolves to, or rejects with.
 * @throws (rejects) what is neither an error of keystile nor a mistake
 */
export async function answerOf(work: () => Promise<Answer>): Promise<string> {
  return JSON.stringify(await work().catch(toAnswer));
}

function toAnswer(error: unknown): Answer {
  if (isKeystileError(error)) {
    const { code, detail, errors, outcomeUnknown } = error;
    return { error: { code, detail, errors, ...(outcomeUnknown && { outcomeUnknown }) } };
  }
  if (error instanceof TypeError || error instanceof RangeError)
    return { mistake: { name: error instanceof TypeError ? "TypeError" : "RangeError", message: error.message } };
  throw error;
}

/** @throws the error of the answer · KeystileError STORE_INVALID: it is none */
export function readAnswer(text: string): Answer {
  const answer = parse(text);
  const { error, mistake } = answer;
  if (error !== undefined) throw new KeystileError(error.code, error.detail, error);
  if (mistake !== undefined) throw new { TypeError, RangeError }[mistake.name](mistake.message);
  return answer;
}

function parse(text: string): Answer {
  let answer: unknown;
  try {
    answer = JSON.parse(text);
  } catch {
    // What it says quotes the text, in which a new key may be.
  }
  if (typeof answer === "object" && answer !== null) return answer;
  throw new KeystileError("STORE_INVALID", "the object answered with no answer of keystile");
}
