/**
 * A verification in its order: may the caller verify at all, is the request valid, is its query ({@link beginCall}), is
 * there a key that the caller may see ({@link answer}), does its metadata fit the program's schema ({@link checkKey}),
 * and then the {@link CHECKS}. Contract 3, 4.1.
 *
 * The first check that fails gives the code, and later ones do not run. Only the end of the list gives VALID, so no
 * check can be skipped. A check passes only if it returns exactly `false`.
 *
 * To add a check, add it to {@link FREE}, and its findings to `FINDINGS` of `explain.ts`, which does not compile
 * without them.
 *
 * Why waiting continues in separate `async` functions: most results are in memory, and a call that awaits nothing would
 * pay 60 ns for an `async` function or a closure.
 */
import type { CachedKey } from "../cache/cached-key.js";
import { KeystileError } from "../contracts/errors.js";
import type { OwnedWallet, Spend } from "../contracts/store.js";
import type { MaybePromise, VerificationCode, VerificationResult } from "../contracts/types.js";
import { refsOf, toWallets } from "../credits/wallet.js";
import { newId } from "../lib/hash.js";
import { isThenable } from "../lib/thenable.js";
import { conclude, forgetFindings, GONE, notFound, type Reserved, Verification, type VerifyDeps } from "./call.js";
import { type CallContext, NO_CONTEXT, readContext, type VerifyContext } from "./context.js";
import { takeLimits } from "../ratelimit/take-limits.js";
import type { ExplainedCheck } from "./explained-check.js";
import { findKey, findKeyAgain } from "./find-key.js";
import type { IdempotentCall } from "./idempotency.js";
import type { MetaRead } from "./read-meta.js";
import { fillRequest, fillWithKey } from "./request.js";

interface Check<Call> {
  /** The code of the response if the key fails. */
  readonly code: ExplainedCheck["code"];
  /** Whether the key fails. Returns a promise only if a limiter or a store does. */
  readonly fails: (call: Call, key: CachedKey) => MaybePromise<boolean>;
}

/** The part of a call that a check which takes nothing may see: neither limiter nor spender. */
type FreeCall = Omit<Verification, "deps" | "limits" | "limitsNote" | "earlier" | "spend" | "once" | "reservation">;
export type FreeChecks = readonly Check<FreeCall>[];
/** Exactly two, credits last: a check after credits could refuse a call that has been paid for. */
export type TakingChecks = readonly [Check<Verification>, Check<Verification>];

/** The checks that take nothing, in order. */
const FREE = [
  { code: "DISABLED", fails: (_, { policy }) => !policy.enabled },
  { code: "EXPIRED", fails: hasExpired },
  { code: "FORBIDDEN", fails: isForbidden },
  { code: "INSUFFICIENT_PERMISSIONS", fails: lacksPermissions },
] as const satisfies FreeChecks;

/** The checks that take something, in order. */
const TAKING = [
  { code: "RATE_LIMITED", fails: takeLimits },
  { code: "USAGE_EXCEEDED", fails: exceedsCredits },
] as const satisfies TakingChecks;

/** All checks, in order. */
export const CHECKS = [...FREE, ...TAKING] as const;

/** The type of `meta` is known only to the caller, who gave the schema. */
type ResponseData = VerificationResult<unknown>;

/**
 * Makes the function that verifies one request. Its first argument is the request; if `deps.plan` is the request, the
 * key alone. It rejects with a KeystileError VERIFIER_CLOSED; 400 for an invalid request or query, or a limit that does
 * not exist; 403 for a caller without any permission to verify (contract 4.1-4); IDEMPOTENCY_… for a call with an
 * idempotency key, and META_INVALID, before the checks. What checks themselves reject with stands at `Verifier.verify`.
 * @see contract 4.1-1, 4.1-2 · waits only for what is not in memory
 */
export function verifyWith(deps: VerifyDeps) {
  const { calls } = deps;
  return function verifyKey(body: unknown, context?: VerifyContext): Promise<ResponseData> {
    try {
      calls.assertOpen();
      const result = answer(beginCall(deps, body, context === undefined ? NO_CONTEXT : readContext(context)));
      return result instanceof Promise ? calls.track(result) : Promise.resolve(result);
    } catch (error) {
      // oxlint-disable-next-line typescript/prefer-promise-reject-errors -- what was thrown, as it is
      return Promise.reject(error);
    }
  };
}

/**
 * Begins a call, before anything is looked up: a caller without any permission to verify is refused whatever it sent,
 * then an invalid request, then an invalid permission query, whatever the key.
 * @throws KeystileError as {@link verifyWith}
 */
export function beginCall(deps: VerifyDeps, body: unknown, context: CallContext): Verification {
  if (context.caller?.mayAny("verify_key", "api") === false)
    throw new KeystileError("CALLER_FORBIDDEN", "the credential has no permission to verify keys");
  const call = new Verification(deps, context);
  const { plan } = deps;
  if (plan !== undefined) {
    fillWithKey(call, plan.request, body);
    call.query = plan.query;
  } else {
    fillRequest(call, body);
    if (call.permissions !== undefined) call.query = deps.compileQuery(call.permissions);
  }
  return call;
}

/** Finds the key of a call, runs the checks and returns the result. A key that the caller may not see is not found. */
export function answer(call: Verification): MaybePromise<ResponseData> {
  const { idempotencyKey } = call.context;
  if (idempotencyKey !== undefined) return answerOnce(call, idempotencyKey);
  const found = findKey(call);
  return found instanceof Promise ? whenFound(call, found) : checkKey(call, found);
}

async function whenFound(call: Verification, finding: Promise<CachedKey | undefined>): Promise<ResponseData> {
  return checkKey(call, await finding);
}

/** {@link answer} for a call with an idempotency key: it counts as in flight until it has ended. */
async function answerOnce(call: Verification, idempotencyKey: unknown): Promise<ResponseData> {
  const { idempotency } = call.deps;
  const scope = idempotency.scopeOf(idempotencyKey, call.context.caller);
  const key = await findKey(call);
  if (key === undefined) return notFound(call);
  const once = await idempotency.begin(scope, key.policy.workspaceId, call);
  call.once = once;
  try {
    return await checkKey(call, key);
  } finally {
    idempotency.end(once);
  }
}

/** Metadata that does not fit the program's schema ends the call before anything is taken. */
function checkKey(call: Verification, key: CachedKey | undefined): MaybePromise<ResponseData> {
  if (key === undefined) return notFound(call);
  call.prefetched = key.prefetch() | 0;
  const { meta } = key.rare;
  call.meta = meta;
  if (meta === undefined || call.deps.readMeta === undefined) return runChecks(call, key, 0);
  const reading = call.deps.readMeta(meta, key.keyId);
  if (isThenable(reading)) return whenRead(call, key, reading);
  call.meta = reading.value;
  return runChecks(call, key, 0);
}

async function whenRead(call: Verification, key: CachedKey, reading: Promise<MetaRead>): Promise<ResponseData> {
  call.meta = (await reading).value;
  return runChecks(call, key, 0);
}

/** Runs the checks from index `from` on. */
function runChecks(call: Verification, key: CachedKey, from: number): MaybePromise<ResponseData> {
  for (let i = from; i < CHECKS.length; i++) {
    const { code, fails } = CHECKS[i]!;
    const failed: MaybePromise<boolean> = fails(call, key);
    if (failed === false) continue;
    return failed === true ? refuse(call, key, code) : whenChecked(call, key, { i, failing: failed });
  }
  return concludeOrRestart(call, key, "VALID");
}

/** A check that resolves with anything but `false` has failed. */
async function whenChecked(call: Verification, key: CachedKey, check: { i: number; failing: Promise<unknown> }) {
  const failed = await check.failing;
  return failed === false ? runChecks(call, key, check.i + 1) : refuse(call, key, CHECKS[check.i]!.code);
}

/** A refusal takes no credits, and reports the balance as it stands. */
function refuse(call: Verification, key: CachedKey, code: VerificationCode): MaybePromise<ResponseData> {
  const { spend } = call;
  if (code === "USAGE_EXCEEDED" && spend !== undefined && key.wallets?.some(hasRefill) === true)
    return readEachBalance(call, key, spend);
  if (spend !== undefined || !key.policy.hasCredits) return concludeOrRestart(call, key, code);
  const reading = spendCredits(call, key, 0);
  return typeof reading === "boolean"
    ? concludeOrRestart(call, key, code)
    : whenBalanceRead(call, key, { code, reading });
}

const hasRefill = ({ accounts }: OwnedWallet): boolean => accounts.some(({ refill }) => refill !== undefined);

/** How long to wait for a refill depends on the balance of each account; the spend that failed tells only the least. */
async function readEachBalance(call: Verification, key: CachedKey, spend: Spend) {
  const { balances } = (await call.deps.spender.spend(key, 0, call.now)) ?? {};
  if (balances !== undefined) call.spend = { ...spend, balances };
  return concludeOrRestart(call, key, "USAGE_EXCEEDED");
}

async function whenBalanceRead(
  call: Verification,
  key: CachedKey,
  refusal: { readonly code: VerificationCode; readonly reading: Promise<boolean> },
) {
  await refusal.reading;
  return concludeOrRestart(call, key, refusal.code);
}

/** Ends every call whose key was found; restarts it if the key has changed meanwhile. */
function concludeOrRestart(call: Verification, key: CachedKey, code: VerificationCode): MaybePromise<ResponseData> {
  if (isOutdated(call, key)) return restart(call);
  return call.spend === GONE ? notFound(call) : conclude(call, key, code);
}

/** Each restart means that an administrator changed the key's refill between two steps of one call. */
export const MAX_RESTARTS = 8;

/**
 * Whether the key has changed since it was found: its credits are refilled by another calendar, or the identity that
 * held them is gone.
 */
export function isOutdated({ spend }: Pick<Verification, "spend">, { policy }: CachedKey): boolean {
  return spend === GONE ? policy.creditsFrom === "identity" : spend?.stale === true;
}

/** Runs all checks again on the current key. */
async function restart(call: Verification): Promise<ResponseData> {
  if (call.earlier?.runs === MAX_RESTARTS)
    throw new KeystileError("STORE_BUSY", "the credits of this key kept changing while it was verified; try again");
  forgetFindings(call);
  return checkKey(call, await findKeyAgain(call));
}

/** At exactly that time a key is still valid. */
function hasExpired({ now }: FreeCall, { expires, rare: { ownerExpires } }: CachedKey): boolean {
  return (expires !== undefined && now > expires) || (ownerExpires !== undefined && now > ownerExpires);
}

function isForbidden({ context }: FreeCall, key: CachedKey): boolean {
  const { parentDisabled, ownerDisabled } = key.policy;
  const { allows } = key.rare;
  return parentDisabled || ownerDisabled === true || (allows !== undefined && !allows(context.clientAddress));
}

function lacksPermissions(call: FreeCall, key: CachedKey): boolean {
  if (call.query === undefined) return false;
  call.queried = true;
  return !key.policy.grants.satisfies(call.query);
}

/** @returns true: the credits were not taken */
function exceedsCredits(call: Verification, key: CachedKey): MaybePromise<boolean> {
  if (call.once !== undefined) return exceedsOnce(call, key, call.once);
  if (call.context.timeout !== undefined) return reserveCredits(call, key, call.context.timeout);
  return key.policy.hasCredits && spendCredits(call, key, call.cost);
}

/** A repeat takes nothing again. Any other call is recorded, in one step with its spend if the key has credits. */
function exceedsOnce(call: Verification, key: CachedKey, once: IdempotentCall): MaybePromise<boolean> {
  const target = key.policy.hasCredits ? key : undefined;
  const { reservation } = once.record;
  if (reservation !== undefined) call.reservation = reservationOf(call, key, reservation.id);
  if (!once.isRepeat) return whenSpent(call, call.deps.idempotency.spend(once, target, call));
  return target === undefined ? false : spendCredits(call, target, 0);
}

function reserveCredits(call: Verification, key: CachedKey, timeout: number): MaybePromise<boolean> {
  const { deps, cost, now } = call;
  call.reservation = reservationOf(call, key, call.reservation?.id ?? newId("res"));
  const reservation = { id: call.reservation.id, until: now + timeout };
  return key.policy.hasCredits && whenSpent(call, deps.spender.reserve(key, { cost, now, reservation }));
}

/** A cost of 0 reserves nothing, and so does a key without credits. */
function reservationOf({ cost, now }: Verification, key: CachedKey, id: string): Reserved {
  const { policy, ref, wallets } = key;
  const reservation = { id, of: key, ref: cost > 0 && policy.hasCredits ? ref : undefined };
  return wallets === undefined ? reservation : { ...reservation, wallets: refsOf(toWallets(wallets, now)) };
}

function spendCredits(call: Verification, key: CachedKey, cost: number): MaybePromise<boolean> {
  const spending = call.deps.spender.spend(key, cost, call.now);
  return spending instanceof Promise ? whenSpent(call, spending) : keepSpend(call, spending);
}

async function whenSpent(call: Verification, spending: MaybePromise<Spend | undefined>): Promise<boolean> {
  return keepSpend(call, await spending);
}

function keepSpend(call: Verification, spend: Spend = GONE): boolean {
  call.spend = spend;
  if (spend.refused !== undefined) throw refusedReservation(spend.refused);
  return !spend.ok;
}

function refusedReservation(refused: NonNullable<Spend["refused"]>): KeystileError {
  return refused === "open"
    ? new KeystileError(
        "IDEMPOTENCY_IN_FLIGHT",
        "the reservation under this idempotency key is still open; settle it first",
      )
    : new KeystileError("RESERVATIONS_FULL", "the balance has as many open reservations as it may; settle some first");
}
