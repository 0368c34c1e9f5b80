/**
 * Reservations: a call whose price is known only afterwards reserves the most that it may cost, and later settles the
 * actual cost. Store clause 27.
 *
 * Why an id names the account, the key, its owner and the tags: any process can settle it in one step, without a
 * look-up, and count what was kept where the call was counted. The id of a call that took nothing names no account, and
 * there is nothing to settle in the store. Why an id contains the workspace, and a signature made with the store's
 * secret: otherwise a truncated or invented id would report success without settling anything, and a verifier of one
 * workspace could settle a reservation of another.
 */
import { OTHER } from "../contracts/outcomes.js";
import type { KeyRef, Settlement, SettleRequest, Store } from "../contracts/store.js";
import type {
  MaybePromise,
  RefusedKey,
  UnknownKey,
  V2KeysVerifyKeyRequestBody,
  VerifiedKey,
} from "../contracts/types.js";
import { integer, isPlainObject, ownProperty } from "../lib/check-options.js";
import { requirePower } from "../lib/guards/powers.js";
import type { VerifyDeps } from "./call.js";
import { readContext, type VerifyContext } from "./context.js";
import { redact } from "./outcome-events.js";
import { answer, beginCall } from "./verify-key.js";

/** What the program knows about a call that reserves, besides the request's body. */
export interface ReserveContext extends VerifyContext {
  /** Milliseconds after which unsettled credits return, 1_000…86_400_000; default 300_000, five minutes. */
  readonly timeout?: number | undefined;
}

/** Result of settling a reservation. */
export type ReservationSettlement =
  | {
      readonly settled: true;
      /**
       * Credits spent; 0 if the call took none, as with unlimited credits. Fewer than were asked for where a grant that
       * the call had reserved of was ended meanwhile, or a balance set: what the other accounts had reserved.
       */
      readonly spent: number;
    }
  | {
      readonly settled: false;
      /**
       * Nothing was changed. `settled`: it was settled before. `expired`: its credits had returned to the balance.
       * `voided`: the balance was set meanwhile. `unknown`: `reserve` returned no such id; its workspace is not the
       * verifier's; its balance is gone; or its time-out was more than an hour ago.
       */
      readonly reason: "settled" | "expired" | "voided" | "unknown";
    };

/** Credits taken for a call until its cost is known. */
export interface Reservation {
  /** For `verifier.settle`, in this process or another. Anyone who has the id can settle the reservation. */
  readonly id: string;
  /**
   * Spends this many of the credits and returns the others. May be repeated after an error.
   * @param spent an integer from 0 to the number reserved
   * @throws (rejects) RangeError: `spent` is not, and the reservation stays open · KeystileError STORE_… ·
   *   VERIFIER_CLOSED
   */
  commit(spent: number): Promise<ReservationSettlement>;
  /** Returns all of the credits: `commit(0)`. */
  release(): Promise<ReservationSettlement>;
}

/** Result of `reserve`: that of `verify`, with a {@link Reservation} if it is VALID. */
export type ReservationResult<Meta> = (VerifiedKey<Meta> & Reservation) | RefusedKey<Meta> | UnknownKey;

/**
 * The id that a program gets: the reservation's id in the store, its workspace, {@link Told} in base64url, and a
 * signature.
 */
const HANDLE = /^((res_[\w-]{1,60})\.([\w-]{1,255})\.([\w-]+))\.([\w-]{22})$/;
const TIMEOUT = 300_000;
const timeoutCheck = integer(1_000, 86_400_000);
const MAX_HANDLE = 16_384;
/** Characters of tags, as JSON, that a handle holds: what is kept of a call with more is counted as `["(other)"]`. */
const MAX_TAGS = 4_096;
/**
 * Prefix of signed texts. No other text digested with the secret has it: they begin with a workspace or 22 characters,
 * then a space.
 */
const SIGNED = "reservation: ";

const UNKNOWN: ReservationSettlement = Object.freeze({ settled: false, reason: "unknown" });

export type Settle = (id: string, spent: number) => Promise<ReservationSettlement>;

/** Makes the function that reserves with these dependencies. It rejects as `Verifier.reserve`. */
export function reserveWith(deps: VerifyDeps, settle: Settle) {
  return async function reserveKey(
    request: V2KeysVerifyKeyRequestBody,
    context: ReserveContext | undefined,
  ): Promise<ReservationResult<unknown>> {
    requirePower(deps.sources.store, "reservations", "verifier.reserve");
    requirePower(deps.sources.store, "idempotency", "verifier.reserve");
    const call = beginCall(deps, request, readContext(context, timeoutOf(context)));
    // Reads the secret before anything is taken.
    const sign = await deps.idempotency.signer();
    const result = await answer(call);
    if (!result.valid) return result;
    // A VALID call has passed the check that reserves.
    const { id: stored, of, ref, wallets } = call.reservation!;
    const { workspaceId, apiId, keyId, identity, ownerAccount } = of;
    const tags = redact(call.tags, call.key);
    const told: Told = {
      ...{ apiId, keyId, externalId: identity?.externalId, cost: call.cost, ownerAccount },
      tags: JSON.stringify(tags).length > MAX_TAGS ? [OTHER] : tags,
      ...(ref !== undefined && result.credits !== undefined && { ref, wallets }),
    };
    const signed = `${stored}.${workspaceId}.${encode(told)}`;
    const id = `${signed}.${await sign(SIGNED + signed)}`;
    const commit = (spent: number) => settle(id, spent);
    return Object.assign(result, { id, commit, release: () => commit(0) });
  };
}

function timeoutOf(context: ReserveContext | undefined): number {
  const timeout = isPlainObject(context) ? ownProperty(context, "timeout") : undefined;
  if (timeout !== undefined) timeoutCheck(timeout, "context.timeout");
  return timeout ?? TIMEOUT;
}

/** @throws as `Verifier.settle` */
export async function settleReservation(
  { sources: { store, workspaceId }, clock, counter, idempotency }: VerifyDeps,
  handle: string,
  spent: number,
): Promise<ReservationSettlement> {
  if (typeof handle !== "string") throw new TypeError("id must be the id of a reservation");
  if (!Number.isSafeInteger(spent) || spent < 0) throw new RangeError("spent must be an integer from 0 to 2^53 - 1");
  requirePower(store, "reservations", "verifier.settle");
  const parts = handle.length > MAX_HANDLE ? null : HANDLE.exec(handle);
  if (parts === null) return UNKNOWN;
  const [, signed = "", id = "", of = "", text = "", signature] = parts;
  if (workspaceId !== undefined && of !== workspaceId) return UNKNOWN;
  // Need not take constant time: the signed id is random, and unknown to an attacker.
  if ((await (await idempotency.signer())(SIGNED + signed)) !== signature) return UNKNOWN;
  const told = decode(text);
  if (told.ref === undefined) return { settled: true, spent: 0 };
  const now = clock();
  const outcome = await settleParts(store, told, { id, spent, now });
  if (outcome.settled) {
    const { apiId, keyId, externalId, tags, ref, ownerAccount } = told;
    const identity = externalId === undefined ? undefined : { externalId };
    const settled = { workspaceId: of, apiId, keyId, identity, account: ref, ownerAccount };
    // Of the owner's wallet, where the key's own credits are a cap inside it: a statement has those.
    const kept = outcome.kept?.at(-1) ?? spent;
    if (kept > 0) counter?.countSpent(settled, { code: undefined, spent: kept }, { now, tags, key: "" });
    return { settled: true, spent: kept };
  }
  const { reason } = outcome;
  if (reason === "exceeds") throw new RangeError("spent must be at most what was reserved; the reservation stays open");
  return { settled: false, reason };
}

/** What a handle says of a reservation. */
interface Told {
  readonly apiId: string;
  readonly keyId: string;
  /** Of the key's identity then. Absent: it had none. */
  readonly externalId?: string | undefined;
  readonly tags: readonly string[];
  /** What was reserved of each wallet: what the parts have is not known of those that ended. */
  readonly cost: number;
  /** The account, or the first of several. Absent: nothing was taken. */
  readonly ref?: KeyRef;
  /** Where that is a cap inside the credits of its owner: the main account of the owner. */
  readonly ownerAccount?: KeyRef | undefined;
  /** Of several accounts: those, in the order in which they were taken from. */
  readonly wallets?: readonly (readonly KeyRef[])[] | undefined;
}

function settleParts(store: Store, { ref, cost, wallets }: Told, request: SettleRequest): MaybePromise<Settlement> {
  if (wallets === undefined) return store.settleCredits(ref as KeyRef, request);
  if (request.spent > cost) return { settled: false, reason: "exceeds" };
  requirePower(store, "wallets", "verifier.settle");
  return store.settleWallets!(wallets, request);
}

function encode(told: Told): string {
  const bytes = new TextEncoder().encode(JSON.stringify(told));
  return btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "");
}

/** Of a handle whose signature was compared. */
function decode(text: string): Told {
  const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (one) => one.charCodeAt(0));
  return JSON.parse(new TextDecoder().decode(bytes)) as Told;
}
