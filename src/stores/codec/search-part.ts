/** What an SQL store looks for in place of a search, which keystile makes itself in the rows that the store finds. */
import type { EntityTable } from "./entity-codec.js";

/** Tables of which a search looks at more than ids and names: at their bodies as well. */
export const TABLES_WITH_TEXTS: readonly EntityTable[] = ["roles", "permissions"];

/**
 * The longest part of a text that every row with it holds as it is, but for the case of ASCII letters, also in JSON.
 * Such stores fold ASCII alone, and K and S have other forms (U+212A, U+017F).
 */
export function plainPartOf(text: string): string {
  const parts = text.match(/[ !#-JL-RT-[\]-jl-rt-~]+/g) ?? [];
  return parts.reduce((longest, part) => (part.length > longest.length ? part : longest), "").toLowerCase();
}
