/** A call that is tried again: on 429, on 5xx and when the network fails, with waits that grow. Bounded. Spec §7. */
import type { Io } from "../io/io.js";
import { note, stripControlChars } from "../io/text.js";
import { type Answer, call } from "./client.js";
import type { Settings } from "./settings.js";

/** Milliseconds: the first wait at most, and every wait at most. */
const FIRST_WAIT = 500;
const LONGEST_WAIT = 15_000;
/** A server may ask for longer waits than ours; not for hours. */
const LONGEST_ASKED = 60_000;

/** A wish to stop, which cuts waits short. */
export interface Stop {
  readonly isWished: () => boolean;
  readonly wished: Promise<void>;
}

export interface Tried {
  readonly answer: Answer;
  /** An earlier try got no answer, or a 5xx: the server may have done its work all the same. */
  readonly isUncertain: boolean;
}

/**
 * @param retries how often it is tried again, 0 or more
 * @returns the last answer; a stop ends the waits, and lets a call that was sent finish
 */
export async function callPatiently(
  io: Io,
  settings: Settings,
  request: { readonly name: string; readonly body: string },
  { retries, stop }: { readonly retries: number; readonly stop: Stop },
): Promise<Tried> {
  let isUncertain = false;
  for (let tries = 0; ; tries++) {
    const answer = await call(io, settings, request.name, request.body);
    if (answer.ok || !isWorthTrying(answer.status) || tries >= retries || stop.isWished())
      return { answer, isUncertain };
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

function isWorthTrying(status: number | undefined): boolean {
  return status === undefined || status === 429 || (status >= 500 && status !== 501);
}

/** Anywhere between half and all of a span that doubles, so that many clients do not come back at once. */
function waitBefore(io: Io, tries: number, asked: number | undefined): number {
  const span = Math.min(FIRST_WAIT * 2 ** tries, LONGEST_WAIT);
  const backoff = span * (0.5 + io.random() / 2);
  return Math.max(backoff, Math.min(asked ?? 0, LONGEST_ASKED));
}
