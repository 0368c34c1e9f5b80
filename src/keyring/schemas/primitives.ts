/** Building blocks of the request schemas, with each bound stated once. Contract 2.3, 8. */
import * as v from "valibot";
import type { Json, JsonObject } from "../../contracts/types.js";
import { ownOnly } from "../../lib/check-options.js";
import { hasLength, isObject, Refusal } from "../../lib/copy-json.js";
import { isAddressOrRange } from "../../lib/ip-ranges.js";
import { explainSeconds, explainShort, MIN_TIME_MS } from "../../lib/seconds.js";
import { described } from "./json-schema.js";
import { type Differing, type Exact, isUnknownProperty, type Schema, withFix } from "./parse.js";

/**
 * Permissions that a request names, and of one role: what a role has, each of up to 100 roles of a key adds to its
 * verifications, and no store can tell the keys of a role. A key itself may have more, up to 1 MiB of them.
 */
export const MAX_PERMISSIONS = 1_000;
/** Roles of one key. */
export const MAX_ROLES = 100;
const MAX_META_PROPERTIES = 100;
/** Characters of text that names something. */
const MAX_NAME = 255;
/** 2100-01-01T00:00:00Z: the latest time that a request may give. */
export const MAX_TIME = 4_102_444_800_000;

/**
 * An object with these properties and no others; every unknown property is reported.
 * `undefined` counts as absent, since {@link copyBody} leaves it out, except for a field that narrows.
 */
export function strict<const E extends v.ObjectEntries>(entries: E) {
  return v.pipe(
    v.custom<Record<string, unknown>>((value) => isObject(value) && !(value instanceof Refusal), "must be an object"),
    // Valibot also iterates inherited entries.
    v.strictObject(ownOnly(entries)),
    v.rawCheck(({ dataset, addIssue }) => {
      const first = dataset.issues?.find((issue) => issue.path?.length === 1 && isUnknownProperty(issue))?.path?.[0];
      if (first === undefined) return;
      const unknown = Object.keys(first.input as object).filter(
        (key) => key !== first.key && !Object.hasOwn(entries, key),
      );
      // At most 101: no more are copied of an object.
      for (const key of unknown) addIssue({ expected: "never", path: [{ ...first, key } as typeof first] });
    }),
  );
}

type Parsed<E extends v.ObjectEntries> = v.InferOutput<v.StrictObjectSchema<E, undefined>>;

/**
 * {@link strict} of a documented type. The compiler rejects a missing or extra property, or one of another type:
 * assignability alone does not compare optional properties.
 *
 * Why types beside the schemas: inferred ones would bring valibot's into the package's declarations.
 */
export function body<T>() {
  return <const E extends v.ObjectEntries>(
    entries: Exact<Parsed<E>, T> extends [true, true, true] ? E : Differing<Parsed<E>, T>,
  ) => strict(entries as E) as v.GenericSchema as Schema<T>;
}

/** A property that may be left out. */
export const optional = v.exactOptional;
/** A property that may be null. */
export const nullable = v.nullable;

/**
 * A property that may be left out, which then counts as `value`. The default is documented here and applied by the
 * operation.
 */
export function optionalOr<S extends v.GenericSchema>(schema: S, value: Json) {
  return described(optional(schema), { default: value });
}

/** A list; its length is checked before its items. */
export function list<T>(item: v.GenericSchema<unknown, T>, min: number, max: number) {
  const hasLength = (value: unknown): boolean => Array.isArray(value) && value.length >= min && value.length <= max;
  const pipe = v.pipe(v.custom<unknown[]>(hasLength, `must be an array of ${min} to ${max} items`), v.array(item));
  return described(pipe, { ...(min > 0 && { minItems: min }), maxItems: max });
}

/**
 * Well-formed text of `min` to `max` code points.
 * @param max `Infinity`: the bound of the body is the only one
 * @param without what it must not have besides, in words, and which text has none of it
 */
function characters(min: number, max: number, without = "", fits = (_: string) => true) {
  const isText = (value: unknown): boolean =>
    typeof value === "string" && hasLength(value, min, max) && value.isWellFormed() && fits(value);
  const length = max === Infinity ? `at least ${min}` : `${min} to ${max}`;
  const schema = v.custom<string>(isText, `must be well-formed text of ${length} characters${without}`);
  return described(schema, { type: "string", minLength: min, ...(max < Infinity && { maxLength: max }) });
}

/** Text without U+0000, which some stores cannot hold. */
export const text = (min: number, max: number) =>
  characters(min, max, " without U+0000", (value) => !value.includes("\0"));

/** Control characters, and the two separators that end a line as they do. */
const CONTROL = /[\p{Cc}\u2028\u2029]/u;

/**
 * Text that names or describes a new row for people: {@link text} without control characters, which could forge lines
 * of a listing. To find a row, and where a program is the reader, {@link text} serves: older rows may have such names.
 */
export const label = (min: number, max: number) =>
  characters(min, max, " without control characters", (value) => !CONTROL.test(value));

/** As {@link text}, with U+0000 allowed: for text that is not stored. */
export const wellFormed = (min: number, max: number) => characters(min, max);

/** Text of ASCII characters that a pattern names. */
function token(pattern: RegExp, min: number, max: number, characters: string) {
  const fits = (value: unknown): boolean =>
    typeof value === "string" && value.length >= min && value.length <= max && pattern.test(value);
  const schema = v.custom<string>(fits, `must be ${min} to ${max} characters of ${characters}`);
  return described(schema, { type: "string", minLength: min, maxLength: max, pattern: pattern.source });
}

/** An integer by value, at most 2^53 − 1. */
export function integer(min: number, max = Number.MAX_SAFE_INTEGER) {
  const fits = (value: unknown): boolean =>
    Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max;
  const schema = v.custom<number>(fits, `must be an integer from ${min} to ${max}`);
  return described(schema, { type: "integer", minimum: min, maximum: max });
}

/** A schema with a further check. @param explain what is wrong with a value that the schema accepts, if anything */
export function checked<T>(schema: Schema<T>, explain: (value: T) => { message: string; fix: string } | undefined) {
  return v.pipe(
    schema,
    v.rawCheck(({ dataset, addIssue }) => {
      const fault = dataset.typed ? explain(dataset.value) : undefined;
      if (fault !== undefined) addIssue({ message: withFix(fault.message, fault.fix) });
    }),
  );
}

/** An option that keystile does not support: only `false` passes. */
function never(fix: string) {
  const schema = v.custom<false>((value) => value === false, withFix("is not supported, it can only be false", fix));
  return described(schema, { type: "boolean", const: false });
}

/** A text of a key that is asked for or to be kept. */
export const noPlaintext = optionalOr(
  never("leave it out: only the digest of a key is stored, its text cannot be given back"),
  false,
);

const WORD = /^[a-zA-Z0-9_]+$/;
const idOf = (min: number) => token(WORD, min, MAX_NAME, "a-z, A-Z, 0-9 and _");

/** Id of a key, or of an API where a key is made. */
export const id = idOf(3);
/** Id of an API in the operations `apis.*`, which require more characters. */
export const longId = idOf(8);
/** The name of a new key or root key. */
export const name = label(1, MAX_NAME);
/** Of a change of keys, owners, APIs, root keys or credits: why, for its entry of the audit trail. */
export const explained = { reason: optional(name) };
/** Text that a row is found by: of any length, since none is found by what is longer than its name. */
export const nameGiven = text(1, Infinity);
export const prefix = token(WORD, 1, 16, "a-z, A-Z, 0-9 and _");
/** The first characters of an imported key, as another system kept them. */
export const start = token(/^[!-~]+$/, 1, 32, "visible ASCII");
/** The id of an imported key, as another system gave it. */
export const keyId = token(WORD, 8, MAX_NAME, "a-z, A-Z, 0-9 and _");
/** Names a new identity over HTTP, unless an option of the service says otherwise. */
export const externalId = token(/^[a-zA-Z0-9_.-]+$/, 1, MAX_NAME, "a-z, A-Z, 0-9, _, . and -");
/**
 * Names a new identity in the library and in imports: what identity providers use, such as `auth0|123` or an address.
 */
export const anyExternalId = label(1, MAX_NAME);
/** What a query can ask for, except the words that are operators in it. */
const SLUG = "a-z, A-Z, 0-9, _, :, -, ., * and /, and not AND or OR";
export const slug = token(/^(?!(?:[aA][nN][dD]|[oO][rR])$)[a-zA-Z0-9_:\-.*/]+$/, 1, 128, SLUG);
/** A slug by which a permission is found, or removed. */
export const slugGiven = token(/^[a-zA-Z0-9_:\-.*/]+$/, 1, 128, "a-z, A-Z, 0-9, _, :, -, ., * and /");
export const roleId = token(/^[a-zA-Z0-9_-]+$/, 3, MAX_NAME, "a-z, A-Z, 0-9, _ and -");
export const roleName = text(1, 128);
export const description = label(0, 512);
/** Unix time, milliseconds, as the contract has it: one in seconds is accepted, and means a date in 1970. */
export const specifiedTime = described(
  v.custom<number>(
    (value) => Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= MAX_TIME,
    withFix(`must be Unix time in milliseconds, an integer from 0 to ${MAX_TIME}`, "use Date.now() or date.getTime()"),
  ),
  { type: "integer", minimum: 0, maximum: MAX_TIME },
);
/** Unix time, milliseconds; one in seconds is refused. */
export const time = described(checked(specifiedTime, explainSeconds), {
  if: { minimum: 1 },
  then: { minimum: MIN_TIME_MS },
});
/** A length of time, milliseconds; one that looks like seconds is refused. @param min 0, which is none, or 1_000 */
export function length(min: 0 | 1_000, max = Number.MAX_SAFE_INTEGER) {
  const fits = (value: unknown): boolean =>
    Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max && !explainShort(value);
  const schema = v.custom<number>(fits, ({ input }) => {
    const fault = explainShort(input);
    return fault === undefined ? `must be an integer from ${min} to ${max}` : withFix(fault.message, fault.fix);
  });
  const json = { type: "integer", minimum: min, maximum: max } as const;
  return described(schema, min === 0 ? { ...json, if: { minimum: 1 }, then: { minimum: 1_000 } } : json);
}
/** Milliseconds from now. */
export const period = length(1_000, MAX_TIME);
export const boolean = described(
  v.custom<boolean>((value) => typeof value === "boolean", "must be true or false"),
  { type: "boolean" },
);

export const slugs = (min: number) => list(slug, min, MAX_PERMISSIONS);
export const roleNames = (min: number) => list(roleName, min, MAX_ROLES);
/** Exact addresses and CIDR ranges, IPv4 and IPv6. */
export const ipAllowlist = list(
  described(
    v.custom<string>(
      (value) => typeof value === "string" && isAddressOrRange(value),
      withFix("must be an IP address or a CIDR range", 'write it like "192.0.2.7", "192.0.2.0/24" or "2001:db8::/32"'),
    ),
    { type: "string" },
  ),
  0,
  1_000,
);

/** Free-form data, already copied and bounded by {@link copyPlain}. */
export const meta = described(
  v.custom<JsonObject>(
    (value) => isObject(value) && !(value instanceof Refusal) && Object.keys(value).length <= MAX_META_PROPERTIES,
    ({ input }) => {
      if (input instanceof Refusal) return input.message;
      return isObject(input) ? `must have at most ${MAX_META_PROPERTIES} properties` : "must be an object";
    },
  ),
  { type: "object", maxProperties: MAX_META_PROPERTIES, additionalProperties: true },
);
