/**
 * Keys and identities in HTTP responses: without the library's extra fields, since the specification lists every field
 * of a response.
 */
import { CREDITS_SOURCES } from "../../lib/credits-source.js";
import { DISABLED_PARENTS, KEY_STATES } from "../../lib/key-state.js";
import type { IdentityData, KeyCredits, KeyResponseData } from "../../keyring/schemas/responses.js";
import {
  accounts,
  arrayOf,
  credits,
  flag,
  free,
  longId,
  object,
  owner,
  ratelimit,
  reservable,
  text,
  texts,
  time,
} from "./responses.js";

/** A key as the specification has it: a field that only the library has joins those that are left out. */
export type WireKey = Omit<
  KeyResponseData,
  "apiId" | "state" | "disabledBy" | "creditsFrom" | "ownerCredits" | "accounts" | "rerolledFrom" | "rerolledTo"
>;

const requiredOfKey = {
  keyId: longId,
  start: { ...text, minLength: 1, maxLength: 50 },
  enabled: flag,
  createdAt: time,
};
const optionalOfKey = {
  name: { ...text, maxLength: 255 },
  meta: free,
  updatedAt: time,
  lastUsedAt: time,
  expires: time,
  permissions: texts,
  roles: texts,
  credits,
  identity: owner,
  ratelimits: { ...arrayOf(ratelimit), maxItems: 50 },
  ipAllowlist: texts,
  // Of a deleted key, which is shown only where that is asked for.
  deletedAt: time,
  deletedBy: text,
};

/** A key as administration sees it. */
export const key = object<WireKey>(requiredOfKey, optionalOfKey);

/** A key as operations show it that the specification does not have. */
export const wholeKey = object<KeyResponseData>(
  {
    ...{ ...requiredOfKey, apiId: text, state: { type: "string", enum: KEY_STATES } },
    creditsFrom: { type: "string", enum: [...CREDITS_SOURCES] },
  },
  {
    ...optionalOfKey,
    credits: reservable,
    disabledBy: { type: "string", enum: DISABLED_PARENTS },
    ownerCredits: reservable,
    accounts,
    rerolledFrom: text,
    rerolledTo: text,
  },
);

/** An identity as the specification has it, and its state where it is not the usual one. */
export function toWireIdentity({ credits: _, ...identity }: IdentityData): Omit<IdentityData, "credits"> {
  return identity;
}

export function toWireCredits<T extends KeyCredits>({
  reserved,
  granted,
  ...credits
}: T): Omit<T, "reserved" | "granted"> {
  return credits;
}

export function toWireKey(key: KeyResponseData): WireKey {
  const {
    apiId: _,
    state: _s,
    disabledBy: _d,
    rerolledFrom: _f,
    rerolledTo: _t,
    creditsFrom: _c,
    ownerCredits: _o,
    accounts: _a,
    ...wire
  } = key;
  return wire.credits === undefined ? wire : { ...wire, credits: toWireCredits(wire.credits) };
}
