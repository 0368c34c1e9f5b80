/** What requests of lists take. */
import * as v from "valibot";
import { type CursorOf, type ListedTable, readCursor } from "./cursor.js";
import { described } from "./json-schema.js";
import { withFix } from "./parse.js";
import { body, boolean, integer, optional, optionalOr, text } from "./primitives.js";
import type { ListIdentitiesRequestBody, ListRequestBody, SearchRequestBody } from "./requests.js";

/** A cursor that may be left out. @param isOurs whether it is one of this list */
export function cursorOf(isOurs: (cursor: string) => boolean) {
  const wrong = withFix("is not a cursor of this list", "send pagination.cursor of the page before");
  const schema = v.custom<string>((value) => typeof value === "string" && isOurs(value), wrong);
  return optional(described(schema, { type: "string", minLength: 1, maxLength: 1_024 }));
}

/** Rows on a page. */
export function limitUpTo(most: number, usual: number) {
  return optionalOr(integer(1, most), usual);
}

/** What every list takes. @param limit rows per page unless the request says otherwise */
export function page(table: CursorOf, limit = 100) {
  return { limit: limitUpTo(100, limit), cursor: cursorOf((cursor) => readCursor(table, cursor) !== undefined) };
}

/** The request of a list. */
export function list(table: ListedTable) {
  return body<ListRequestBody>()(page(table));
}

/** The request of a list that can be searched. */
export function search(table: ListedTable) {
  return body<SearchRequestBody>()({ ...page(table), search: optional(text(0, 256)) });
}

/** The request of a list of identities. */
export const listedIdentities = body<ListIdentitiesRequestBody>()({
  ...{ ...page("identities"), search: optional(text(0, 256)), details: optionalOr(boolean, false) },
});
