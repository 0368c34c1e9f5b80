/**
 * The fast path of an import: quickly recognizes most keys that the schema accepts. Spec §2.3.
 *
 * Why: the schema takes 3 µs a key, this 0.6. It may reject what the schema accepts: then the schema decides. The
 * schema accepts whatever this accepts (`fast-validate.test.ts` compares the two).
 */
import type { V2KeysMigrateKeyData } from "../../contracts/types.js";
import { isPlain, MAX_DATE_MS } from "../../lib/check-options.js";

type Fields = Readonly<Record<string, unknown>>;
type Predicate = (value: unknown) => boolean;

/** `AND` and `OR`, which are no slugs, are left to the schema. */
const SLUG = /^(?!(?:and|or)$)[a-zA-Z0-9_:\-.*/]{1,128}$/i;
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/;
const MAX_META_PROPERTIES = 100;
/** Longer lists are left to the schema. */
const MAX_FAST_LIST = 50;

/** Text that has `min` characters however many units a character takes. */
const text =
  (min: number, max: number): Predicate =>
  (value) =>
    typeof value === "string" &&
    value.length >= min * 2 &&
    value.length <= max &&
    value.isWellFormed() &&
    !value.includes("\0");
/** What the schema accepts as a name; all that might hold control characters is left to it. */
const label =
  (min: number, max: number): Predicate =>
  (value) =>
    text(min, max)(value) && !CONTROL.test(value as string);
const integer =
  (min: number, max = Number.MAX_SAFE_INTEGER): Predicate =>
  (value) =>
    Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max;
const list =
  (item: Predicate): Predicate =>
  (value) =>
    Array.isArray(value) && value.length <= MAX_FAST_LIST && value.every(item);
const isBoolean: Predicate = (value) => typeof value === "boolean";

/** An object with these properties and no others, of which the first `required` must be there. */
const object = (predicates: Readonly<Record<string, Predicate>>, required: number): Predicate => {
  const table = new Map(Object.entries(predicates));
  const needed = [...table.keys()].slice(0, required);
  return (value) => {
    if (!isObject(value)) return false;
    // Not Object.keys, which makes an array. Inherited names would be checked too, but a copy has none.
    for (const name in value) if (table.get(name)?.(value[name]) !== true) return false;
    return needed.every((name) => Object.hasOwn(value, name));
  };
};

const isLimit = object({ name: label(3, 128), limit: integer(1), duration: integer(1_000), autoApply: isBoolean }, 4);
/** Names are unique; more than two limits are left to the schema. */
const areLimits: Predicate = (value) => {
  if (!Array.isArray(value) || value.length > 2 || !value.every(isLimit)) return false;
  const [first, second] = value as readonly { readonly name: string }[];
  return first === undefined || first.name !== second?.name;
};
/** Refills are left to the schema, since their fields interdepend. */
const isCredits = object({ remaining: (value) => value === null || integer(0)(value) }, 1);
const isMeta: Predicate = (value) => isObject(value) && Object.keys(value).length <= MAX_META_PROPERTIES;

const isKey = object(
  {
    hash: text(3, 1_024),
    name: label(1, 255),
    externalId: label(1, 255),
    meta: isMeta,
    roles: list(text(1, 128)),
    permissions: list((value) => typeof value === "string" && SLUG.test(value)),
    expires: integer(0, MAX_DATE_MS),
    enabled: isBoolean,
    credits: isCredits,
    ratelimits: areLimits,
  },
  1,
);

/** @param copy a key as `copyBody` made it: plain data of this program's own, its `meta` validated, or a refusal */
export function fastAccept(copy: unknown): copy is V2KeysMigrateKeyData {
  return isKey(copy);
}

/** A refusal of `meta` is an instance of a class; lists are too. */
function isObject(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && isPlain(value);
}
