/**
 * Overrides whose identifier holds `*`, which stands for any run of characters, also none: which of them applies to an
 * identifier. Linear in the characters of both, without regular expressions, so that no pattern is slow.
 */
import type { NamespaceRow, WildcardRef } from "../../contracts/store.js";

/** Overrides with `*` that a namespace may have. Each is tried for every identifier without an override of its own. */
export const MAX_WILDCARDS = 100;
/** Characters of their identifiers together, since every check of the namespace reads them. */
export const MAX_WILDCARD_CHARACTERS = 8_192;

const WILDCARD = "*";

/** Whether the identifier of an override stands for more than itself. */
export function isWildcard(identifier: string): boolean {
  return identifier.includes(WILDCARD);
}

/** The wildcard that applies: the one with most literal characters, of several the one with the smallest id. */
export function findWildcard({ wildcards = [] }: NamespaceRow, identifier: string): WildcardRef | undefined {
  let best: WildcardRef | undefined;
  let most = -1;
  for (const wildcard of wildcards) {
    const count = literalsOf(wildcard.identifier);
    if (count < most || (count === most && best !== undefined && wildcard.id > best.id)) continue;
    if (matches(wildcard.identifier, identifier)) [best, most] = [wildcard, count];
  }
  return best;
}

/** Characters other than `*`, in code points. */
function literalsOf(pattern: string): number {
  let count = 0;
  for (const character of pattern) if (character !== WILDCARD) count++;
  return count;
}

/**
 * Whether a pattern stands for a text: its first part begins it, its last one ends it, the others lie between in order.
 */
export function matches(pattern: string, text: string): boolean {
  const parts = pattern.split(WILDCARD);
  const first = parts[0] as string;
  const last = parts[parts.length - 1] as string;
  if (parts.length === 1) return pattern === text;
  if (text.length < first.length + last.length || !text.startsWith(first) || !text.endsWith(last)) return false;
  const end = text.length - last.length;
  let at = first.length;
  for (let i = 1; i < parts.length - 1; i++) {
    at = endOf(parts[i] as string, text, at, end);
    if (at < 0) return false;
  }
  return true;
}

/** Where the first occurrence of `part` in `text.slice(from, to)` ends, or -1: Knuth, Morris and Pratt. */
function endOf(part: string, text: string, from: number, to: number): number {
  if (part === "") return from;
  const borders = bordersOf(part);
  let matched = 0;
  for (let i = from; i < to; i++) {
    const unit = text.charCodeAt(i);
    while (matched > 0 && part.charCodeAt(matched) !== unit) matched = borders[matched - 1] as number;
    if (part.charCodeAt(matched) === unit) matched++;
    if (matched === part.length) return i + 1;
  }
  return -1;
}

/** For each prefix, the length of its longest proper prefix that also ends it. */
function bordersOf(part: string): readonly number[] {
  const borders = [0];
  let length = 0;
  for (let i = 1; i < part.length; i++) {
    const unit = part.charCodeAt(i);
    while (length > 0 && part.charCodeAt(length) !== unit) length = borders[length - 1] as number;
    if (part.charCodeAt(length) === unit) length++;
    borders.push(length);
  }
  return borders;
}
