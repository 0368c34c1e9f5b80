/** What pages of any kind have in common: how a request is taken, and what a page may give in place of itself. */
import { isKeystileError, KeystileError } from "../contracts/errors.js";
import { ADMISSION_BOUNDS, createAdmission, type Hold, MIB } from "../http/admission/admission.js";
import type { Incoming, Outgoing } from "../http/messages.js";
import type { Service } from "../http/service.js";
import type { FormView } from "./form.js";
import { requireSameOrigin } from "./origin.js";

/** Bytes that all requests of such pages hold together. */
const BUDGET = 96 * MIB;

/** What a page is made from, whoever asks. */
export interface PageView extends FormView {
  /** Unix time, milliseconds. */
  readonly now: number;
  /** What the address asks for. */
  readonly query: URLSearchParams;
}

/** A file that a page gives in place of itself. */
export interface Download {
  /** ASCII. */
  readonly file: string;
  readonly type: string;
  readonly text: string;
}

/**
 * Pages, for any host.
 * @param route answers a request
 * @param refuse answers with what `route` threw
 */
export function servePages(
  route: (incoming: Incoming, hold: Hold) => Promise<Outgoing>,
  refuse: (thrown: unknown) => Outgoing,
  close: () => Promise<void>,
): Service {
  const { arrive, hurry, makeSpace } = createAdmission({ ...ADMISSION_BOUNDS, budget: BUDGET });
  const answer = async (incoming: Incoming, hold: Hold): Promise<Outgoing> => {
    let outgoing: Outgoing;
    try {
      await hold.turn(false);
      await hold.growBody(incoming.bytesAhead?.() ?? 0);
      if (incoming.fault !== undefined) throw incoming.fault;
      outgoing = await route(incoming, hold);
    } catch (thrown) {
      outgoing = refuse(thrown);
    }
    hold.answered(2 * outgoing.text.length);
    return outgoing;
  };
  return { arrive, hurry, makeSpace, answer, close };
}

/** For `catch`: nothing where the error is one that may be, and the error otherwise. */
export const unless =
  (mayBe: (error: KeystileError) => boolean) =>
  (error: unknown): undefined => {
    if (!isKeystileError(error) || !mayBe(error)) throw error;
  };

/**
 * Whether a form is sent, rather than a page asked for.
 * @param where names the pages, for the message
 * @throws KeystileError METHOD_NOT_ALLOWED · CALLER_FORBIDDEN: the form is of another host
 */
export function sendsForm(incoming: Incoming, where: string): boolean {
  const isForm = incoming.method === "POST";
  if (!isForm && incoming.method !== "GET" && incoming.method !== "HEAD")
    throw new KeystileError("METHOD_NOT_ALLOWED", "a page takes GET, and its form POST");
  if (isForm) requireSameOrigin(incoming, where);
  return isForm;
}
