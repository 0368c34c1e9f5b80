/**
 * Keys in HTTP responses: without the library's extra fields, since the specification lists every field of a response.
 */
import type { KeyCredits, KeyResponseData, WireCredits } from "../../keyring/schemas/responses.js";

export function toWireCredits({ reserved, ...credits }: KeyCredits): WireCredits {
  return credits;
}

/** A key as the specification has it. */
export type WireKey = Omit<KeyResponseData, "apiId" | "rerolledFrom" | "rerolledTo">;

export function toWireKey(key: KeyResponseData): WireKey {
  const { apiId: _, rerolledFrom: __, rerolledTo: ___, ...wire } = key;
  return wire.credits === undefined ? wire : { ...wire, credits: toWireCredits(wire.credits) };
}
