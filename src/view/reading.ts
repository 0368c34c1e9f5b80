/** Reads what a form sent, and lets each form be sent once. */
import { KeystileError } from "../contracts/errors.js";
import type { Hold } from "../http/admission/admission.js";
import type { Incoming } from "../http/messages.js";

/** Bytes of a form, as it is sent. */
const MAX_FORM_BYTES = 16_384;
const FORM_TYPE = /^application\/x-www-form-urlencoded(?:\s*;\s*charset="?utf-8"?)?$/i;
/** Forms that are remembered as sent; the oldest gives way. */
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

/** Which forms were sent. */
export interface SentForms {
  /** Runs what a form does, unless it was sent before. @throws (rejects) KeystileError CONFLICT · what `act` throws */
  once<T>(id: string, act: () => Promise<T>): Promise<T>;
}

/** A form that failed may be sent again. */
export function createSentForms(): SentForms {
  const sent = new Set<string>();
  return {
    async once(given, act) {
      const id = given.slice(0, MAX_ID);
      if (sent.has(id))
        throw new KeystileError("CONFLICT", "this form was sent before; go back and look at the result");
      sent.add(id);
      for (const oldest of sent) {
        if (sent.size <= MAX_SENT) break;
        sent.delete(oldest);
      }
      try {
        return await act();
      } catch (error) {
        sent.delete(id);
        throw error;
      }
    },
  };
}
