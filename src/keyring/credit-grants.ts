/**
 * Grants: credits of an owner beside its main account, each with an expiry, a refill and a place in the draw-down order
 * of its own. Store clause 32.
 *
 * Why each grant is written with its owner: its version keeps two grants made at once from passing the bound, and keys
 * that draw on it hear of the change.
 */
import { badRequest, KeystileError } from "../contracts/errors.js";
import type { CountedBalance, GrantRow, Write, WrittenBalance } from "../contracts/store.js";
import { periodOf } from "../credits/refill-calendar.js";
import { DEFAULT_PRIORITY } from "../credits/wallet.js";
import { requirePower } from "../lib/guards/powers.js";
import type { Mutable } from "../lib/mutable.js";
import { adjustment } from "./adjustment.js";
import { type Context, updateWithRetry } from "./context.js";
import { othersOfAccount } from "./keys/account-keys.js";
import { expiryOf } from "./keys/create-key.js";
import { termsOf } from "./keys/credit-change.js";
import { grantsOf, isOver, isUsedUp, readGrants } from "./granted.js";
import { operation } from "./operation.js";
import { changeBalanceOf } from "./keys/update-key.js";
import { endOf, markOf } from "./used-up-grants.js";
import { MAX_BATCH, ownedRow, requireKey, requireNamed, setField } from "./rows.js";
import { endedGrant, grantsAsked, newGrant } from "./schemas/grants.js";
import type { EndGrantRequestBody, GrantCreditsRequestBody, GrantOwner } from "./schemas/requests.js";
import type { EndGrantData, GrantCreditsData, GrantData, ListGrantsData } from "./schemas/responses.js";
import { unlimited } from "./update-credits.js";
import { writeRows } from "./write.js";

/** Most open grants of one owner. */
export const MAX_OPEN_GRANTS = 16;
/** Milliseconds after its end for which a grant is kept, so that its id is known: 400 days. */
const KEPT = 400 * 86_400_000;
/** Grants that one new grant removes at most. */
const REMOVED_PER_GRANT = 16;

/** An owner, and what is written with each of its grants. */
interface Owner {
  readonly id: string;
  readonly field: "identityId" | "accountId";
  readonly hasCredits: boolean;
  /** The writes of its rows, marked by whether it has open grants. */
  readonly marked: (hasGrants: boolean) => Write[];
}

/** The id of an identity, or of a key's account. */
async function ownerIdOf(context: Context, { identity, keyId }: GrantOwner): Promise<string> {
  if (identity !== undefined) return (await requireNamed(context, "identities", identity)).id;
  const { accountId, id } = await requireKey(context, keyId);
  return accountId ?? id;
}

async function findOwner(context: Context, { identity, keyId }: GrantOwner): Promise<Owner> {
  if (identity !== undefined) {
    const row = await requireNamed(context, "identities", identity);
    const { id, hasCredits = false } = row;
    return { id, field: "identityId", hasCredits, marked: (hasGrants) => markOf("identities", [row], hasGrants) };
  }
  const row = await requireKey(context, keyId);
  const keys = [row, ...(await othersOfAccount(context, row))];
  const { accountId: id = row.id, hasCredits } = row;
  return { id, field: "accountId", hasCredits, marked: (hasGrants) => markOf("keys", keys, hasGrants) };
}

/**
 * Gives an owner credits in an account of their own. Under a `grantId` that it has already nothing is added.
 * @throws KeystileError BAD_REQUEST, also for an owner without credits · NOT_FOUND · CONFLICT: it has 16 open grants ·
 *   STORE_POWER_MISSING
 */
export const grantCredits = adjustment("grantCredits", newGrant, give, readGiven);

async function give(context: Context, request: GrantCreditsRequestBody): Promise<GrantCreditsData> {
  const { store, now } = context;
  requirePower(store, "wallets", "grantCredits");
  return updateWithRetry(context, request.identity ?? request.keyId, async () => {
    const owner = await findOwner(context, request);
    if (!owner.hasCredits) throw unlimited(request, "set a balance first, of 0 if only grants are to be spent");
    const known = request.grantId === undefined ? undefined : await findGrant(context, owner.id, request.grantId);
    if (known !== undefined) {
      // The idempotency key is of this request from now on, though nothing is added.
      if (context.once !== undefined) await writeRows(context, []);
      const [balance] = await readGrants(context, [known]);
      return { ...summaryOf(known, balance), created: false };
    }
    // Of a new one alone: an event may be delivered again after the grant that it gave has expired.
    const expires = expiryOf(request, now);
    if (expires !== undefined && expires <= now)
      throw badRequest([{ location: "body.expires", message: "is not later than now", fix: "give a later time" }]);
    const row = newRow(context, owner, request);
    if (expires !== undefined) row.expires = expires;
    const writes = [...owner.marked(true), ...(await makeSpace(context, owner.id))];
    const { refill } = row;
    const period = periodOf(refill, now);
    const credits = { period, now, remaining: row.amount, refill: { ...termsOf(refill), period } };
    const balances = await writeRows(context, [...writes, { table: "grants", row, credits }], "A grant of this id");
    return balances && { ...summaryOf(row, balances[0]), created: true };
  });
}

/** @throws KeystileError NOT_FOUND: the owner is gone, and the grant with it */
async function readGiven(context: Context, request: GrantCreditsRequestBody): Promise<GrantCreditsData> {
  const ownerId = await ownerIdOf(context, request);
  const isGiven = ({ grantId }: GrantRow) =>
    request.grantId === undefined ? grantId.startsWith(ownGrantId(context)) : grantId === request.grantId;
  const row = (await grantsOf(context, ownerId)).findLast(isGiven);
  if (row === undefined) throw new KeystileError("NOT_FOUND", "the grant is gone with the owner that it was given to");
  const [balance] = await readGrants(context, [row]);
  return { ...summaryOf(row, balance), created: false };
}

/**
 * What the id begins with of a grant that was not given one, so that a repeat under its idempotency key finds it; empty
 * without one.
 */
function ownGrantId({ once }: Context): string {
  return once === undefined ? "" : `${once.record.id}.`;
}

function newRow(
  context: Context,
  owner: Owner,
  { grantId, amount, priority = DEFAULT_PRIORITY, refill, reason }: Pick<GrantRow, "amount"> & Partial<GrantRow>,
): Mutable<GrantRow> {
  const { now } = context;
  const { id, ...owned } = ownedRow(context, context.newId("grant", now));
  const row: Mutable<GrantRow> = {
    ...{ id, ...owned, [owner.field]: owner.id, grantId: grantId ?? ownGrantId(context) + id, amount, priority },
    ...{ createdAt: now, hasCredits: true, generation: 1 },
  };
  setField(row, "reason", reason);
  if (refill !== undefined) {
    row.refill = { ...refill };
    row.refillCursor = now;
  }
  return row;
}

async function findGrant({ store, workspaceId }: Context, owner: string, grantId: string) {
  return (await store.readNames("grants", workspaceId, [`${owner} ${grantId}`]))[0];
}

/**
 * Ends what has expired or is used up, and removes what ended long ago.
 * @throws KeystileError CONFLICT: too many stay open
 */
async function makeSpace(context: Context, owner: string): Promise<Write[]> {
  const { now } = context;
  const grants = await grantsOf(context, owner);
  const writes: Write[] = grants
    .filter(({ endedAt = Infinity }) => endedAt + KEPT <= now)
    .slice(0, REMOVED_PER_GRANT)
    .map(({ id, version }) => ({ table: "grants", remove: id, version }));
  const open = grants.filter(({ endedAt }) => endedAt === undefined);
  const balances = await readGrants(context, open);
  const ending = open.filter((grant, i) => isUsedUp(grant, balances[i], now));
  if (open.length - ending.length >= MAX_OPEN_GRANTS)
    throw new KeystileError("CONFLICT", `the owner has ${MAX_OPEN_GRANTS} open grants, and may have no more`);
  return [...writes, ...ending.map((row) => endOf(row, now))];
}

/**
 * Ends a grant before its time, as a refund does: what is left of it is taken away, and what is leased and reserved.
 * One that has ended stays as it is.
 * @throws KeystileError NOT_FOUND · STORE_POWER_MISSING
 */
export const endGrant = adjustment("endGrant", endedGrant, end, async (context, request) => {
  const row = await requireGrant(context, await ownerIdOf(context, request), request.grantId);
  return endedOf(row, context.now);
});

async function end(context: Context, request: EndGrantRequestBody): Promise<EndGrantData> {
  const { store, now } = context;
  requirePower(store, "wallets", "endGrant");
  return updateWithRetry(context, request.identity ?? request.keyId, async () => {
    const owner = await findOwner(context, request);
    const found = await requireGrant(context, owner.id, request.grantId);
    if (isOver(found, now)) {
      if (context.once !== undefined) await writeRows(context, []);
      return endedOf(found, now);
    }
    const { row } = endOf(found, now);
    const credits = await changeBalanceOf(context, row, { grantId: row.id }, { remaining: 0, refill: null });
    const open = (await grantsOf(context, owner.id)).filter((one) => one.endedAt === undefined && one.id !== row.id);
    const ends: Write = { table: "grants", row, ...(credits && { credits }) };
    const balances = await writeRows(context, [...owner.marked(open.length > 0), ends]);
    return balances && { ...endedOf(row, now), withdrawn: Math.max(0, -(balances[0]?.added ?? 0)) };
  });
}

async function requireGrant(context: Context, owner: string, grantId: string): Promise<GrantRow> {
  const row = await findGrant(context, owner, grantId);
  if (row === undefined) throw new KeystileError("NOT_FOUND", "the owner has no grant of this id");
  return row;
}

function endedOf({ id, grantId, amount, expires = Infinity, endedAt = Infinity }: GrantRow, now: number): EndGrantData {
  return { grantId, id, amount, endedAt: Math.min(expires, endedAt, now), withdrawn: 0 };
}

type Left = Pick<CountedBalance | WrittenBalance, "remaining" | "reserved">;

function summaryOf({ id, grantId, amount, expires }: GrantRow, balance: Left | undefined) {
  const summary = { grantId, id, amount, remaining: balance?.remaining ?? 0 };
  return expires === undefined ? summary : { ...summary, expires };
}

/**
 * The open grants of an owner, and on demand those that have ended, the oldest first.
 * @throws KeystileError NOT_FOUND · STORE_POWER_MISSING
 */
export const listGrants = operation("listGrants", grantsAsked, async (context, request): Promise<ListGrantsData> => {
  requirePower(context.store, "wallets", "listGrants");
  const { ended = false } = request;
  const ownerId = await ownerIdOf(context, request);
  const rows = (await grantsOf(context, ownerId)).filter((row) => ended || !isOver(row, context.now)).slice(-MAX_BATCH);
  const balances = await readGrants(context, rows);
  return { grants: rows.map((row, i) => toGrantData(row, balances[i])) };
});

function toGrantData(row: GrantRow, balance: CountedBalance | undefined): GrantData {
  const { priority, createdAt, endedAt, refill, reason } = row;
  return {
    ...summaryOf(row, balance),
    ...{ priority, createdAt },
    ...(balance !== undefined && balance.reserved > 0 && { reserved: balance.reserved }),
    ...(refill !== undefined && { refill }),
    ...(reason !== undefined && { reason }),
    ...(endedAt !== undefined && { endedAt }),
  };
}
