/** Requests about the credits of one owner, an identity or a key: grants, and plans. */
import * as v from "valibot";
import { refill } from "./credits.js";
import { described } from "./json-schema.js";
import { type Schema, withFix } from "./parse.js";
import * as atom from "./primitives.js";
import type * as R from "./requests.js";

const { optional, integer, strict } = atom;

const OWNERS = { identity: atom.nameGiven, keyId: atom.text(3, Infinity) } as const;
type OwnerField = keyof typeof OWNERS;

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
  reason: optional(atom.name),
};
/** An owner, of either kind; over HTTP the group says of which. */
export const owned = {
  both: ofOwner<R.GetBalanceRequestBody>(["identity", "keyId"], {}),
  identity: ofOwner<R.GetBalanceRequestBody & { readonly identity: string }>(["identity"], {}),
  keyId: ofOwner<R.GetBalanceRequestBody & { readonly keyId: string }>(["keyId"], {}),
};
const asked = { ended: optional(atom.boolean) };

const plan = {
  refill,
  now: optional(v.picklist(["difference", "nothing"], 'must be "difference" or "nothing"')),
  reason: optional(atom.name),
};
/** Another plan, of an identity or a key; over HTTP the group says of which. */
export const planOf = {
  both: ofOwner<R.ChangePlanRequestBody>(["identity", "keyId"], plan),
  identity: ofOwner<R.ChangePlanRequestBody & { readonly identity: string }>(["identity"], plan),
  keyId: ofOwner<R.ChangePlanRequestBody & { readonly keyId: string }>(["keyId"], plan),
};

/** A grant, of an identity or a key. */
export const newGrant = ofOwner<R.GrantCreditsRequestBody>(["identity", "keyId"], {
  ...grant,
  expiresIn: optional(atom.period),
});
/** Which grants are listed, of an identity or a key. */
export const grantsAsked = ofOwner<R.ListGrantsRequestBody>(["identity", "keyId"], asked);
/** The same over HTTP, where the group says which, and times are those of the clock. */
export const grantOf = {
  identity: ofOwner<R.GrantCreditsRequestBody & { readonly identity: string }>(["identity"], grant),
  keyId: ofOwner<R.GrantCreditsRequestBody & { readonly keyId: string }>(["keyId"], grant),
};
/** Likewise. */
export const grantsOf = {
  identity: ofOwner<R.ListGrantsRequestBody & { readonly identity: string }>(["identity"], asked),
  keyId: ofOwner<R.ListGrantsRequestBody & { readonly keyId: string }>(["keyId"], asked),
};
