/** The requests of an owner of keys. */
import { credits } from "./credits.js";
import { newKeyFields } from "./key-schemas.js";
import * as atom from "./primitives.js";
import { ratelimits } from "./ratelimits.js";
import { page } from "./page.js";
import type { CreateKeyRequestBody, ListRequestBody } from "./requests.js";

const { optional } = atom;
/** The longest overlap, milliseconds: 30 days. */
const MAX_OVERLAP = 2_592_000_000;

/** Body of `create` of an owner's keys, within the ceiling; bounds are those of `createKey`. */
export type OwnerKeyRequestBody = Pick<
  CreateKeyRequestBody,
  "name" | "permissions" | "credits" | "ratelimits" | "expires" | "expiresIn" | "ipAllowlist"
>;
/** Body of `revoke` of an owner's keys. */
export interface OwnerRevokeRequestBody {
  /** A key of the owner. */
  readonly keyId: string;
}
/** Body of `rotate` of an owner's keys, of one that was not rotated before. */
export interface OwnerRotateRequestBody extends OwnerRevokeRequestBody {
  /** Milliseconds for which the old key goes on verifying, 0 or 1_000…2_592_000_000, default 86_400_000. */
  readonly overlap?: number;
}
/** Body of `list` of an owner's keys. */
export interface OwnerListRequestBody extends ListRequestBody {
  /** Whether each key's `identity` has its `meta`. Default false: it may be shown to the owner. */
  readonly identityMeta?: boolean;
}
/** Body of `get` of an owner's keys. */
export interface OwnerGetRequestBody extends OwnerRevokeRequestBody, Pick<OwnerListRequestBody, "identityMeta"> {}
/** Body of `rename` of an owner's keys. */
export interface OwnerRenameRequestBody extends OwnerRevokeRequestBody {
  /** 1–255 code points; null: none. */
  readonly name: string | null;
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
  overlap: atom.optionalOr(atom.length(0, MAX_OVERLAP), 86_400_000),
});
export const revoke = atom.body<OwnerRevokeRequestBody>()({ keyId: atom.id });
export const rename = atom.body<OwnerRenameRequestBody>()({ keyId: atom.id, name: atom.nullable(atom.name) });
const identityMeta = atom.optionalOr(atom.boolean, false);
export const get = atom.body<OwnerGetRequestBody>()({ keyId: atom.id, identityMeta });
export const list = atom.body<OwnerListRequestBody>()({ ...page("keys"), identityMeta });
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
