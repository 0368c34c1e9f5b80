/** What many keys have in common, held once for all of them: these few objects stay in the processor's cache. Rulings A4, B3, C1. */
import { LRUCache } from "lru-cache";
import { createGrants, type Grants, type Query } from "./permissions.js";
import type { LimitKind } from "./ratelimit.js";
import { rememberByLists } from "./same-lists.js";
import type { KeyRecord } from "./store.js";
import type { Refill } from "./types.js";

/** Permissions and roles. */
export class Holdings {
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

  /** Whether they satisfy a query. The last question is remembered: an application asks few, and these answers never change. */
  satisfy(query: Query): boolean {
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

/** The part of a key that others may share. Immutable, but for what {@link Holdings} remembers. */
export interface Mould {
  readonly enabled: boolean;
  /** Its API or workspace is disabled (ruling A4). */
  readonly suspended: boolean;
  readonly limited: boolean;
  readonly workspaceId: string;
  readonly apiId: string;
  readonly refill: Refill | undefined;
  readonly holdings: Holdings;
  /** Its own limits, without their ids. */
  readonly limits: readonly LimitKind[];
  /** The only one of them, if every call takes from it. */
  readonly lone: LimitKind | undefined;
}

/**
 * The most moulds, and holdings, remembered; a key keeps its own alive. The length of all names is bounded too: one of 1,000
 * permissions takes 140 kB, and 10,000 of those were 1.4 GB for keys long forgotten.
 */
const REMEMBERED = 10_000;
const REMEMBERED_UNITS = 4_000_000;

/** Finds or makes the mould of a record. */
export function createMoulds(): (record: KeyRecord) => Mould {
  const shared = remembered<Holdings>();
  const moulds = remembered<Mould>();
  const holdingsOf = (list: string, record: KeyRecord): Holdings => {
    let holdings = shared.get(list);
    if (holdings === undefined) shared.set(list, (holdings = new Holdings(record)));
    return holdings;
  };
  return rememberByLists((record) => {
    const list = nameHoldings(record);
    const name = `${nameRest(record)}\n${list}`;
    let mould = moulds.get(name);
    if (mould === undefined) moulds.set(name, (mould = toMould(record, holdingsOf(list, record))));
    return mould;
  }, fits);
}

/** {@link REMEMBERED}; + 1, as lru-cache takes no size 0: names may be empty */
function remembered<T extends object>(): LRUCache<string, T> {
  return new LRUCache({ max: REMEMBERED, maxSize: REMEMBERED_UNITS, sizeCalculation: (_, name) => name.length + 1 });
}

function toMould({ enabled, suspended, limited, workspaceId, apiId, refill, ratelimits }: KeyRecord, holdings: Holdings): Mould {
  const limits = ratelimits.map(({ name, limit, duration, autoApply }) => ({ name, limit, duration, autoApply }));
  const lone = limits.length === 1 && limits[0]?.autoApply === true ? limits[0] : undefined;
  return { enabled, suspended, limited, workspaceId, apiId, refill, holdings, limits, lone };
}

/** Whether a record agrees with a mould in all but permissions and roles: in what {@link nameRest} names. */
function fits(mould: Mould, record: KeyRecord): boolean {
  const { enabled, suspended, limited, workspaceId, apiId, refill, ratelimits } = record;
  if (enabled !== mould.enabled || suspended !== mould.suspended || limited !== mould.limited) return false;
  if (workspaceId !== mould.workspaceId || apiId !== mould.apiId || !isSameRefill(refill, mould.refill)) return false;
  return ratelimits.length === mould.limits.length && mould.limits.every((kind, i) => isOfKind(kind, ratelimits[i] as LimitKind));
}

function isSameRefill(a: Refill | undefined, b: Refill | undefined): boolean {
  return a?.interval === b?.interval && a?.amount === b?.amount && a?.refillDay === b?.refillDay;
}

function isOfKind(a: LimitKind, b: LimitKind): boolean {
  return a.name === b.name && a.limit === b.limit && a.duration === b.duration && a.autoApply === b.autoApply;
}

const NO_BLANKS = /^\S+$/;

/** Names a list of permissions and roles: keys have the same text only if they have the same permissions and roles. */
function nameHoldings({ permissions, roles }: KeyRecord): string {
  // The keyring makes no names with blanks (ruling B1), but a store may hold some: JSON, which takes 430 ns against 170, tells them apart.
  if (!permissions.every((name) => NO_BLANKS.test(name))) return ` ${JSON.stringify([permissions, roles])}`;
  const list = permissions.join(" ");
  return roles.length === 0 ? list : `${list}\n${JSON.stringify(roles)}`;
}

/** Names the rest of a mould. What may hold line breaks is JSON, and the count of limits says which lines are limits. */
function nameRest({ enabled, suspended, limited, workspaceId, apiId, refill, ratelimits }: KeyRecord): string {
  const flags = (enabled ? 1 : 0) + (suspended ? 2 : 0) + (limited ? 4 : 0);
  let name = `${flags} ${ratelimits.length} ${JSON.stringify(workspaceId)} ${JSON.stringify(apiId)}`;
  if (refill !== undefined) name += ` ${refill.interval} ${refill.amount} ${refill.refillDay ?? ""}`;
  for (const limit of ratelimits) name += `\n${JSON.stringify(limit.name)} ${limit.limit} ${limit.duration} ${limit.autoApply}`;
  return name;
}
