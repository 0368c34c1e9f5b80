/** The requests of an owner of keys. */
import * as v from "valibot";
import { credits, page, ratelimits } from "./keys.js";
import { newKeyFields } from "./key-schemas.js";
import * as atom from "./primitives.js";
import type { CreateKeyRequestBody, ListRequestBody } from "./requests.js";

const optional = v.exactOptional;
/** The longest overlap, milliseconds: 30 days. */
const MAX_OVERLAP = 2_592_000_000;

/** Body of `create` of an owner's keys, within the ceiling; bounds are those of `createKey`. */
export type OwnerKeyRequestBody = Pick<
  CreateKeyRequestBody,
  "name" | "permissions" | "credits" | "ratelimits" | "expires" | "expiresIn" | "ipAllowlist"
>;
/** Body of `rotate` of an owner's keys. */
export interface OwnerRotateRequestBody {
  /** A key of the owner that was not rotated before. */
  readonly keyId: string;
  /** Milliseconds for which the old key goes on verifying, 0…2_592_000_000, default 86_400_000. */
  readonly overlap?: number;
}
/** Body of `revoke` of an owner's keys. */
export interface OwnerRevokeRequestBody {
  /** A key of the owner. */
  readonly keyId: string;
}

const { name, meta, expires, ipAllowlist } = newKeyFields;
export const create = atom.body<OwnerKeyRequestBody>()({
  name,
  expires,
  ipAllowlist,
  permissions: optional(atom.slugs(0)),
  credits: optional(credits),
  ratelimits: optional(ratelimits),
  expiresIn: optional(atom.period),
});
export const rotate = atom.body<OwnerRotateRequestBody>()({
  keyId: atom.id,
  overlap: atom.optionalOr(atom.integer(0, MAX_OVERLAP), 86_400_000),
});
export const revoke = atom.body<OwnerRevokeRequestBody>()({ keyId: atom.id });
export const list = atom.body<ListRequestBody>()(page("keys"));
/** Whose keys, and what new ones get; an owner is named as in `createKey`. */
export interface Owner extends Pick<CreateKeyRequestBody, "apiId" | "prefix" | "meta"> {
  readonly externalId: string;
}
export const owner = atom.body<Owner>()({
  externalId: atom.anyExternalId,
  apiId: atom.id,
  prefix: optional(atom.prefix),
  meta,
});
