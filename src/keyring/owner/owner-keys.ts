/**
 * Self-service: the keys of one owner in one API, for programs whose users manage their own keys. An owner sees and
 * changes no key of another, and creates none beyond the ceiling that the program sets.
 *
 * Why creating a key writes the owner's identity too: its version makes two creations at a time, in any processes, one
 * after the other, so that both cannot take the last place.
 *
 * Why revoking all lists the keys again until there are none (`repeatPasses`): once none is left, a rotation that has
 * not ended finds its key changed, and fails. Following each key to its replacement would miss that of a key that was
 * removed meanwhile.
 */
import { type AnalyticsDimension, type AnalyticsQuery, planQuery } from "../../analytics/query.js";
import { type AnalyticsRow, readRows } from "../../analytics/rows.js";
import { badRequest, KeystileError } from "../../contracts/errors.js";
import type { IdentityRow, KeyRow, Write } from "../../contracts/store.js";
import type { JsonObject } from "../../contracts/types.js";
import { type Check, checkOptions, isPlainObject, narrowing, ownOnly } from "../../lib/check-options.js";
import { requirePower } from "../../lib/guards/powers.js";
import { type Context, updateWithRetry } from "../context.js";
import { expiryOf, prepareKey } from "../keys/create-key.js";
import { knownRows, refersTo, toKeyResponses } from "../keys/key-response.js";
import { pagesOfKeys } from "../keys/keys-of-identity.js";
import { replaceKey, requireRotatable } from "../keys/reroll-key.js";
import { hide, writeKey } from "../keys/update-key.js";
import { accountsOf, balanceOf } from "../balance.js";
import { contextOfKeyring, type Keyring } from "../keyring.js";
import { fillPage } from "../list-page.js";
import { runCall } from "../operation.js";
import { repeatPasses } from "../passes.js";
import { ensureIdentities } from "../rbac/resolve-names.js";
import { notFound, requireApi, setField } from "../rows.js";
import { readCursor, writeCursor } from "../schemas/cursor.js";
import { parse } from "../schemas/parse.js";
import type * as A from "../schemas/responses.js";
import { writeRows } from "../write.js";
import { createCeiling, type OwnerCeiling } from "./ceiling.js";
import * as schemas from "../schemas/owner.js";

/** Options of {@link forOwner}. */
export interface OwnerOptions {
  /** The API of the keys: those of others are not found. 3–255 characters of `[a-zA-Z0-9_]`. */
  readonly apiId: string;
  /** The most that the owner may have and give; default: ten keys without permissions. */
  readonly ceiling?: OwnerCeiling;
  /** Of new keys, 1–16 characters of `[a-zA-Z0-9_]`. */
  readonly prefix?: string;
  /**
   * Metadata of new keys, bounded as in `createKey` and copied at once. The owner does not choose it, since
   * verifications return it.
   */
  readonly meta?: JsonObject;
}

/**
 * The keys of one owner. All methods reject with a `KeystileError`: BAD_REQUEST; NOT_FOUND for a key of anybody else,
 * as for one that does not exist; STORE_….
 */
export interface OwnerKeys {
  /**
   * Newest first, 100 per page unless `limit` says otherwise, expired ones too. Reads every key of the owner. Without
   * the metadata of the owner's identity, which may be the program's alone, unless `identityMeta` asks for it.
   */
  list(body?: schemas.OwnerListRequestBody): Promise<A.Page<A.KeyResponseData>>;
  /** One key as `list` shows it, without reading the others. */
  get(body: schemas.OwnerGetRequestBody): Promise<A.KeyResponseData>;
  /**
   * Creates a key within the ceiling, and the owner's identity with the first. The response is the only place where the
   * key's text ever appears.
   * @throws KeystileError BAD_REQUEST also at each part that exceeds the ceiling · KEY_LIMIT_REACHED: the owner has as
   *   many keys as it may · NOT_FOUND: no such API · CONFLICT: the owner's identity is disabled or expired, or the
   *   ceiling says `identity`, and it has no credits
   */
  create(body?: schemas.OwnerKeyRequestBody): Promise<A.V2KeysCreateKeyResponseData>;
  /**
   * Replaces a key by one with a new id and text and the same settings, balance and buckets; the old one verifies until
   * the overlap ends, and the one before it, if any is left, ends at once.
   * @throws KeystileError CONFLICT: the key was rotated before, and the newest of its chain is named; or it has
   *   expired; or the owner's identity is disabled or expired
   */
  rotate(body: schemas.OwnerRotateRequestBody): Promise<A.V2KeysCreateKeyResponseData>;
  /** Gives a key another name, for people; null: none. */
  rename(body: schemas.OwnerRenameRequestBody): Promise<A.EmptyResponse>;
  /** The key is NOT_FOUND from then on; one that it replaced goes on until its overlap ends. */
  revoke(body: schemas.OwnerRevokeRequestBody): Promise<A.EmptyResponse>;
  /**
   * Revokes every key of the owner in this API, and what replaces one meanwhile: a rotation that overlaps with it
   * fails, or its key is revoked too.
   * @returns how many
   * @throws KeystileError STORE_BUSY: others kept making keys of the owner, and some may be left
   */
  revokeAll(): Promise<{ readonly revoked: number }>;
  /**
   * What the owner could spend now, account by account: its plan, and its open grants. `remaining` is null while it has
   * no credits: then its keys are unlimited, but for credits of their own.
   */
  balance(): Promise<A.BalanceData>;
  /**
   * Verifications and credits of the owner's keys in this API, as verifiers with `analytics` counted them: at most
   * 10,000 rows, the oldest first. What was counted under an earlier owner of a key is not in it.
   * @throws KeystileError STORE_POWER_MISSING · ANALYTICS_TOO_LARGE
   */
  usage(query?: OwnerUsageQuery): Promise<readonly AnalyticsRow[]>;
}

/** What to add up of an owner's usage. */
export interface OwnerUsageQuery extends Partial<Pick<AnalyticsQuery, "from" | "to">> {
  /** How rows are told apart, such as `day`, or `["day", "outcome"]`; at most four, of them one period. */
  readonly by: AnalyticsDimension | readonly AnalyticsDimension[];
}

/** What `usage` shows by default, and the counts that it may read. */
const USAGE_PERIOD = 30 * 86_400_000;
const USAGE_ROWS = 1_000_000;

const unchecked: Check = () => undefined;
const OPTIONS = {
  apiId: unchecked,
  ceiling: narrowing(unchecked),
  prefix: unchecked,
  meta: unchecked,
} satisfies Record<keyof OwnerOptions, Check>;

/**
 * The verbs of self-service, bound to an owner: for a page on which your users manage their own keys. Give the owner's
 * id from your session, never from the request. The audit trail has the owner as the actor: its `actorKind` is `owner`.
 *
 * Why not a method of the keyring: a program without self-service is bundled without it.
 * @param keyring made by `createKeyring`
 * @param externalId what your program calls the owner, as `externalId` of `createKey`
 * @throws TypeError or RangeError naming an option · KeystileError BAD_REQUEST for an owner, an API, a prefix or
 *   metadata that no key can have
 * @example
 * const mine = forOwner(keyring, session.userId, { apiId, ceiling: { keys: 5, permissions: ["documents.*"] } });
 * const { key } = await mine.create({ name: "laptop", permissions: ["documents.read"] });
 */
export function forOwner(keyring: Keyring, externalId: string, options: OwnerOptions): OwnerKeys {
  const found = contextOfKeyring(keyring);
  if (found === undefined) throw new TypeError("keyring must be one that createKeyring made");
  // What the owner changes is the owner's doing, also where the keyring acts for somebody else.
  const shared = { ...found, audit: { ...found.audit, actor: { actorKind: "owner", actor: externalId } } };
  if (!isPlainObject(options)) throw new TypeError("options must be an object with apiId");
  const { ceiling: given = {}, ...named } = checkOptions(options, OPTIONS);
  const ceiling = createCeiling(given);
  const scope: Scope = { ...parse(schemas.owner, { externalId, ...named }), ceiling };
  const { apiId } = scope;
  const call = <T>(operation: string, act: (context: Context) => Promise<T>): Promise<T> =>
    runCall({ context: shared, operation }, act);

  return Object.freeze<OwnerKeys>({
    list: (body = {}) => call("listKeys", (context) => list(context, scope, parse(schemas.list, body))),

    get: (body) =>
      call("getKey", async (context) => {
        const { keyId, identityMeta = false } = parse(schemas.get, body);
        const api = await requireApi(context, apiId);
        const row = await readOwned(context, scope, await requireOwner(context, scope), keyId);
        const [key] = await toKeyResponses(context, [row], knownRows(api));
        return toSeen(key as A.KeyResponseData, identityMeta);
      }),

    create: (body = {}) => call("createKey", (context) => create(context, scope, parse(schemas.create, body))),

    rotate: (body) => call("rerollKey", (context) => rotate(context, scope, parse(schemas.rotate, body))),

    rename: (body) =>
      call("updateKey", async (context) => {
        const { keyId, name } = parse(schemas.rename, body);
        const owner = await requireOwner(context, scope);
        return writeKey(context, keyId, (row) => {
          requireOwned(scope, owner, row);
          setField(row, "name", name);
          return undefined;
        });
      }),

    revoke: (body) =>
      call("deleteKey", async (context) => {
        const { keyId } = parse(schemas.revoke, body);
        return revoke(context, scope, await requireOwner(context, scope), keyId);
      }),

    revokeAll: () => call("deleteKey", async (context) => ({ revoked: await revokeAll(context, scope) })),

    balance: () =>
      call("getBalance", async (context) =>
        balanceOf(await accountsOf(context, undefined, await findOwner(context, scope))),
      ),

    usage: (query = { by: "day" }) =>
      call("getVerifications", async ({ store, workspaceId, now }) => {
        const { by, from = now - USAGE_PERIOD, to = now + 1, ...others } = query;
        // `where` is the owner's alone.
        if (Object.keys(others).length > 0)
          throw badRequest([{ location: "body", message: "must have no other fields than by, from and to" }]);
        const where = { externalId: [externalId], apiId: [apiId] };
        const plan = planQuery({ by: typeof by === "string" ? [by] : by, where, from, to, limit: 10_000 }, "body");
        requirePower(store, "analytics", "usage");
        return (await readRows(store, workspaceId, { maxRows: USAGE_ROWS }, plan)).slice(0, plan.limit);
      }),
  });
}

/** Whose keys, in which API, and what new ones may be. */
interface Scope extends Pick<OwnerOptions, "apiId" | "prefix" | "meta"> {
  readonly externalId: string;
  readonly ceiling: ReturnType<typeof createCeiling>;
}

async function findOwner({ store, workspaceId }: Context, { externalId }: Scope): Promise<IdentityRow | undefined> {
  return (await store.readNames("identities", workspaceId, [externalId]))[0];
}

async function requireOwner(context: Context, scope: Scope): Promise<IdentityRow> {
  const owner = await findOwner(context, scope);
  if (owner === undefined) throw notFound("The key");
  return owner;
}

const owns = ({ apiId }: Scope, owner: IdentityRow, row: KeyRow): boolean =>
  row.identityId === owner.id && row.apiId === apiId;

function requireOwned(scope: Scope, owner: IdentityRow, row: KeyRow | undefined): KeyRow {
  if (row === undefined || !owns(scope, owner, row)) throw notFound("The key");
  return row;
}

async function readOwned({ store }: Context, scope: Scope, owner: IdentityRow, keyId: string): Promise<KeyRow> {
  const [row] = await store.readMany("keys", [keyId]);
  return requireOwned(scope, owner, row?.deleted === true ? undefined : row);
}

async function list(context: Context, scope: Scope, request: schemas.OwnerListRequestBody) {
  const { limit = 100, cursor, identityMeta = false } = request;
  const { apiId } = scope;
  const known = knownRows(await requireApi(context, apiId));
  const before = cursor === undefined ? undefined : readCursor("keys", cursor);
  const owner = await findOwner(context, scope);
  const newest: KeyRow[] = [];
  if (owner !== undefined) {
    for await (const rows of pagesOfKeys(context, { apiId, identityId: owner.id })) {
      newest.push(...(before === undefined ? rows : rows.filter(({ id }) => id < before)));
      newest.splice(0, newest.length - limit - 1);
    }
  }
  const shown = newest.reverse().slice(0, limit);
  const toResponses = async (rows: readonly KeyRow[]) =>
    (await toKeyResponses(context, rows, known)).map((key) => toSeen(key, identityMeta));
  const listing = { table: "keys", filter: {}, refersTo, toResponses } as const;
  const data = await context.turns.run(() => fillPage(context, listing, shown));
  const last = data.at(-1);
  const hasMore = last !== undefined && newest.length > data.length;
  return { data, pagination: hasMore ? { cursor: writeCursor("keys", last.keyId), hasMore } : { hasMore } };
}

async function create(context: Context, scope: Scope, request: schemas.OwnerKeyRequestBody) {
  const { now } = context;
  const { externalId, apiId, prefix, meta, ceiling } = scope;
  const full = {
    // What the ceiling does not bound is as it was asked for.
    ...{ ...request, ...ceiling.apply(request, now), apiId, externalId },
    ...(prefix !== undefined && { prefix }),
    ...(meta !== undefined && { meta }),
  };
  // Refused before the identity is made.
  const expires = expiryOf(full, now);
  await requireApi(context, apiId);
  const [identityId = ""] = (await ensureIdentities(context, new Map([[externalId, undefined]]))).values();
  return updateWithRetry(context, identityId, async () => {
    // Read before the keys are counted: whoever creates one meanwhile changes its version.
    const owner = await requireOwner(context, scope);
    requireCustomer(owner, now);
    ceiling.requireSource(owner);
    if ((await countLiving(context, apiId, owner.id)) >= ceiling.keys) throw tooMany(ceiling.keys);
    const { key, row, balance } = await prepareKey(context, full, expires);
    // A balance that is set in a write has had its first change.
    const credits = balance && {
      period: balance.period,
      remaining: balance.remaining,
      refill: { amount: balance.amount, ...(balance.rollover !== undefined && { rollover: balance.rollover }) },
    };
    const created: Write = credits
      ? { table: "keys", row: { ...row, generation: 1 }, credits }
      : { table: "keys", row };
    const writes: Write[] = [{ table: "identities", row: owner }, created];
    return (await writeRows(context, writes)) ? { keyId: row.id, key } : undefined;
  });
}

async function rotate(context: Context, scope: Scope, request: schemas.OwnerRotateRequestBody) {
  const { keyId, overlap = 86_400_000 } = request;
  const { now } = context;
  const owner = await requireOwner(context, scope);
  const old = await readOwned(context, scope, owner, keyId);
  // Before anything ends.
  requireCustomer(owner, now);
  await requireRotatable(context, old);
  const { rerolledFrom } = old;
  const [before] = rerolledFrom === undefined ? [] : await context.store.readMany("keys", [rerolledFrom]);
  // One that was moved to another owner meanwhile is not this one's to end.
  if (before !== undefined && !before.deleted && isLiving(before, now) && owns(scope, owner, before))
    await writeKey(context, before.id, (retired) => {
      requireOwned(scope, owner, retired);
      retired.expires = Math.max(0, now - 1);
      return undefined;
    });
  return replaceKey(context, { keyId, expiration: overlap }, (row) => requireOwned(scope, owner, row));
}

function revoke(context: Context, scope: Scope, owner: IdentityRow, keyId: string): Promise<A.EmptyResponse> {
  return writeKey(context, keyId, (row) => {
    requireOwned(scope, owner, row);
    hide(context, row);
    return undefined;
  });
}

async function revokeAll(context: Context, scope: Scope): Promise<number> {
  const { apiId } = scope;
  const owner = await findOwner(context, scope);
  let revoked = 0;
  if (owner === undefined) return revoked;
  const pages = () => pagesOfKeys(context, { apiId, identityId: owner.id });
  for await (const rows of repeatPasses(pages, ({ length }) => length > 0)) {
    for (const { id } of rows) {
      try {
        await revoke(context, scope, owner, id);
        revoked++;
      } catch (error) {
        // Revoked by another call meanwhile.
        if (!(error instanceof KeystileError) || error.code !== "NOT_FOUND") throw error;
      }
    }
    // Keys of a deleted API are listed, although they are gone.
    if (await isApiGone(context, apiId)) break;
  }
  return revoked;
}

async function isApiGone({ store }: Context, apiId: string): Promise<boolean> {
  const [api] = await store.readMany("apis", [apiId]);
  return api === undefined || api.deleted;
}

const tooMany = (most: number): KeystileError =>
  new KeystileError("KEY_LIMIT_REACHED", `the owner has ${most} keys, as many as it may; revoke one first`);

/**
 * No key is made for who could not use it; those that are there may be looked at, renamed and revoked.
 * @throws KeystileError CONFLICT
 */
function requireCustomer(owner: IdentityRow, now: number): void {
  const { enabled = true, expires = Infinity } = ownOnly(owner);
  if (enabled && now <= expires) return;
  throw new KeystileError("CONFLICT", `the owner ${enabled ? "has expired" : "is disabled"}: no key is made for it`);
}

const isLiving = ({ expires }: KeyRow, now: number): boolean => expires === undefined || expires >= now;

/** Keys that are neither revoked nor expired; one that was replaced counts with its successor as one. */
async function countLiving(context: Context, apiId: string, identityId: string): Promise<number> {
  const successorOf = new Map<string, string | undefined>();
  for await (const rows of pagesOfKeys(context, { apiId, identityId }))
    for (const row of rows) if (isLiving(row, context.now)) successorOf.set(row.id, row.rerolledTo);
  let living = 0;
  for (const successor of successorOf.values()) if (successor === undefined || !successorOf.has(successor)) living++;
  return living;
}

/** What an owner sees of a key; of a new field of keys the compiler asks whether customers are to see it. */
const SEEN = {
  ...{ keyId: true, apiId: true, start: true, name: true, meta: true, enabled: true, ipAllowlist: true },
  ...{ createdAt: true, updatedAt: true, lastUsedAt: true, expires: true, rerolledFrom: true, rerolledTo: true },
  ...{ permissions: true, roles: true, ratelimits: true, credits: true, creditsFrom: true, identity: true },
  ...{ state: true, disabledBy: false, ownerCredits: false, accounts: false, deletedAt: false, deletedBy: false },
} satisfies Record<keyof A.KeyResponseData, boolean>;

function toSeen(key: A.KeyResponseData, identityMeta: boolean): A.KeyResponseData {
  const shown = Object.entries(key).filter(([name]) => SEEN[name as keyof A.KeyResponseData]);
  const seen = Object.fromEntries(shown) as unknown as A.KeyResponseData;
  if (identityMeta || seen.identity?.meta === undefined) return seen;
  const { meta: _, ...identity } = seen.identity;
  return { ...seen, identity };
}
