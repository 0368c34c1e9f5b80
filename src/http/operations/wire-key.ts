/**
 * Keys in HTTP responses: without the library's extra fields, since the specification lists every field of a response.
 */
import type { KeyCreditsData } from "../../contracts/types.js";
import type { KeyCredits, KeyResponseData } from "../../keyring/schemas/responses.js";

export function toWireCredits({ remaining, refill }: KeyCredits): KeyCreditsData {
  return refill === undefined ? { remaining } : { remaining, refill };
}

export function toWireKey(key: KeyResponseData): KeyResponseData {
  return key.credits === undefined ? key : { ...key, credits: toWireCredits(key.credits) };
}
