/**
 * Keys in HTTP responses: without the library's extra fields, since the specification lists every field of a response.
 */
import type { KeyCreditsData } from "../../contracts/types.js";
import type { KeyCredits, KeyResponseData } from "../../keyring/schemas/responses.js";

export function toWireCredits({ remaining, refill }: KeyCredits): KeyCreditsData {
  return refill === undefined ? { remaining } : { remaining, refill };
}

/** A key over HTTP. */
export type WireKey = Omit<KeyResponseData, "apiId">;

export function toWireKey({ apiId: _, ...key }: KeyResponseData): WireKey {
  return key.credits === undefined ? key : { ...key, credits: toWireCredits(key.credits) };
}
