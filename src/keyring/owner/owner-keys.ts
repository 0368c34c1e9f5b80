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
  const context = { ...found, audit: { ...found.audit, actor: { actorKind: "owner", actor: externalId } } };
  if (!isPlainObject(options)) throw new TypeError("options must be an object with apiId");
  const { ceiling: given = {}, ...named } = checkOptions(options, OPTIONS);
  const { apiId, prefix, meta } = parse(schemas.owner, { externalId, ...named });
  const ceiling = createCeiling(given);

  const findOwner = async (): Promise<IdentityRow | undefined> =>
    (await context.store.readNames("identities", context.workspaceId, [externalId]))[0];
  const requireOwner = async (): Promise<IdentityRow> => {
    const owner = await findOwner();
    if (owner === undefined) throw notFound("The key");
    return owner;
  };
  const owns = (owner: IdentityRow, row: KeyRow): boolean => row.identityId === owner.id && row.apiId === apiId;
  const requireOwned = (owner: IdentityRow, row: KeyRow | undefined): KeyRow => {
    if (row === undefined || !owns(owner, row)) throw notFound("The key");
    return row;
  };
  const readOwned = async (owner: IdentityRow, keyId: string): Promise<KeyRow> => {
    const [row] = await context.store.readMany("keys", [keyId]);
    return requireOwned(owner, row?.deleted === true ? undefined : row);
  };

  return Object.freeze<OwnerKeys>({
    async list(body = {}) {
      const { limit = 100, cursor, identityMeta = false } = parse(schemas.list, body);
      const api = await requireApi(context, apiId);
      const before = cursor === undefined ? undefined : readCursor("keys", cursor);
      const owner = await findOwner();
      const newest: KeyRow[] = [];
      if (owner !== undefined) {
        for await (const rows of pagesOfKeys(context, { apiId, identityId: owner.id })) {
          newest.push(...(before === undefined ? rows : rows.filter(({ id }) => id < before)));
          newest.splice(0, newest.length - limit - 1);
        }
      }
      const [shown, now] = [newest.reverse().slice(0, limit), context.clock()];
      const known = knownRows(api);
      const toResponses = async (rows: readonly KeyRow[]) => {
        const responses = await toKeyResponses(context, rows, now, known);
        return responses.map((key) => toSeen(key, identityMeta));
      };
      const listing = { table: "keys", filter: {}, refersTo, toResponses } as const;
      const data = await context.turns.run(() => fillPage(context, listing, shown));
      const last = data.at(-1);
      const hasMore = last !== undefined && newest.length > data.length;
      return { data, pagination: hasMore ? { cursor: writeCursor("keys", last.keyId), hasMore } : { hasMore } };
    },

    async get(body) {
      const { keyId, identityMeta = false } = parse(schemas.get, body);
      const api = await requireApi(context, apiId);
      const row = await readOwned(await requireOwner(), keyId);
      const [key] = await toKeyResponses(context, [row], context.clock(), knownRows(api));
      return toSeen(key as A.KeyResponseData, identityMeta);
    },

    create: (body = {}) =>
      runCall({ context, operation: "createKey" }, async (writing) => {
        const request = parse(schemas.create, body);
        const now = context.clock();
        const bounded = ceiling.apply(request, now);
        const full = {
          // What the ceiling does not bound is as it was asked for.
          ...{ ...request, ...bounded, apiId, externalId },
          ...(prefix !== undefined && { prefix }),
          ...(meta !== undefined && { meta }),
        };
        // Refused before the identity is made.
        const expires = expiryOf(full, now);
        await requireApi(context, apiId);
        const [identityId = ""] = (await ensureIdentities(writing, new Map([[externalId, undefined]]), now)).values();
        return updateWithRetry(writing, identityId, async () => {
          // Read before the keys are counted: whoever creates one meanwhile changes its version.
          const owner = await requireOwner();
          requireCustomer(owner, now);
          ceiling.requireSource(owner);
          if ((await countLiving(context, apiId, owner.id, now)) >= ceiling.keys) throw tooMany(ceiling.keys);
          const { key, row, balance } = await prepareKey(writing, full, expires, now);
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
          return (await writeRows(writing, writes)) ? { keyId: row.id, key } : undefined;
        });
      }),

    rotate: (body) =>
      runCall({ context, operation: "rerollKey" }, async (writing) => {
        const { keyId, overlap = 86_400_000 } = parse(schemas.rotate, body);
        const owner = await requireOwner();
        const old = await readOwned(owner, keyId);
        const now = context.clock();
        // Before anything ends.
        requireCustomer(owner, now);
        await requireRotatable(context, old, now);
        const { rerolledFrom } = old;
        const [before] = rerolledFrom === undefined ? [] : await context.store.readMany("keys", [rerolledFrom]);
        // One that was moved to another owner meanwhile is not this one's to end.
        if (before !== undefined && !before.deleted && isLiving(before, now) && owns(owner, before))
          await writeKey(writing, before.id, now, (retired) => {
            requireOwned(owner, retired);
            retired.expires = Math.max(0, now - 1);
            return undefined;
          });
        return replaceKey(writing, { keyId, expiration: overlap }, (row) => requireOwned(owner, row));
      }),

    rename: (body) =>
      runCall({ context, operation: "updateKey" }, async (writing) => {
        const { keyId, name } = parse(schemas.rename, body);
        const owner = await requireOwner();
        return writeKey(writing, keyId, context.clock(), (row) => {
          requireOwned(owner, row);
          setField(row, "name", name);
          return undefined;
        });
      }),

    revoke: (body) =>
      runCall({ context, operation: "deleteKey" }, async (writing) => {
        const { keyId } = parse(schemas.revoke, body);
        const owner = await requireOwner();
        return revoke(writing, keyId, (row) => void requireOwned(owner, row));
      }),

    revokeAll: () =>
      runCall({ context, operation: "deleteKey" }, async (writing) => {
        const owner = await findOwner();
        let revoked = 0;
        if (owner === undefined) return { revoked };
        const pages = () => pagesOfKeys(context, { apiId, identityId: owner.id });
        for await (const rows of repeatPasses(pages, ({ length }) => length > 0)) {
          for (const { id } of rows) {
            try {
              await revoke(writing, id, (row) => void requireOwned(owner, row));
              revoked++;
            } catch (error) {
              // Revoked by another call meanwhile.
              if (!(error instanceof KeystileError) || error.code !== "NOT_FOUND") throw error;
            }
          }
          // Keys of a deleted API are listed, although they are gone.
          if (await isApiGone(context, apiId)) break;
        }
        return { revoked };
      }),

    async balance() {
      return balanceOf(await accountsOf(context, undefined, await findOwner(), context.clock()));
    },

    async usage(query = { by: "day" }) {
      const now = context.clock();
      const { by, from = now - USAGE_PERIOD, to = now + 1, ...others } = query;
      // `where` is the owner's alone.
      if (Object.keys(others).length > 0)
        throw badRequest([{ location: "body", message: "must have no other fields than by, from and to" }]);
      const where = { externalId: [externalId], apiId: [apiId] };
      const plan = planQuery({ by: typeof by === "string" ? [by] : by, where, from, to, limit: 10_000 }, "body");
      requirePower(context.store, "analytics", "usage");
      return (await readRows(context.store, context.workspaceId, { maxRows: USAGE_ROWS }, plan)).slice(0, plan.limit);
    },
  });
}

function revoke(context: Context, keyId: string, check: (row: KeyRow) => void): Promise<A.EmptyResponse> {
  const now = context.clock();
  return writeKey(context, keyId, now, (row) => {
    check(row);
    hide(context, row, now);
    return undefined;
  });
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
async function countLiving(context: Context, apiId: string, identityId: string, now: number): Promise<number> {
  const successorOf = new Map<string, string | undefined>();
  for await (const rows of pagesOfKeys(context, { apiId, identityId }))
    for (const row of rows) if (isLiving(row, now)) successorOf.set(row.id, row.rerolledTo);
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
