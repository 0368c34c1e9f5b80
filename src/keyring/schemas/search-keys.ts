/** Schemas of `searchKeys`, `countKeys` and `changeKeys`. */
import * as v from "valibot";
import { LISTED_STATES } from "../../lib/key-state.js";
import { readKeyCursor } from "./cursor.js";
import { described } from "./json-schema.js";
import { cursorOf, limitUpTo } from "./page.js";
import {
  body,
  boolean,
  explained,
  id,
  integer,
  length,
  list,
  nameGiven,
  optional,
  optionalOr,
  text,
  time,
} from "./primitives.js";
import type { ChangeKeysRequestBody, CountKeysRequestBody, SearchKeysRequestBody } from "./requests.js";

function oneOf<const T extends string>(...names: readonly T[]) {
  const schema = v.custom<T>((value) => names.includes(value as T), `must be one of: ${names.join(", ")}`);
  return described(schema, { type: "string", enum: names });
}

/** How old an answer may be: up to a day. */
const age = optional(length(0, 86_400_000));

/** The request of a count of keys. */
export const countedKeys = body<CountKeysRequestBody>()({ apiId: optional(nameGiven), maxAge: age });

const filter = {
  apiId: optional(nameGiven),
  externalId: optional(nameGiven),
  search: optional(text(0, 256)),
  expiresBefore: optional(time),
  creditsBelow: optional(integer(1)),
  cursor: cursorOf((cursor) => readKeyCursor(cursor) !== undefined),
};

export const searchedKeys = body<SearchKeysRequestBody>()({
  ...filter,
  state: optional(oneOf(...LISTED_STATES)),
  order: optionalOr(oneOf("made", "expires", "lastUsed", "credits"), "made"),
  expiresFrom: optional(time),
  maxAge: age,
  limit: limitUpTo(100, 50),
});

export const changedKeys = body<ChangeKeysRequestBody>()({
  ...filter,
  keyIds: optional(list(id, 1, 100)),
  state: optional(oneOf(...LISTED_STATES.filter((state) => state !== "deleted"))),
  action: oneOf("disable", "enable", "delete"),
  dryRun: optionalOr(boolean, false),
  limit: limitUpTo(100, 100),
  ...explained,
});
