/** The request of a search of keys. */
import * as v from "valibot";
import { KEY_STATES } from "../../lib/key-state.js";
import { readKeyCursor } from "./cursor.js";
import { described } from "./json-schema.js";
import { cursorOf, limitUpTo } from "./page.js";
import { body, integer, nameGiven, optional, optionalOr, text, time } from "./primitives.js";
import type { SearchKeysRequestBody } from "./requests.js";

function oneOf<const T extends string>(...names: readonly T[]) {
  const schema = v.custom<T>((value) => names.includes(value as T), `must be one of: ${names.join(", ")}`);
  return described(schema, { type: "string", enum: names });
}

export const searchedKeys = body<SearchKeysRequestBody>()({
  apiId: optional(nameGiven),
  externalId: optional(nameGiven),
  search: optional(text(0, 256)),
  state: optional(oneOf(...KEY_STATES)),
  expiresBefore: optional(time),
  creditsBelow: optional(integer(1)),
  order: optionalOr(oneOf("made", "expires", "lastUsed", "credits"), "made"),
  limit: limitUpTo(100, 50),
  cursor: cursorOf((cursor) => readKeyCursor(cursor) !== undefined),
});
