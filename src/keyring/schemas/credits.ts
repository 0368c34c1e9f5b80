/** Credits in requests: a balance and its refill. Contract 2.3, 8. */
import { CREDITS_SOURCES } from "../../lib/credits-source.js";
import * as v from "valibot";
import type { KeyCreditsData, Refill } from "../../contracts/types.js";
import { isTimeZone } from "../../credits/time-zone.js";
import { described } from "./json-schema.js";
import { type Schema, withFix } from "./parse.js";
import * as atom from "./primitives.js";
import type * as R from "./requests.js";

const { optional, nullable, integer, strict, body } = atom;

const INTERVALS = ["hourly", "daily", "weekly", "monthly"] as const;

/** Characters of the name of a time zone: twice as many as the longest has. */
const MAX_ZONE = 64;
const timeZone = described(
  v.custom<string>(
    (value) => typeof value === "string" && value.length <= MAX_ZONE && isTimeZone(value),
    withFix("must be a time zone that this runtime knows", "give an IANA name, such as Europe/Berlin"),
  ),
  { type: "string", maxLength: MAX_ZONE },
);

/** What is wrong with the day of a refill; undefined: nothing. */
function problemOfDay(interval: unknown, day: unknown): string | undefined {
  if (interval === "hourly" && day !== undefined) return withFix("does not go with an hourly refill", "leave it out");
  if (interval === "monthly" && day === undefined)
    return withFix("is required with a monthly refill", "give the day of the month, 1 to 31");
  // What is no day of the month either is told of already.
  const isWrong = day === undefined || (typeof day === "number" && day > 7 && day <= 31);
  if (interval !== "weekly" || !isWrong) return undefined;
  return withFix("must be a day of the week with a weekly refill", "give 1 for Monday, to 7 for Sunday");
}

/** `refillDay` is required with weekly and monthly, accepted with daily. */
export const refill = described(
  v.pipe(
    strict({
      interval: v.picklist(INTERVALS, 'must be "hourly", "daily", "weekly" or "monthly"'),
      amount: integer(1),
      refillDay: optional(integer(1, 31)),
      timeZone: optional(timeZone),
      rollover: optional(integer(0)),
    }),
    v.rawCheck(({ dataset, addIssue }) => {
      const { interval, refillDay: day } = (dataset.value ?? {}) as { interval?: unknown; refillDay?: unknown };
      const message = problemOfDay(interval, day);
      if (message === undefined) return;
      addIssue({
        message,
        path: [{ type: "object", origin: "value", input: dataset.value as never, key: "refillDay", value: day }],
      });
    }),
  ),
  {
    if: { properties: { interval: { enum: ["weekly", "monthly"] } } },
    then: {
      required: ["refillDay"],
      if: { properties: { interval: { const: "weekly" } } },
      then: { properties: { refillDay: { maximum: 7 } } },
    },
    else: { if: { properties: { interval: { const: "hourly" } } }, then: { not: { required: ["refillDay"] } } },
  },
) as Schema<Refill>;

/** Of a new key. */
export const credits = body<KeyCreditsData>()({ remaining: nullable(integer(0)), refill: optional(refill) });

/** Whose credits a key takes. */
export const creditsFrom = v.picklist(CREDITS_SOURCES, 'must be "key", "identity", "both" or "none"');

/** What becomes of the keys that draw on the credits of an identity that is deleted. */
export const drawingKeys = v.picklist(["disable"], 'must be "disable"');

/** Of a key or an identity that is changed. */
export const changedCredits = body<R.UpdateKeyCreditsData>()({
  remaining: optional(nullable(integer(0))),
  refill: optional(nullable(refill)),
});

/**
 * A change of a balance: a value goes with each operation but `set`.
 * @param owner whose it is: its name in the body, and the schema of it
 */
const changedBalance = <T>(owner: Readonly<Record<string, Schema<string>>>) =>
  described(
    v.pipe(
      strict({
        ...owner,
        value: optional(nullable(integer(0))),
        operation: v.picklist(["set", "increment", "decrement"], 'must be "set", "increment" or "decrement"'),
        ...atom.explained,
      }),
      v.rawCheck(({ dataset, addIssue }) => {
        if (!dataset.typed || typeof dataset.value.value === "number" || dataset.value.operation === "set") return;
        const message = withFix(
          "must be an integer for this operation",
          'null or nothing, which is unlimited, goes only with "set"',
        );
        addIssue({
          message,
          path: [{ type: "object", origin: "value", input: dataset.value, key: "value", value: null }],
        });
      }),
    ),
    {
      if: { properties: { operation: { enum: ["increment", "decrement"] } } },
      then: { required: ["value"], properties: { value: { type: "integer" } } },
    },
  ) as Schema<unknown> as Schema<T>;
/** Of a key. */
export const changedKeyBalance = changedBalance<R.V2KeysUpdateCreditsRequestBody>({ keyId: atom.text(3, Infinity) });
/** Of an identity. */
export const changedIdentityBalance = changedBalance<R.UpdateIdentityCreditsRequestBody>({ identity: atom.nameGiven });
