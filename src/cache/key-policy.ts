/**
 * What many keys have in common, held once for all of them: these few objects stay in the processor's cache. Which fields those are, the
 * table of fields says; sharing and telling apart go by one text made of all of them, so that no field can be forgotten in one of the two.
 */
import { LRUCache } from "lru-cache";
import { createGrants, type Grants, type Query } from "../access/permission-query.js";
import { type FieldsThat, fieldsThat, KEY_FIELDS } from "../contracts/key-fields.js";
import type { KeyRecord } from "../contracts/store.js";
import type { RatelimitResponse } from "../contracts/types.js";
import type { LimitKind } from "../ratelimit/applied-limits.js";

/** Permissions and roles. */
export class GrantSet {
  readonly #grants: Grants;
  /** The mark of the last query: a thousand characters compiled weigh 20 kB, and a key may be the only one that does not forget it. */
  #asked: symbol | undefined;
  #satisfied = false;
  /** Each answer gets copies: `slice` of a frozen array takes 310 ns, of these 9 ns. The lists themselves never leave. */
  readonly #permissions: string[];
  readonly #roles: string[];

  constructor({ permissions, roles }: Pick<KeyRecord, "permissions" | "roles">) {
    this.#grants = createGrants(permissions);
    this.#permissions = [...permissions];
    this.#roles = [...roles];
  }

  /** Whether it satisfies a query. The last question is remembered: an application asks few, and these answers never change. */
  satisfies(query: Query): boolean {
    if (this.#asked !== query.mark) {
      this.#satisfied = query.satisfiedBy(this.#grants);
      this.#asked = query.mark;
    }
    return this.#satisfied;
  }

  /** All permission names, in a list of the caller's own. */
  copyPermissions(): string[] {
    return this.#permissions.slice();
  }

  /** All role names, in a list of the caller's own. */
  copyRoles(): string[] {
    return this.#roles.slice();
  }
}

/** The fields of a record that are shared as they are. */
type PolicyField = FieldsThat<{ record: "policy" }>;
type PolicyValues = { readonly [K in PolicyField]: KeyRecord[K] };

/** The part of a key that others may share. Immutable, but for what {@link GrantSet} remembers. */
export interface KeyPolicy extends PolicyValues {
  readonly grants: GrantSet;
  /** Its own limits, without their ids. */
  readonly limits: readonly LimitKind[];
  /** The only one of them, if every call takes from it. */
  readonly onlyLimit: LimitKind | undefined;
}

/**
 * The most policies, and sets of grants, remembered; a key keeps its own alive. The length of all names is bounded too: one of 1,000
 * permissions takes 140 kB, and 10,000 of those were 1.4 GB for keys long forgotten.
 */
const REMEMBERED = 10_000;
const REMEMBERED_UNITS = 4_000_000;

const POLICY_FIELDS = fieldsThat({ record: "policy" });
/** What tells limits apart, but for their ids. */
const LIMIT_FIELDS = (Object.keys(KEY_FIELDS.ratelimits.row[0]) as (keyof RatelimitResponse)[]).filter(
  (name): name is keyof LimitKind => name !== "id",
);

/**
 * Finds or makes the policy of a record.
 * @param fields those that are shared as they are: the table's, but in tests
 */
export function internPolicies(fields: readonly PolicyField[] = POLICY_FIELDS): (record: KeyRecord) => KeyPolicy {
  const grantSets = remembered<GrantSet>();
  const policies = remembered<KeyPolicy>();
  const grantsOf = (list: string, record: KeyRecord): GrantSet => {
    let grants = grantSets.get(list);
    if (grants === undefined) grantSets.set(list, (grants = new GrantSet(record)));
    return grants;
  };
  const find = (record: KeyRecord): KeyPolicy => {
    const list = nameGrants(record);
    const name = `${nameRest(fields, record)}\n${list}`;
    let policy = policies.get(name);
    if (policy === undefined) policies.set(name, (policy = toPolicy(fields, record, grantsOf(list, record))));
    return policy;
  };
  return memoizeByListIdentity(find, (policy, record) => hasSameRest(fields, policy, record));
}

/** {@link REMEMBERED}; + 1, as lru-cache takes no size 0: names may be empty */
function remembered<T extends object>(): LRUCache<string, T> {
  return new LRUCache({ max: REMEMBERED, maxSize: REMEMBERED_UNITS, sizeCalculation: (_, name) => name.length + 1 });
}

function toPolicy(fields: readonly PolicyField[], record: KeyRecord, grants: GrantSet): KeyPolicy {
  const limits = record.ratelimits.map(({ name, limit, duration, autoApply }) => ({
    name,
    limit,
    duration,
    autoApply,
  }));
  const onlyLimit = limits.length === 1 && limits[0]?.autoApply === true ? limits[0] : undefined;
  const policy: object = { grants, limits, onlyLimit };
  // What is absent is set too: so all policies have one shape.
  for (const field of fields) (policy as Record<string, unknown>)[field] = record[field];
  return policy as KeyPolicy;
}

/** Whether a record agrees with a policy in all but permissions and roles. Loops: a find that is not remembered asks it each time. */
function hasSameRest(fields: readonly PolicyField[], policy: KeyPolicy, record: KeyRecord): boolean {
  for (const field of fields) {
    const [a, b] = [policy[field], record[field]];
    if (a !== b && !isSame(a, b)) return false;
  }
  const [{ limits }, { ratelimits }] = [policy, record];
  if (limits.length !== ratelimits.length) return false;
  for (let i = 0; i < limits.length; i++)
    if (!isOfKind(limits[i] as LimitKind, ratelimits[i] as LimitKind)) return false;
  return true;
}

function isOfKind(a: LimitKind, b: LimitKind): boolean {
  for (const field of LIMIT_FIELDS) if (a[field] !== b[field]) return false;
  return true;
}

/** Whether two values are the same all the way down. */
function isSame(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (!isObject(a) || !isObject(b) || Array.isArray(a) !== Array.isArray(b)) return false;
  const names = Object.keys(a);
  return (
    names.length === Object.keys(b).length && names.every((name) => Object.hasOwn(b, name) && isSame(a[name], b[name]))
  );
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null;

/** Names all of a policy but its grants, which follow on lines of their own: the count of limits says on which. */
function nameRest(fields: readonly PolicyField[], record: KeyRecord): string {
  const values = fields.map((field) => nameValue(record[field]));
  const limits = record.ratelimits.map((limit) => LIMIT_FIELDS.map((field) => nameValue(limit[field])).join(" "));
  return [`${limits.length} ${values.join(" ")}`, ...limits].join("\n");
}

/** A text that only the same value has. Not JSON alone, in which what is no number, or is not there, looks like null. */
function nameValue(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value);
  if (!isObject(value)) return String(value);
  const parts = Object.entries(value).map(([name, part]) => `${JSON.stringify(name)}:${nameValue(part)}`);
  return Array.isArray(value) ? `[${parts.join()}]` : `{${parts.join()}}`;
}

const NO_BLANKS = /^\S+$/;

/** Names a list of permissions and roles: keys have the same text only if they have the same permissions and roles. */
function nameGrants({ permissions, roles }: KeyRecord): string {
  // The keyring makes no names with blanks (ruling B1), but a store may hold some: JSON, which takes 430 ns against 170, tells them apart.
  if (!permissions.every((name) => NO_BLANKS.test(name))) return ` ${JSON.stringify([permissions, roles])}`;
  const list = permissions.join(" ");
  return roles.length === 0 ? list : `${list}\n${JSON.stringify(roles)}`;
}

/** The most lists held, and permissions in all of them: 64 lists of 20,000 kept 60 MB alive. */
const HELD = 64;
const HELD_PERMISSIONS = 64_000;

/**
 * Remembers what was made last for a record with the same list objects of permissions and roles: tried before a name is made of the record.
 *
 * Why: a store that shares the lists among its records hands out the same objects again and again. A verification whose record is read
 * from SQLite took 11.8 µs with a name made and looked up each time, and takes 10.3 with a few fields compared instead. Lists that are
 * not frozen may change, so they are not trusted. The reference implementation is the search by name (`cached-key.test.ts`).
 * @param find the slow way, which is right for every record
 * @param fits whether a value of a record with the same lists is also that of this record
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
    // A longer list is held alone.
    if (lasts.size >= HELD || held + permissions.length > HELD_PERMISSIONS) {
      lasts.clear();
      held = 0;
    }
    lasts.set(permissions, { roles, value });
    held += permissions.length;
    return value;
  };
}
