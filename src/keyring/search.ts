/**
 * Search in lists: which rows hold a text in one of their fields, whatever the case.
 *
 * Why here and not in the stores: databases fold case each in their own way, and a page has to be exact on all of them.
 */
import type { Rows } from "../contracts/store.js";

/** The fields that a search looks at, by table. */
const FIELDS = {
  identities: ({ id, externalId }) => [id, externalId],
  roles: ({ id, name, description }) => [id, name, description],
  permissions: ({ id, name, slug, description }) => [id, name, slug, description],
  namespaces: ({ id, name }) => [id, name],
  keys: ({ id, start, name }) => [id, start, name],
} as const satisfies { readonly [T in keyof Rows]?: (row: Rows[T]) => readonly (string | undefined)[] };

/** Tables that can be searched. */
export type SearchedTable = keyof typeof FIELDS;

/** A search of a table. */
export interface Search<T extends keyof Rows> {
  /** As given. */
  readonly text: string;
  /** Whether a row holds the text in a field. */
  matches(row: Rows[T]): boolean;
}
/** A search for a text that may also be in what a row refers to. */
export interface TextSearch<T extends keyof Rows> extends Search<T> {
  isIn(text: string): boolean;
}

/**
 * The search for a text; `undefined`: it is blank, and every row matches.
 *
 * Case is ignored by simple folding: each character folds to one other, so that `ß` is not `ss`. This is what the flags
 * `iu` of a regular expression do; the expression is the text alone, every character of it literal.
 */
export function createSearch<T extends SearchedTable>(table: T, text = ""): TextSearch<T> | undefined {
  if (text.trim() === "") return undefined;
  const literal = new RegExp(text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"), "iu");
  const fieldsOf = FIELDS[table] as (row: Rows[T]) => readonly (string | undefined)[];
  return {
    text,
    matches: (row) => fieldsOf(row).some((field) => field !== undefined && literal.test(field)),
    isIn: (other) => literal.test(other),
  };
}
