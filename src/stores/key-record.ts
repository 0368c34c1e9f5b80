/** Builds the record that a find returns from a key's row and the rows it refers to. */
import { fieldsThat } from "../contracts/key-fields.js";
import type {
  ApiRow,
  CreditRow,
  DrawnAccount,
  GrantRow,
  IdentityRow,
  KeyRecord,
  KeyRef,
  KeyRow,
  OwnedWallet,
  RoleRow,
} from "../contracts/store.js";
import { DEFAULT_PRIORITY } from "../credits/wallet.js";
import { ownProperty } from "../lib/check-options.js";
import { drawsOnIdentity, refillOf } from "../lib/credits-source.js";
import { isUnknownStart } from "../lib/hash.js";
import { toIdentity } from "../lib/identity.js";
import type { Mutable } from "../lib/mutable.js";

/** The rows a key refers to, looked up by the store; deleted ones are absent. */
export interface Related {
  readonly api: ApiRow | undefined;
  readonly workspaceEnabled: boolean;
  readonly identity: IdentityRow | undefined;
  /** The ref of the key's account, if that is not the key's own. */
  readonly accountRef?: KeyRef;
  /** The ref of the identity's account, if it has one. */
  readonly identityRef: KeyRef | undefined;
  /** The open grants of an owner that has some, by its id, and the refs of their accounts. Absent: nobody has any. */
  creditGrants?(ownerId: string): readonly Granted[];
  role(id: string): RoleRow | undefined;
  /** The permission's slug. */
  permission(id: string): string | undefined;
}

/** A grant, and the ref of its account. */
export interface Granted {
  readonly row: GrantRow;
  readonly ref: KeyRef;
}

/** The owners whose grants a record needs, where they have any: the account of the key, and its identity. */
export function ownersWithGrants(row: KeyRow, identity: IdentityRow | undefined): string[] {
  const owners = row.hasCredits && ownProperty(row, "hasGrants") ? [ownProperty(row, "accountId") ?? row.id] : [];
  if (drawsOnIdentity(row, identity) && ownProperty(identity, "hasGrants")) owners.push(identity.id);
  return owners;
}

/** Names of a key's roles, and of its permissions (direct and through roles); sorted, without duplicates. */
export interface GrantedNames {
  readonly permissions: readonly string[];
  readonly roles: readonly string[];
}

/** The complete record, with {@link KeyRecord.grantIds}, or `undefined` when the key or its API is deleted. */
export function toRecord(ref: KeyRef, row: KeyRow, related: Related): KeyRecord | undefined {
  const record = toRecordWith(ref, row, related, () => flatten(row, related));
  return record && { ...record, grantIds: grantIds(row, related) };
}

/** {@link KeyRecord.grantIds}: of its roles and permissions, and the permissions of its roles. */
export function grantIds(
  { roles, permissions }: Pick<KeyRow, "permissions" | "roles">,
  { role }: Pick<Related, "role">,
): readonly string[] {
  const ids = new Set([...roles, ...permissions]);
  for (const id of roles) for (const permission of role(id)?.permissions ?? []) ids.add(permission);
  return [...ids].sort();
}

/**
 * The same without `grantIds`, for a store with another source of grants; `grantsOf` is called only if they are needed.
 *
 * Why properties are set one by one: building the record with spreads took longer than reading the row.
 */
export function toRecordWith(
  ref: KeyRef,
  row: KeyRow,
  related: Omit<Related, "role" | "permission">,
  grantsOf: () => GrantedNames,
): KeyRecord | undefined {
  const { api, identity, identityRef, accountRef = ref, workspaceEnabled, creditGrants } = related;
  if (row.deleted || api === undefined || api.deleted) return undefined;
  const { permissions, roles } = grantsOf();
  const owner = drawsOnIdentity(row, identity) ? identity : undefined;
  if (owner !== undefined && identityRef === undefined)
    throw new TypeError("an identity that has credits must have an account");
  const isOfIdentity = owner !== undefined && !row.hasCredits;
  const accountId = ownProperty(row, "accountId") ?? (isOfIdentity ? row.id : undefined);
  const grantsTo = (one: KeyRow | IdentityRow, id: string) =>
    ownProperty(one, "hasGrants") === true ? (creditGrants?.(id) ?? []) : [];
  const held: Held[] = [];
  if (row.hasCredits) held.push({ owner: "key", ref: accountRef, row, granted: grantsTo(row, accountId ?? row.id) });
  if (owner !== undefined)
    held.push({ owner: "identity", ref: identityRef as KeyRef, row: owner, granted: grantsTo(owner, owner.id) });
  const { ref: mainRef, row: credits }: Pick<Held, "ref" | "row"> = held[0] ?? { ref: accountRef, row };
  const record: Mutable<KeyRecord> = {
    ref,
    keyId: row.id,
    workspaceId: row.workspaceId,
    apiId: row.apiId,
    enabled: row.enabled,
    permissions,
    roles,
    ratelimits: row.ratelimits,
    hasCredits: held.length > 0,
    generation: ownProperty(credits, "generation") ?? 0,
    parentDisabled: !api.enabled || !workspaceEnabled,
    unadopted: !Object.hasOwn(row, "digest") || row.digest === undefined,
    ipAllowlists: [row.ipAllowlist, api.ipAllowlist].filter(({ length }) => length > 0),
  };
  const optional: OptionalValues = {
    // Of keys that were made here it is known.
    startUnknown: (row.migrationId !== undefined && isUnknownStart(row.start)) || undefined,
    identity: identity && toIdentity(identity),
    ownerDisabled: (identity && ownProperty(identity, "enabled") === false) || undefined,
    ownerExpires: identity && ownProperty(identity, "expires"),
    refill: refillOf(credits),
    creditsFrom: isOfIdentity ? "identity" : undefined,
    wallets: held.length > 1 || held.some(({ granted }) => granted.length > 0) ? held.map(walletOf) : undefined,
    account: accountId === undefined ? undefined : { ref: mainRef, id: accountId },
  };
  for (const name of MADE) copyField(optional, record, name);
  for (const name of COPIED) copyField(row, record, name);
  return record;
}

/** The main account of an owner, and its open grants. */
interface Held extends Pick<OwnedWallet, "owner">, Pick<DrawnAccount, "ref"> {
  readonly row: Partial<CreditRow>;
  readonly granted: readonly Granted[];
}

/** What a store finds of an identity, if that has credits. @param granted its open grants */
export function identityWallet(
  row: IdentityRow,
  ref: KeyRef,
  granted: (ownerId: string) => readonly Granted[],
): OwnedWallet | undefined {
  if (ownProperty(row, "hasCredits") !== true) return undefined;
  const found = ownProperty(row, "hasGrants") === true ? granted(row.id) : [];
  return walletOf({ owner: "identity", ref, row, granted: found });
}

function walletOf({ owner, ref, row, granted }: Held): OwnedWallet {
  const refill = refillOf(row);
  const generation = ownProperty(row, "generation") ?? 0;
  const main = { ref, generation, priority: DEFAULT_PRIORITY, createdAt: 0, ...(refill && { refill }) };
  const grants = granted.map(({ ref, row }): DrawnAccount => {
    const { generation, grantId, priority, createdAt } = row;
    const [expires, refill] = [ownProperty(row, "expires"), ownProperty(row, "refill")];
    return {
      ...{ ref, generation, grantId, priority, createdAt },
      ...(expires !== undefined && { expires }),
      ...(refill && { refill }),
    };
  });
  return { owner, accounts: [main, ...grants] };
}

/** Fields that may be absent. The compiler ensures that the two literals above have all the others. */
const COPIED = fieldsThat({ from: "row", absent: true });
const MADE = fieldsThat({ from: "made", absent: true }).filter((name) => name !== "grantIds");
type OptionalValues = { readonly [K in (typeof MADE)[number]]: KeyRecord[K] };

function copyField<K extends keyof KeyRecord>(from: Partial<Record<K, unknown>>, record: object, name: K): void {
  // Own properties only: what a row lacks must not come from a polluted prototype.
  const value = Object.hasOwn(from, name) ? from[name] : undefined;
  if (value !== undefined) (record as Record<K, unknown>)[name] = value;
}

/** Ids → names; ids of what was deleted are passed over. */
export function flatten(
  row: Pick<KeyRow, "permissions" | "roles">,
  { role, permission }: Pick<Related, "role" | "permission">,
): GrantedNames {
  const roles: string[] = [];
  const permissions: string[] = [];
  const add = (ids: readonly string[]) => {
    for (const id of ids) {
      const name = permission(id);
      if (name !== undefined) permissions.push(name);
    }
  };
  add(row.permissions);
  for (const id of row.roles) {
    const found = role(id);
    if (found === undefined) continue;
    roles.push(found.name);
    add(found.permissions);
  }
  return { permissions: sortUnique(permissions), roles: sortUnique(roles) };
}

/** Sorts in place and removes duplicates. */
export function sortUnique(names: string[]): string[] {
  if (names.length < 2) return names;
  names.sort();
  let kept = 1;
  for (let i = 1; i < names.length; i++) {
    const name = names[i] as string;
    if (name !== names[kept - 1]) names[kept++] = name;
  }
  names.length = kept;
  return names;
}
