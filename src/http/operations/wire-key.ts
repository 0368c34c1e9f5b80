/**
 * Keys in HTTP responses: without the library's extra fields, since the specification lists every field of a response.
 */
import type { KeyCredits, KeyResponseData, WireCredits } from "../../keyring/schemas/responses.js";

export function toWireCredits({ reserved, ...credits }: KeyCredits): WireCredits {
  return credits;
}

export function toWireKey(key: KeyResponseData): KeyResponseData {
  return key.credits === undefined ? key : { ...key, credits: toWireCredits(key.credits) };
}
