/** Requests about the credits of one owner, an identity or a key: grants, and plans. */
import * as v from "valibot";
import { refill } from "./credits.js";
import { described } from "./json-schema.js";
import { type Schema, withFix } from "./parse.js";
import * as atom from "./primitives.js";
import type * as R from "./requests.js";

const { optional, integer, strict } = atom;

const OWNERS = { identity: atom.nameGiven, keyId: atom.text(3, Infinity) } as const;
/** What names an owner in a request. */
export type OwnerField = keyof typeof OWNERS;
const BOTH = ["identity", "keyId"] as const;

/** A request about one owner, named in one of these fields. */
function ofOwner<T>(fields: readonly OwnerField[], entries: v.ObjectEntries): Schema<T> {
  const [only] = fields;
  if (fields.length === 1 && only !== undefined)
    return strict({ [only]: OWNERS[only], ...entries }) as v.GenericSchema as Schema<T>;
  const owners = Object.fromEntries(fields.map((field) => [field, optional(OWNERS[field])]));
  return described(
    v.pipe(
      strict({ ...owners, ...entries }),
      v.rawCheck(({ dataset, addIssue }) => {
        const value = dataset.value as Readonly<Record<string, unknown>>;
        if (!dataset.typed || fields.filter((field) => Object.hasOwn(value, field)).length === 1) return;
        const message = withFix("must name one owner", "give either identity or keyId");
        addIssue({
          message,
          path: [{ type: "object", origin: "value", input: value, key: "identity", value: undefined }],
        });
      }),
    ),
    {},
  ) as Schema<unknown> as Schema<T>;
}

const grant = {
  grantId: optional(atom.name),
  amount: integer(1),
  expires: optional(atom.time),
  priority: optional(integer(0, 255)),
  refill: optional(refill),
  ...atom.explained,
};
/** An owner, of either kind; a plan of it; a grant to it; and which of its grants are listed. */
export const owned = ofOwner<R.GetBalanceRequestBody>(BOTH, {});
const plan = {
  refill,
  now: optional(v.picklist(["difference", "nothing"], 'must be "difference" or "nothing"')),
  ...atom.explained,
};
export const newPlan = ofOwner<R.ChangePlanRequestBody>(BOTH, plan);
export const newGrant = ofOwner<R.GrantCreditsRequestBody>(BOTH, { ...grant, expiresIn: optional(atom.period) });
const ended = { grantId: atom.name, reason: optional(atom.name) };
export const endedGrant = ofOwner<R.EndGrantRequestBody>(BOTH, ended);
const asked = { ended: optional(atom.boolean) };
export const grantsAsked = ofOwner<R.ListGrantsRequestBody>(BOTH, asked);

/** The same over HTTP, where the group says which field names the owner, and times are those of the clock. */
export const schemasOf = <F extends OwnerField>(field: F) => {
  const only = <T>(entries: v.ObjectEntries) => ofOwner<T & Readonly<Record<F, string>>>([field], entries);
  return {
    owned: only<R.GetBalanceRequestBody>({}),
    plan: only<R.ChangePlanRequestBody>(plan),
    grant: only<R.GrantCreditsRequestBody>(grant),
    end: only<R.EndGrantRequestBody>(ended),
    grants: only<R.ListGrantsRequestBody>(asked),
  };
};
