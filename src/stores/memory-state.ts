/** Everything that one store in memory holds. */
import type * as Port from "../contracts/store.js";
import type { Account, Lease } from "../credits/account.js";
import { createEndings } from "./endings.js";
import type { SortedIds } from "./sorted-ids.js";

/** Leases of one account. */
interface Leases {
  readonly byId: Map<string, Lease>;
  /** Infinity: there are none. */
  firstExpiry: number;
}

/** The state of a new store. */
export function emptyState() {
  const rows: { readonly [T in Port.Table]: Map<string, Port.Rows[T]> } = {
    workspaces: new Map(),
    apis: new Map(),
    identities: new Map(),
    roles: new Map(),
    permissions: new Map(),
    migrations: new Map(),
    rootKeys: new Map(),
    namespaces: new Map(),
    overrides: new Map(),
    grants: new Map(),
    keys: new Map(),
  };
  return {
    rows,
    /** Ids in order, by table and workspace, for lists. */
    sorted: new Map<string, SortedIds>(),
    /** Unique text (a name in its workspace, a digest, a hash) → id of the row that holds it. */
    unique: new Map<string, string>(),
    /** By ref. */
    accounts: new Map<Port.KeyRef, Account>(),
    /** By ref of the account. */
    leases: new Map<Port.KeyRef, Leases>(),
    endings: createEndings(),
    /** Ids of open grants, by the id of their owner. */
    openGrants: new Map<string, Set<string>>(),
    /** Ids of ended grants whose totals may still change, by the id of their owner. */
    endedGrants: new Map<string, Set<string>>(),
    /** Identity id → ref of its account: a number, which is no key's. Never used again. */
    identityRefs: new Map<string, number>(),
    /** The same the other way round. */
    identityIds: new Map<number, string>(),
    lastRef: 0,
  };
}

export type State = ReturnType<typeof emptyState>;

/** Puts a grant among those of its owner, or takes it out. */
export function setGrant(
  grants: Map<string, Set<string>>,
  { id, identityId, accountId = "" }: Port.GrantRow,
  isIn: boolean,
): void {
  const owner = identityId ?? accountId;
  const ids = grants.get(owner) ?? new Set();
  if (isIn) grants.set(owner, ids.add(id));
  else if (ids.delete(id) && ids.size === 0) grants.delete(owner);
}
