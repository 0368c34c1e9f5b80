/** Schemas of `searchKeys`, `countKeys` and `changeKeys`. */
import * as v from "valibot";
import { LISTED_STATES } from "../../lib/key-state.js";
import { readKeyCursor } from "./cursor.js";
import { described } from "./json-schema.js";
import { cursorOf, limitUpTo } from "./page.js";
import * as atom from "./primitives.js";
import type { ChangeKeysRequestBody, CountKeysRequestBody, SearchKeysRequestBody } from "./requests.js";

function oneOf<const T extends string>(...names: readonly T[]) {
  const schema = v.custom<T>((value) => names.includes(value as T), `must be one of: ${names.join(", ")}`);
  return described(schema, { type: "string", enum: names });
}

/** How old an answer may be: up to a day. */
const age = atom.optional(atom.length(0, 86_400_000));

/** The request of a count of keys. */
export const countedKeys = atom.body<CountKeysRequestBody>()({ apiId: atom.optional(atom.nameGiven), maxAge: age });

const filter = {
  apiId: atom.optional(atom.nameGiven),
  externalId: atom.optional(atom.nameGiven),
  search: atom.optional(atom.text(0, 256)),
  expiresBefore: atom.optional(atom.time),
  creditsBelow: atom.optional(atom.integer(1)),
  cursor: cursorOf((cursor) => readKeyCursor(cursor) !== undefined),
};

export const searchedKeys = atom.body<SearchKeysRequestBody>()({
  ...filter,
  state: atom.optional(oneOf(...LISTED_STATES)),
  order: atom.optionalOr(oneOf("made", "expires", "lastUsed", "credits"), "made"),
  expiresFrom: atom.optional(atom.time),
  maxAge: age,
  limit: limitUpTo(100, 50),
});

export const changedKeys = atom.body<ChangeKeysRequestBody>()({
  ...filter,
  keyIds: atom.optional(atom.list(atom.id, 1, 100)),
  state: atom.optional(oneOf(...LISTED_STATES.filter((state) => state !== "deleted"))),
  action: oneOf("disable", "enable", "delete"),
  dryRun: atom.optionalOr(atom.boolean, false),
  limit: limitUpTo(100, 100),
  ...atom.explained,
});
