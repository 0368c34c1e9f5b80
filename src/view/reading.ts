/** Reads what a form sent, and lets each form be sent once. */
import { KeystileError } from "../contracts/errors.js";
import type { Hold } from "../http/admission/admission.js";
import type { Incoming } from "../http/messages.js";
import { type FormView, ONCE } from "./form.js";

/** Bytes of a form, as it is sent. */
const MAX_FORM_BYTES = 16_384;
const FORM_TYPE = /^application\/x-www-form-urlencoded(?:\s*;\s*charset="?utf-8"?)?$/i;
/** Forms that are remembered as sent. */
const MAX_SENT = 10_000;
/** Characters by which a form is remembered: who sends it may make them as many as a form holds. */
const MAX_ID = 256;

/** @throws (rejects) KeystileError UNSUPPORTED_MEDIA_TYPE · PAYLOAD_TOO_LARGE · BAD_REQUEST · OVERLOADED */
export async function readForm(incoming: Incoming, hold: Hold): Promise<URLSearchParams> {
  if (!FORM_TYPE.test(incoming.header("content-type") ?? "") || incoming.header("content-encoding") !== undefined)
    throw new KeystileError("UNSUPPORTED_MEDIA_TYPE", "a form must be sent as application/x-www-form-urlencoded");
  const bytes = incoming.bodyIfBuffered?.() ?? (await incoming.readBody(MAX_FORM_BYTES, hold));
  return new URLSearchParams(new TextDecoder().decode(bytes));
}

/** What is remembered of a form: what it sent and its answer, until that is there. */
type Sent = { readonly fields: string; readonly answer: Promise<unknown> } | "done";

/** The memory of which forms were sent. */
export function createSentForms() {
  /** By owner and id, the oldest first. */
  const owners = new Map<string, Map<string, Sent>>();
  let size = 0;
  const forget = (owner: string, id: string): void => {
    const sent = owners.get(owner);
    if (sent?.delete(id) !== true) return;
    size--;
    if (sent.size === 0) owners.delete(owner);
  };
  /** Of whoever has sent most, the oldest form gives way. */
  const makeSpace = (): void => {
    let most: readonly [owner: string, sent: ReadonlyMap<string, Sent>] | undefined;
    for (const one of owners) if (one[1].size > (most?.[1].size ?? 0)) most = one;
    for (const id of most?.[1].keys() ?? []) return forget(most?.[0] ?? "", id);
  };
  return {
    /**
     * Runs what a form does. The same form again while that runs, as a double click sends it, gets the same answer: a
     * browser shows only the last one.
     * @param form with whose it is, whatever session sent it: nobody's forms push those of others out of the memory
     * @returns undefined: it was sent before
     * @throws (rejects) what `act` throws; the form may be sent again then
     */
    once<T>(
      { owner, here, form }: Pick<FormView, "here" | "form"> & { readonly owner: string },
      act: () => Promise<T>,
    ): Promise<T> | undefined {
      const id = (form.get(ONCE) ?? "").slice(0, MAX_ID);
      const fields = `${here} ${form.toString()}`;
      const sent = owners.get(owner) ?? new Map<string, Sent>();
      const before = sent.get(id);
      if (before !== undefined)
        return before !== "done" && before.fields === fields ? (before.answer as Promise<T>) : undefined;
      const answer = act().then(
        (done) => {
          if (sent.has(id)) sent.set(id, "done");
          return done;
        },
        (error: unknown) => {
          forget(owner, id);
          throw error;
        },
      );
      owners.set(owner, sent.set(id, { fields, answer }));
      if (++size > MAX_SENT) makeSpace();
      return answer;
    },
  };
}

/** Which forms were sent. */
export type SentForms = ReturnType<typeof createSentForms>;
