/**
 * Keys of Unkey as its v2 API returns them: pages of `apis.listKeys`, or keys one by one. A refill there sets the
 * balance, which is a refill without rollover here.
 */
import { isObject } from "../../lib/copy-json.js";
import { readHash } from "../../keyring/import/imported-hash.js";
import { digestKey } from "../../lib/hash.js";
import { createAlgorithms } from "../../lib/migration-hashes.js";
import type { KeySource } from "./key-source.js";
import { type ForeignRow, MAX_START, type Remarks, setAside, type SourceRow } from "./values.js";

/** Fields that have no place here, and why. */
const LEFT: Readonly<Record<string, string>> = {
  updatedAt: "the time of the import",
  lastUsedAt: "uses are told from now on",
  apiId: "--api-id says",
  workspaceId: "the keys of a store are of one workspace",
  prefix: "`start` has it",
};
/** Of an identity. */
const LEFT_OF_OWNER = { id: "identities get new ids" };

/** What fields of its v1 API are called here. */
export const UNKEY_V1: Readonly<Record<string, string>> = {
  id: "keyId",
  ownerId: "externalId",
  remaining: "credits.remaining",
  refill: "credits.refill",
  ratelimit: "ratelimits, a list",
};

const WITHOUT_HASH =
  "has neither plaintext nor hash: list the keys with decrypt: true, which returns the plaintext of recoverable keys, " +
  "or give the hash as `hash`; import a key of which you have neither when its owner next uses it (docs/migrating.md)";
const WITH_CREDITS =
  "its identity has credits, which an import does not give: create the identity with them first, and take them out here";

const TWO_KEYS = "its plaintext is not that of its hash: leave out one of them";

/** A key of an import. @param row without what is null */
export async function ofUnkey(row: ForeignRow, remarks: Remarks): Promise<object> {
  const { keyId, start, name, meta, enabled, expires, createdAt, externalId, permissions, roles, ...more } = row;
  const { plaintext, hash, identity, credits, ratelimits, ...others } = more;
  setAside(others, LEFT, remarks);
  const owner = isObject(identity) ? ownerOf(identity, remarks) : undefined;
  const digest = typeof plaintext === "string" && plaintext !== "" ? await digestKey(plaintext) : undefined;
  if (digest === undefined && typeof hash !== "string") remarks.refuse(WITHOUT_HASH);
  const isOther = digest !== undefined && hash !== undefined && digestOf(hash) !== digest;
  if (isOther) remarks.refuse(TWO_KEYS);
  return {
    hash: isOther ? undefined : (digest ?? hash),
    ...{ keyId, name, meta, enabled, expires, createdAt, permissions, roles },
    start: typeof start === "string" ? start.slice(0, MAX_START) : start,
    externalId: owner?.externalId ?? externalId,
    // What is no owner is refused, as below what is no refill.
    identity: owner ? owner.identity : identity,
    credits: isObject(credits) ? { ...credits, ...refillOf(credits["refill"]) } : credits,
    ratelimits: limitsOf(ratelimits),
  };
}

/** The SHA-256 that a hash is, in any of its forms. */
const digestOf = (hash: unknown): string | undefined => readHash(createAlgorithms(), "sha256", String(hash))?.digest;

function ownerOf(owner: ForeignRow, remarks: Remarks) {
  const { externalId, meta, ratelimits, credits, ...others } = owner;
  if (isObject(credits)) remarks.refuse(WITH_CREDITS);
  setAside(defined(others), LEFT_OF_OWNER, {
    ...remarks,
    refuseField: (name, value) => remarks.refuseField(`identity.${name}`, value),
  });
  return { externalId, identity: defined({ meta, ratelimits: limitsOf(ratelimits) }) };
}

/** An interval that Unkey does not have is refused by validation. */
function refillOf(refill: unknown): object {
  if (!isObject(refill)) return { refill: refill ?? undefined };
  const { refillDay, ...rest } = refill;
  const day = refillDay ?? (rest["interval"] === "monthly" ? 1 : undefined);
  return { refill: defined({ ...rest, refillDay: day, rollover: 0 }) };
}

/** Limits get new ids. */
function limitsOf(limits: unknown): unknown {
  if (!Array.isArray(limits)) return limits ?? undefined;
  return limits.map((limit: unknown) => {
    if (!isObject(limit)) return limit;
    const { id: _, ...rest } = limit;
    return rest;
  });
}

/** Without what is null or undefined. */
const defined = (object: ForeignRow): ForeignRow =>
  Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined && value !== null));

/** A page that stands alone, or several in an array. */
export const toPages = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [value]);

/** The keys of pages, `{ data: [key, …] }`, and keys that stand alone, counted together. */
export function ofPages(source: KeySource): KeySource {
  return {
    unit: "item",
    async *read() {
      let number = 0;
      for await (const row of source.read()) for (const one of keysIn(row)) yield { ...one, number: ++number };
    },
  };
}

function keysIn(row: SourceRow): readonly Omit<SourceRow, "number">[] {
  const { value } = row;
  return isObject(value) && Array.isArray(value["data"])
    ? value["data"].map((key: unknown) => ({ value: key }))
    : [row];
}
