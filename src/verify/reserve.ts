/**
 * Reservations: a call whose price is known only afterwards reserves the most that it may cost, and later settles the
 * actual cost. Store clause 27.
 *
 * Why an id names the account: any process can settle it in one step, without a look-up. The id of a call that took
 * nothing names no account, and there is nothing to settle in the store. Why an id contains the workspace, and a
 * signature made with the store's secret: otherwise a truncated or invented id would report success without settling
 * anything, and a verifier of one workspace could settle a reservation of another.
 */
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
import { beginCall, type VerifyContext, type VerifyDeps } from "./call.js";
import { answer } from "./verify-key.js";

/** What the program knows about a call that reserves, besides the request's body. */
export interface ReserveContext extends VerifyContext {
  /** Milliseconds after which unsettled credits return, 1_000…86_400_000; default 300_000, five minutes. */
  readonly timeout?: number | undefined;
}

/** Result of settling a reservation. */
export type ReservationSettlement =
  | {
      readonly settled: true;
      /** Credits spent; 0 if the call took none, as with unlimited credits. */
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
 * The id that a program gets: the reservation's id in the store, its workspace, its account unless it took nothing, and
 * a signature. Of several accounts, `w` and in base64url what was reserved and their lists.
 */
const HANDLE = /^((res_[\w-]{1,60})\.([\w-]{1,255})(?:\.(?:n(-?\d{1,15})|w([\w-]+)|s(.+)))?)\.([\w-]{22})$/s;
const TIMEOUT = 300_000;
const timeoutCheck = integer(1_000, 86_400_000);
/** Of 34 accounts of a store that names them with 64 characters. */
const MAX_HANDLE = 4_096;
/**
 * Prefix of signed texts. No other text digested with the secret has it: they begin with a workspace or 22 characters,
 * then a space.
 */
const SIGNED = "reservation: ";

const UNKNOWN: ReservationSettlement = Object.freeze({ settled: false, reason: "unknown" });

export type Settle = (id: string, spent: number) => Promise<ReservationSettlement>;

/** @throws as `Verifier.reserve` */
export async function reserveKey(
  deps: VerifyDeps,
  request: V2KeysVerifyKeyRequestBody,
  context: ReserveContext | undefined,
  settle: Settle,
): Promise<ReservationResult<unknown>> {
  requirePower(deps.sources.store, "reservations", "verifier.reserve");
  requirePower(deps.sources.store, "idempotency", "verifier.reserve");
  const call = beginCall(deps, request, context, { timeout: timeoutOf(context) });
  // Reads the secret before anything is taken.
  const sign = await deps.idempotency.signer();
  const result = await answer(call);
  if (!result.valid) return result;
  // A VALID call has passed the check that reserves.
  const { ref, id: stored, workspaceId, wallets } = call.reservation!;
  const text = wallets === undefined ? textOf(ref ?? "") : `w${encode({ cost: call.cost, wallets })}`;
  const account = ref === undefined || result.credits === undefined ? "" : `.${text}`;
  const signed = `${stored}.${workspaceId}${account}`;
  const id = `${signed}.${await sign(SIGNED + signed)}`;
  const commit = (spent: number) => settle(id, spent);
  return Object.assign(result, { id, commit, release: () => commit(0) });
}

function timeoutOf(context: ReserveContext | undefined): number {
  const timeout = isPlainObject(context) ? ownProperty(context, "timeout") : undefined;
  if (timeout !== undefined) timeoutCheck(timeout, "context.timeout");
  return timeout ?? TIMEOUT;
}

/** @throws as `Verifier.settle` */
export async function settleReservation(
  { sources: { store, workspaceId }, clock, idempotency }: VerifyDeps,
  handle: string,
  spent: number,
): Promise<ReservationSettlement> {
  if (typeof handle !== "string") throw new TypeError("id must be the id of a reservation");
  if (!Number.isSafeInteger(spent) || spent < 0) throw new RangeError("spent must be an integer from 0 to 2^53 - 1");
  requirePower(store, "reservations", "verifier.settle");
  const parts = handle.length > MAX_HANDLE ? null : HANDLE.exec(handle);
  if (parts === null) return UNKNOWN;
  const [, signed = "", id = "", of, number, several, text, signature] = parts;
  if (workspaceId !== undefined && of !== workspaceId) return UNKNOWN;
  // Need not take constant time: the signed id is random, and unknown to an attacker.
  if ((await (await idempotency.signer())(SIGNED + signed)) !== signature) return UNKNOWN;
  const ref = number === undefined ? text : Number(number);
  if (ref === undefined && several === undefined) return { settled: true, spent: 0 };
  const request = { id, spent, now: clock() };
  const outcome = await (several === undefined
    ? store.settleCredits(ref as KeyRef, request)
    : settleSeveral(store, decode(several), request));
  if (outcome.settled) return { settled: true, spent };
  const { reason } = outcome;
  if (reason === "exceeds") throw new RangeError("spent must be at most what was reserved; the reservation stays open");
  return { settled: false, reason };
}

/** What a handle says of several accounts. */
interface Parts {
  /** What was reserved of each wallet: what the parts have is not known of those that ended. */
  readonly cost: number;
  readonly wallets: readonly (readonly KeyRef[])[];
}

function settleSeveral(store: Store, { cost, wallets }: Parts, request: SettleRequest): MaybePromise<Settlement> {
  if (request.spent > cost) return { settled: false, reason: "exceeds" };
  requirePower(store, "wallets", "verifier.settle");
  return store.settleWallets!(wallets, request);
}

function encode(parts: Parts): string {
  const bytes = new TextEncoder().encode(JSON.stringify(parts));
  return btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "");
}

/** Of a handle whose signature was compared. */
function decode(text: string): Parts {
  const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (one) => one.charCodeAt(0));
  return JSON.parse(new TextDecoder().decode(bytes)) as Parts;
}

function textOf(ref: KeyRef): string {
  return typeof ref === "number" ? `n${ref}` : `s${ref}`;
}
