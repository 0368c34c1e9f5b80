/** Retries a call on 429, 5xx and network failure, with exponential backoff (contract 7). */
import type { Io } from "../io/io.js";
import { note, stripControlChars } from "../io/text.js";
import { type Answer, call, type Request } from "./client.js";
import type { Settings } from "./settings.js";

/** Maximum of the first wait and of every wait, milliseconds. */
const FIRST_WAIT = 500;
const MAX_WAIT = 15_000;
/** Maximum `retry-after` that is respected, milliseconds. */
const MAX_RETRY_AFTER = 60_000;

/** A request to stop (Ctrl-C), which cuts waits short. */
export interface Stop {
  readonly isWished: () => boolean;
  readonly wished: Promise<void>;
}

export interface Tried {
  readonly answer: Answer;
  /** An earlier try got no response, or a 5xx: the server may have done the work nevertheless. */
  readonly isUncertain: boolean;
}

/**
 * @param retries maximum number of retries, 0 or more
 * @returns the last result; a stop ends waits, but lets a call in flight finish
 */
export async function callWithRetry(
  io: Io,
  settings: Settings,
  request: Request,
  { retries, stop }: { readonly retries: number; readonly stop: Stop },
): Promise<Tried> {
  let isUncertain = false;
  for (let tries = 0; ; tries++) {
    const answer = await call(io, settings, request);
    if (answer.ok || !isRetryable(answer.status) || tries >= retries || stop.isWished()) return { answer, isUncertain };
    if (answer.status !== 429) isUncertain = true;
    const wait = waitBefore(io, tries, answer.retryAfter);
    await note(
      io,
      `${stripControlChars(answer.message)}; trying again in ${(wait / 1_000).toFixed(1)} s (${tries + 1} of ${retries})`,
    );
    await Promise.race([io.sleep(wait), stop.wished]);
    if (stop.isWished()) return { answer, isUncertain };
  }
}

function isRetryable(status: number | undefined): boolean {
  return status === undefined || status === 429 || (status >= 500 && status !== 501);
}

/** A random time between half and all of a span that doubles, so that many clients do not retry at once. */
function waitBefore(io: Io, tries: number, retryAfter: number | undefined): number {
  const span = Math.min(FIRST_WAIT * 2 ** tries, MAX_WAIT);
  const backoff = span * (0.5 + io.random() / 2);
  return Math.max(backoff, Math.min(retryAfter ?? 0, MAX_RETRY_AFTER));
}
