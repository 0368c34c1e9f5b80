/**
 * The values that many keys have in common, stored once: these few objects stay in the processor's cache. The table of
 * fields lists the shared fields. Policies are compared by one text made of all shared fields, so that no field can be
 * left out.
 */
import { GrantSet } from "../access/permission-query.js";
import { type FieldsThat, KEY_FIELDS } from "../contracts/key-fields.js";
import type { KeyRecord } from "../contracts/store.js";
import type { RatelimitResponse } from "../contracts/types.js";
import { copyFields, ownProperty } from "../lib/check-options.js";
import { GrowingLru } from "../lib/growing-lru.js";
import type { LimitKind } from "../ratelimit/applied-limits.js";

/** The fields of a record that are shared unchanged. */
export type PolicyField = FieldsThat<{ record: "policy" }>;
type PolicyValues = { readonly [K in PolicyField]: KeyRecord[K] };

/** The part of a key that keys may share. Immutable, except for the cache in {@link GrantSet}. */
export interface KeyPolicy extends PolicyValues {
  readonly grants: GrantSet;
  /** The key's limits, without their ids. */
  readonly limits: readonly LimitKind[];
  /** The limit, if there is only one and it is automatic. */
  readonly onlyLimit: LimitKind | undefined;
}

/**
 * Most policies, and most grant sets, in the cache; a key keeps its policy alive. The length of all names is bounded
 * too: a policy of 1,000 permissions takes 140 kB, so 10,000 took 1.4 GB for keys no longer cached.
 */
const MAX_POLICIES = 10_000;
const MAX_NAME_UNITS = 4_000_000;

/** The fields that distinguish limits, except their ids. */
const LIMIT_FIELDS = (Object.keys(KEY_FIELDS.ratelimits.row[0]) as (keyof RatelimitResponse)[]).filter(
  (name): name is keyof LimitKind => name !== "id",
);

/**
 * Finds or creates the policy of a record.
 * @param fields the shared fields
 */
export function internPolicies(fields: readonly PolicyField[]): (record: KeyRecord) => KeyPolicy {
  const grantSets = policyCache<GrantSet>();
  const policies = policyCache<KeyPolicy>();
  const longGrantsOf = internLongGrants();
  const grantsOf = (list: string, record: KeyRecord): GrantSet => {
    let grants = grantSets.get(list);
    if (grants === undefined) grantSets.set(list, (grants = new GrantSet(record)));
    return grants;
  };
  const find = (record: KeyRecord): KeyPolicy => {
    if (record.permissions.length > MAX_NAMED) return toPolicy(fields, record, longGrantsOf(record));
    const list = nameGrants(record);
    const name = `${nameRest(fields, record)}\n${list}`;
    let policy = policies.get(name);
    if (policy === undefined) policies.set(name, (policy = toPolicy(fields, record, grantsOf(list, record))));
    return policy;
  };
  return memoizeByListIdentity(find, (policy, record) => hasSameRest(fields, policy, record));
}

/**
 * Most permissions of a list that is compared by its text: with 100,000, making the text and looking it up took 60 ms
 * in one tick of the event loop. Longer lists are compared with the last few, name by name.
 */
const MAX_NAMED = 4_096;
/** Long lists kept: as many of 100,000 names as fit {@link MAX_NAME_UNITS}. */
const MAX_LONG = 4;

function internLongGrants(): (record: KeyRecord) => GrantSet {
  let lasts: (Pick<KeyRecord, "permissions" | "roles"> & { readonly grants: GrantSet })[] = [];
  return (record) => {
    const known = lasts.find(
      ({ permissions, roles }) => isSameList(permissions, record.permissions) && isSameList(roles, record.roles),
    );
    if (known !== undefined) return known.grants;
    const [permissions, roles] = [frozen(record.permissions), frozen(record.roles)];
    const grants = new GrantSet({ permissions, roles });
    lasts = [{ permissions, roles, grants }, ...lasts.slice(0, MAX_LONG - 1)];
    return grants;
  };
}

function isSameList(a: readonly string[], b: readonly string[]): boolean {
  return a === b || (a.length === b.length && a.every((name, i) => name === b[i]));
}

/** The list itself, or a sorted, frozen copy if it is not frozen, as in a store of the program's own. */
function frozen(list: readonly string[]): readonly string[] {
  return Object.isFrozen(list) ? list : Object.freeze([...list].sort());
}

/** Bounded as {@link MAX_POLICIES} says. Lengths + 1, since lru-cache rejects a size of 0, and names may be empty. */
function policyCache<T extends object>(): GrowingLru<T> {
  return new GrowingLru<T>({
    max: MAX_POLICIES,
    maxSize: MAX_NAME_UNITS,
    sizeCalculation: (_, name) => name.length + 1,
  });
}

function toPolicy(fields: readonly PolicyField[], record: KeyRecord, grants: GrantSet): KeyPolicy {
  const limits = record.ratelimits.map(({ name, limit, duration, autoApply }) => ({
    name,
    limit,
    duration,
    autoApply,
  }));
  const onlyLimit = limits.length === 1 && limits[0]?.autoApply === true ? limits[0] : undefined;
  return copyFields({ grants, limits, onlyLimit }, record, fields);
}

/**
 * Whether a record equals a policy except for permissions and roles. Written with loops, since every uncached find
 * calls it.
 */
function hasSameRest(fields: readonly PolicyField[], policy: KeyPolicy, record: KeyRecord): boolean {
  for (const field of fields) {
    const [a, b] = [policy[field], ownProperty(record, field)];
    if (a !== b && !isSame(a, b)) return false;
  }
  const [{ limits }, { ratelimits }] = [policy, record];
  if (limits.length !== ratelimits.length) return false;
  for (let i = 0; i < limits.length; i++)
    for (const field of LIMIT_FIELDS) if (limits[i]![field] !== ratelimits[i]![field]) return false;
  return true;
}

/** Whether two values are deeply equal. */
function isSame(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (!isComposite(a) || !isComposite(b) || Array.isArray(a) !== Array.isArray(b)) return false;
  const names = Object.keys(a);
  return (
    names.length === Object.keys(b).length && names.every((name) => Object.hasOwn(b, name) && isSame(a[name], b[name]))
  );
}

const isComposite = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null;

/**
 * The text of a policy up to its grants. It begins with the number of limits, so that it is clear where grants begin.
 */
function nameRest(fields: readonly PolicyField[], record: KeyRecord): string {
  const values = fields.map((field) => nameValue(ownProperty(record, field)));
  const limits = record.ratelimits.map((limit) => LIMIT_FIELDS.map((field) => nameValue(limit[field])).join(" "));
  return [`${limits.length} ${values.join(" ")}`, ...limits].join("\n");
}

/** A text that is unique to the value. JSON is not: it writes NaN and absent items as null. */
function nameValue(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value);
  if (!isComposite(value)) return String(value);
  const parts = Object.entries(value).map(([name, part]) => `${JSON.stringify(name)}:${nameValue(part)}`);
  return Array.isArray(value) ? `[${parts.join()}]` : `{${parts.join()}}`;
}

const NO_SPACES = /^\S+$/;

/** The text of permissions and roles: two keys have the same text only if they have the same permissions and roles. */
function nameGrants({ permissions, roles }: KeyRecord): string {
  // The keyring creates no names with spaces, but a store may hold some: JSON, which takes 430 ns instead of 170,
  // keeps them distinct.
  if (!permissions.every((name) => NO_SPACES.test(name))) return ` ${JSON.stringify([permissions, roles])}`;
  const list = permissions.join(" ");
  return roles.length === 0 ? list : `${list}\n${JSON.stringify(roles)}`;
}

/** Most lists kept, and most permissions in all of them: 64 lists of 20,000 kept 60 MB alive. */
const HELD = 64;
const HELD_PERMISSIONS = 64_000;

/**
 * Caches the last value made for the same list objects of permissions and roles. It is tried before a record's text is
 * built.
 *
 * Why: a store that shares the lists among its records returns the same objects again and again. A verification whose
 * record is read from SQLite took 11.8 µs when the text was built and looked up each time, and takes 10.3 µs when a few
 * fields are compared instead. Lists that are not frozen may change, so they are not cached. The reference
 * implementation is the search by text (`cached-key.test.ts`). Exported for its tests.
 * @param find the slow way, correct for every record
 * @param fits whether a value made for another record with the same lists is right for this record
 */
export function memoizeByListIdentity<T>(
  find: (record: KeyRecord) => T,
  fits: (value: T, record: KeyRecord) => boolean,
): (record: KeyRecord) => T {
  const lasts = new Map<readonly string[], { readonly roles: readonly string[]; readonly value: T }>();
  let held = 0;
  return (record) => {
    const { permissions, roles } = record;
    const last = lasts.get(permissions);
    if (last !== undefined && last.roles === roles && fits(last.value, record)) return last.value;
    const value = find(record);
    if (!Object.isFrozen(permissions) || !Object.isFrozen(roles)) return value;
    if (lasts.delete(permissions)) held -= permissions.length;
    // A list longer than the bound is kept alone.
    if (lasts.size >= HELD || held + permissions.length > HELD_PERMISSIONS) {
      lasts.clear();
      held = 0;
    }
    lasts.set(permissions, { roles, value });
    held += permissions.length;
    return value;
  };
}
