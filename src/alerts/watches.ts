/**
 * What is watched: whose bound is passed, and which of the alerts that are raised have ended.
 *
 * Why a tenth of a bound and more lies between passing it and being back: a balance that swings around the bound is one
 * crossing.
 */
import type { Alert, CreditsAlert, ExpiryAlert, OwnerExpiryAlert, RefusalsAlert } from "../contracts/alerts.js";
import { readInTurns } from "../analytics/rows.js";
import { LEVELS } from "../contracts/outcomes.js";
import type {
  CountedBalance,
  GrantRow,
  IdentityRow,
  KeyHints,
  KeyPosition,
  KeyRow,
  KeySearch,
  Rows,
  Store,
} from "../contracts/store.js";
import { drawsOnIdentity } from "../lib/credits-source.js";
import type { Reading } from "../keyring/context.js";
import { grantsOf, isOverage, type OpenGrant } from "../keyring/granted.js";
import { othersOfAccount } from "../keyring/keys/account-keys.js";
import { type ReadAccount, readAccounts } from "../keyring/keys/key-response.js";
import { createSlicing } from "../keyring/keys/slicing.js";
import { MAX_BATCH, readApisOf, readRows } from "../keyring/rows.js";

/** What an alert says of its own. */
type Said<A = Alert> = A extends Alert ? Omit<A, "id" | "time" | "workspaceId" | "rule"> : never;
/** A subject beyond the bound. */
export interface Found {
  readonly subject: string;
  /** Before it was looked at, Unix time in milliseconds. */
  readonly from: number;
  readonly said: Said;
  /** What it is beyond: credits, also where the rule has a share of them; milliseconds; or a share of verifications. */
  readonly bound: number;
}
/**
 * An alert that is raised. It ends by the bound that it passed: programs with different ones do not end each other's.
 * Without it: of a version before there was one.
 */
export type Raised<A = Alert> = A & { readonly bound?: number };
/** One bound. */
export interface Watch {
  readonly kind: Alert["type"];
  /** All that are beyond it, at most {@link PAGE} at a time. */
  past(): AsyncIterable<readonly Found[]>;
  /** Whether each of these is back from the bound that it passed, or gone. */
  haveEnded(raised: readonly Raised[], now: number): Promise<readonly boolean[]>;
}
/** What watches read with. */
export interface Watching extends Reading {
  readonly store: Required<Store>;
  readonly workspaceId: string;
  readonly clock: () => number;
}

/** Keys, or alerts, that are looked at together. */
export const PAGE = 100;
/** How far beyond its bound, as a factor, a value must be for the alert to end: a balance, a time left, a share. */
const HYSTERESIS = { credits: 1.2, time: 1.1, share: 0.8 } as const;
/** Verifications of an API below which no share of them is told of. */
const MIN_CALLS = 100;
/** Callers choose tags, of which each set is a count: no number of them may silence an alert. */
const MAX_COUNTS = 1_000_000_000;

/**
 * A share of what an owner is given: of what each refill of the balance adds; or, without a refill, of all that the
 * balance was ever given and of the open grants, each with its amount, or what its refill adds. Overage, a grant with a
 * priority above 100, counts neither as given nor as left.
 */
export interface CreditsShare {
  /** Above 0, to 1. */
  readonly share: number;
}

const sum = (grants: readonly OpenGrant[], creditsOf: (grant: OpenGrant) => number): number =>
  grants.reduce((total, grant) => total + creditsOf(grant), 0);

/** The grants that count for a bound; for a share not those that are overage. */
function counted(below: number | CreditsShare, { grants = [] }: ReadAccount): readonly OpenGrant[] {
  return typeof below === "number" ? grants : grants.filter(({ row }) => !isOverage(row));
}

/** Credits of an account and its grants that nothing has spent yet; Infinity: unlimited. */
function leftOf(below: number | CreditsShare, account: ReadAccount): number {
  const { balance } = account;
  const unspent = (one: Pick<CountedBalance, "remaining" | "reserved"> | undefined) =>
    (one?.remaining ?? 0) + (one?.reserved ?? 0);
  const granted = sum(counted(below, account), (grant) => unspent(grant.balance));
  if (balance === "invalid") return granted;
  return balance === undefined || balance.remaining === null ? Infinity : unspent(balance) + granted;
}

/** The bound of an account; of a share of nothing 0. */
function boundOf(below: number | CreditsShare, account: ReadAccount): number {
  const { refill, balance } = account;
  if (typeof below === "number") return below;
  if (balance === "invalid") return Infinity;
  const { credited = 0, refilled = 0, adjusted = 0 } = balance?.totals ?? {};
  const granted = sum(counted(below, account), ({ row }) => row.refill?.amount ?? row.amount);
  return below.share * (refill?.amount ?? credited + refilled + adjusted + granted);
}

/**
 * The bound of an owner whose grants have all ended: the share of the grant that ended last; 0 for an owner that never
 * had one.
 */
async function boundOfEnded(context: Watching, { share }: CreditsShare, ownerId: string): Promise<number> {
  if (context.store.powers.wallets !== true) return 0;
  const endOf = ({ expires = Infinity, endedAt = Infinity }: GrantRow) => Math.min(expires, endedAt);
  const ended = (await grantsOf(context, ownerId)).filter((row) => !isOverage(row));
  const [last] = ended.sort((a, b) => endOf(b) - endOf(a));
  return share * (last?.amount ?? 0);
}

/** Balances below a bound, of keys that may be used. */
export function watchCredits(context: Watching, below: number | CreditsShare): Watch {
  // Any balance may be below a share of something.
  const hints = { creditsBelow: typeof below === "number" ? below : Number.MAX_SAFE_INTEGER, enabled: true };
  return {
    kind: "credits.low",
    async *past() {
      for await (const { rows, at } of keysOf(context, "newest", hints)) {
        const usable = rows.filter(({ enabled, expires = Infinity }) => enabled && expires >= at);
        const found: Found[] = [];
        for (const { subject, whose, account } of await drawnAccounts(context, usable, at)) {
          const remaining = leftOf(below, account);
          let bound = boundOf(below, account);
          if (bound === 0 && remaining === 0 && typeof below !== "number")
            bound = await boundOfEnded(context, below, subject);
          if (remaining < bound)
            found.push({ subject, from: at, said: { type: "credits.low", ...whose, remaining }, bound });
        }
        yield found;
      }
    },
    async haveEnded(raised, now) {
      const left = new Map<string, number>();
      const read = async <T extends "keys" | "identities">(table: T, rows: ReadonlyMap<string, Rows[T]>) => {
        const accounts = await readAccounts({ ...context, now }, table, [...rows.values()]);
        [...rows.keys()].forEach((id, i) => left.set(id, leftOf(below, accounts[i] as ReadAccount)));
      };
      await read("keys", await existingKeys(context, idsIn(raised, "keyId")));
      await read("identities", await readRows(context, "identities", idsIn(raised, "identityId")));
      const fixedBound = typeof below === "number" ? below : 0;
      return (raised as readonly Raised<CreditsAlert>[]).map(
        ({ keyId = "", identityId: subject = keyId, bound = fixedBound }) =>
          (left.get(subject) ?? Infinity) >= bound * HYSTERESIS.credits,
      );
    },
  };
}

/** The accounts that these keys draw on, each once: of keys that share one the newest, which come first. */
async function drawnAccounts(context: Watching, rows: readonly KeyRow[], at: number) {
  const identities = await readRows(context, "identities", idsIn(rows, "identityId"));
  const keys = new Map<string, KeyRow>();
  const owners = new Map<string, IdentityRow>();
  for (const row of rows) {
    const { accountId = row.id, identityId = "" } = row;
    const identity = identities.get(identityId);
    if (!mayBeUsed(identity, at)) continue;
    if (row.hasCredits && !keys.has(accountId)) keys.set(accountId, row);
    if (drawsOnIdentity(row, identity)) owners.set(identityId, identity);
  }
  const reading = { ...context, now: at };
  const ofKeys = await readAccounts(reading, "keys", [...keys.values()]);
  const ofOwners = await readAccounts(reading, "identities", [...owners.values()]);
  return [
    ...[...keys].map(([subject, { id: keyId, identityId = "" }], i) => {
      const whose = { keyId, ...ownerOf(identities.get(identityId)) };
      return { subject, whose, account: ofKeys[i] as ReadAccount };
    }),
    ...[...owners].map(([identityId, row], i) => {
      const whose = { identityId, ...ownerOf(row) };
      return { subject: identityId, whose, account: ofOwners[i] as ReadAccount };
    }),
  ];
}

/** Keys that expire soon: not those that another one replaces, nor those that never had longer. */
export function watchExpiry(context: Watching, within: number): Watch {
  return {
    kind: "key.expiring",
    async *past() {
      const now = context.clock();
      const hints = { enabled: true, expiresFrom: now, expiresBefore: now + within };
      for await (const { rows, at } of keysOf(context, "expires", hints)) {
        const identities = await readRows(context, "identities", idsIn(rows, "identityId"));
        yield rows.flatMap(
          ({ id: keyId, apiId, identityId = "", enabled, expires, createdAt, rerolledTo }): Found[] => {
            if (!enabled || rerolledTo !== undefined || expires === undefined) return [];
            if (expires < at || expires >= now + within || expires - createdAt <= within) return [];
            if (!mayBeUsed(identities.get(identityId), at)) return [];
            const said = {
              type: "key.expiring",
              keyId,
              apiId,
              ...ownerOf(identities.get(identityId)),
              expires,
            } as const;
            return [{ subject: keyId, from: at, said, bound: within }];
          },
        );
      }
    },
    async haveEnded(raised, now) {
      const keys = await existingKeys(context, idsIn(raised, "keyId"));
      return (raised as readonly Raised<ExpiryAlert>[]).map(({ keyId, bound = within }) => {
        const { id, expires, rerolledTo } = keys.get(keyId) ?? {};
        return id !== keyId || rerolledTo !== undefined || !isSoon(expires, now, bound);
      });
    },
  };
}

/** Customers that expire soon: one alert for all their keys, which the expiry of a key does not show. */
export function watchOwnerExpiry(context: Watching, within: number): Watch {
  return {
    kind: "identity.expiring",
    async *past() {
      for await (const { rows, at } of pagesOf(context, "identities", PAGE))
        yield rows.flatMap(({ id: identityId, externalId, enabled, expires = Infinity }): Found[] => {
          if (enabled === false || expires < at || expires >= at + within) return [];
          const said = { type: "identity.expiring", identityId, externalId, expires } as const;
          return [{ subject: identityId, from: at, said, bound: within }];
        });
    },
    async haveEnded(raised, now) {
      const owners = await readRows(context, "identities", idsIn(raised, "identityId"));
      return (raised as readonly Raised<OwnerExpiryAlert>[]).map(
        ({ identityId, bound = within }) => !isSoon(owners.get(identityId)?.expires, now, bound),
      );
    },
  };
}

/** Whether an alert that was raised for this expiry goes on. */
function isSoon(expires = Infinity, now: number, bound: number): boolean {
  return expires >= now && expires < now + bound * HYSTERESIS.time;
}

/** Shares of refusals. Verifications of keys that were not found are of no API. */
export function watchRefusals({ store, workspaceId, clock }: Watching, bound: number): Watch {
  const read = async (now: number) => {
    const hour = Math.floor(now / LEVELS.hour) * LEVELS.hour;
    const query = { level: "hour", from: hour - LEVELS.hour, to: hour + LEVELS.hour, by: ["apiId"] } as const;
    const found = new Map<string, { total: number; refused: number }>();
    for await (const rows of readInTurns(store, { ...query, workspaceId, maxRows: MAX_COUNTS }))
      for (const { apiId = "", counts } of rows) {
        const sums = found.get(apiId) ?? { total: 0, refused: 0 };
        const total = counts.reduce((sum, count) => sum + count, 0);
        // The first one is VALID.
        found.set(apiId, { total: sums.total + total, refused: sums.refused + total - (counts[0] as number) });
      }
    return found;
  };
  const exceeds = ({ total, refused }: { readonly total: number; readonly refused: number }, share: number): boolean =>
    total >= MIN_CALLS && refused / total >= share;
  return {
    kind: "verifications.refused",
    async *past() {
      const at = clock();
      const found: Found[] = [];
      for (const [apiId, counts] of await read(at))
        if (apiId !== "" && exceeds(counts, bound))
          found.push({ subject: apiId, from: at, said: { type: "verifications.refused", apiId, ...counts }, bound });
      for (let start = 0; start < found.length; start += PAGE) yield found.slice(start, start + PAGE);
    },
    async haveEnded(raised, now) {
      const counts = await read(now);
      const none = { total: 0, refused: 0 };
      return (raised as readonly Raised<RefusalsAlert>[]).map(
        ({ apiId, bound: passed = bound }) => !exceeds(counts.get(apiId) ?? none, passed * HYSTERESIS.share),
      );
    },
  };
}

/** Whether the owner of a key, if it has one, lets it in. */
function mayBeUsed(owner: IdentityRow | undefined, at: number): boolean {
  return owner?.enabled !== false && (owner?.expires ?? Infinity) >= at;
}

const ownerOf = (identity: IdentityRow | undefined) => identity && { externalId: identity.externalId };

/** What of these has one of that name. */
function idsIn(of: readonly object[], name: "keyId" | "identityId"): string[] {
  return of.flatMap((one) => (one as { readonly [N in typeof name]?: string })[name] ?? []);
}

/** The keys of all APIs that may match, in slices between which others get their turn. */
async function* keysOf(
  context: Watching,
  order: KeySearch["order"],
  mayMatch: KeyHints,
): AsyncGenerator<{ readonly rows: readonly KeyRow[]; readonly at: number }> {
  const { store, workspaceId, clock, turns } = context;
  const { expiresFrom, expiresBefore = Infinity } = mayMatch;
  const start = expiresFrom === undefined ? undefined : { id: "", expires: expiresFrom };
  const slicing = createSlicing({ turns });
  for await (const { rows: apis } of pagesOf(context, "apis", MAX_BATCH)) {
    const apiIds = apis.map(({ id }) => id);
    for (let after: KeyPosition | undefined = start; ;) {
      const at = clock();
      const search = { workspaceId, apiIds, order, among: slicing.among(), limit: PAGE, mayMatch };
      const slice = await slicing.timed(() => store.searchKeys({ ...search, ...(after !== undefined && { after }) }));
      if (slice.keys.length > 0) yield { rows: slice.keys, at };
      after = slice.last;
      if (after === undefined || (after.expires ?? -Infinity) >= expiresBefore) break;
      await slicing.yield();
    }
  }
}

/** All rows of a table that are not deleted, so many at a time, and when each page was asked for. */
async function* pagesOf<T extends "apis" | "identities">(
  { store, workspaceId, clock, turns }: Watching,
  table: T,
  limit: number,
): AsyncGenerator<{ readonly rows: readonly Rows[T][]; readonly at: number }> {
  const slicing = createSlicing({ turns });
  for (let after = ""; ;) {
    const at = clock();
    const rows = await store.list(table, { workspaceId, limit, ...(after !== "" && { after }) });
    if (rows.length > 0) yield { rows, at };
    if (rows.length < limit) return;
    after = (rows.at(-1) as Rows[T]).id;
    await slicing.yield();
  }
}

/** These keys that exist; for one that is deleted, the latest that shares its account. */
async function existingKeys(context: Watching, ids: readonly string[]): Promise<ReadonlyMap<string, KeyRow>> {
  const keys = new Map<string, KeyRow>();
  for (const [id, row] of await readRows(context, "keys", ids)) {
    const others = row.deleted ? await othersOfAccount(context, row) : [];
    keys.set(id, others.findLast(({ deleted }) => !deleted) ?? row);
  }
  const apis = await readApisOf(context, [...keys.values()]);
  for (const [id, { deleted, apiId }] of keys) if (deleted || apis.get(apiId)?.deleted !== false) keys.delete(id);
  return keys;
}
