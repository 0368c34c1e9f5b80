/** The ordered checks, top to bottom. Spec §2.2, §3, ruling A1. The one room with the branching; what each check means is said elsewhere. */
import { answerFor, answerNotFound, eventFor } from "./answer.js";
import { strictCaller } from "./callers/strict-caller.js";
import type { Caller } from "./caller.js";
import { VerifierError } from "./errors.js";
import { type OutcomeEvent, redact } from "./outcomes.js";
import type { Query, QueryCompiler } from "./permissions.js";
import type { PreparedKey } from "./prepared-key.js";
import type { DegradingLimiter } from "./limiters/degrading.js";
import type { Spender } from "./leases.js";
import { readRequest, type VerificationRequest } from "./request.js";
import type { Spend } from "./store.js";
import { type LimitsTaken, takeLimits } from "./take-limits.js";
import type { MaybePromise, V2KeysVerifyKeyResponseData, VerificationCode } from "./types.js";

/** What the caller knows of a request besides its body. */
export interface VerifyContext {
  /** The client's address, IPv4 or IPv6; a key or API with an allow-list is FORBIDDEN without it (ruling A4). */
  readonly clientAddress?: string | undefined;
  /** Who asks, if the program serves others: spec §4.1-3 and §4.1-4 apply. Absent: the program, which may do all (ruling F1). */
  readonly caller?: Caller;
}

/** What a verification consults; wired by `createVerifier`. */
export interface Engine {
  readonly clock: () => number;
  readonly compileQuery: QueryCompiler;
  /** The key that was presented, if it may be seen here (rulings E4, F1). */
  readonly findKey: (request: VerificationRequest, caller: Caller | undefined, now: number) => MaybePromise<PreparedKey | undefined>;
  /** The same from the store itself: what is remembered of the key turned out to be outdated. */
  readonly findKeyAgain: (request: VerificationRequest, caller: Caller | undefined) => Promise<PreparedKey | undefined>;
  readonly limiter: DegradingLimiter;
  readonly spender: Spender;
  readonly onOutcome: ((event: OutcomeEvent) => void) | undefined;
}

/** A verification on its way to an answer: what was found out so far. */
interface Verification {
  readonly engine: Engine;
  readonly request: VerificationRequest;
  readonly query: Query | undefined;
  readonly caller: Caller | undefined;
  readonly clientAddress: string | undefined;
  readonly now: number;
  queried: boolean;
  limits: LimitsTaken | undefined;
  /** The same once they were taken, null for none: a verification that starts again does not take them twice. */
  taken: LimitsTaken | null | undefined;
  /** How often the key was found again. */
  restarts: number;
}

/** Each restart means that an administrator changed the key's refill between two steps of one call. */
const MAX_RESTARTS = 8;

type Answer = V2KeysVerifyKeyResponseData;

/**
 * Judges one request. The first check that fails gives the code; later ones do not run (ruling A1).
 * @throws (rejects) VerifierError 400 for a request or query that is not well formed, and for a limit that does not exist (ruling C5);
 *   403 for a caller without any right to verify (spec §4.1-4)
 * @see spec §4.1-1, §4.1-2, ruling A2 for what each outcome consumes · waits only for what is not in memory
 */
export function verifyKey(engine: Engine, body: unknown, context: VerifyContext): Promise<Answer> {
  try {
    return Promise.resolve(judge(engine, body, context));
  } catch (error) {
    // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- what was thrown, as it is
    return Promise.reject(error);
  }
}

/*
 * Why functions that call one another, and no `await`: what is in memory need not be awaited, and as one async function
 * this would take 60 ns more a call.
 */

function judge(engine: Engine, body: unknown, { caller: given, clientAddress }: VerifyContext): MaybePromise<Answer> {
  const request = readRequest(body);
  const query = request.permissions === undefined ? undefined : engine.compileQuery(request.permissions);
  const caller = given === undefined ? undefined : strictCaller(given, "context.caller");
  if (caller?.mayAny("verify_key", "api") === false) throw mayNotVerify();
  const now = engine.clock();
  const verification: Verification = {
    engine,
    request,
    query,
    caller,
    clientAddress,
    now,
    queried: false,
    limits: undefined,
    taken: undefined,
    restarts: 0,
  };
  const found = engine.findKey(request, caller, now);
  return found instanceof Promise ? found.then((key) => judgeKey(verification, key)) : judgeKey(verification, found);
}

/** The key's refill follows another calendar than the one it was found with: all checks run again on the key as it is now. */
async function startAgain(verification: Verification): Promise<Answer> {
  const { engine, request, caller } = verification;
  if (++verification.restarts > MAX_RESTARTS)
    throw new VerifierError("STORE_BUSY", "the refill of this key kept changing while it was verified; try again");
  verification.queried = false;
  verification.limits = undefined;
  return judgeKey(verification, await engine.findKeyAgain(request, caller));
}

function judgeKey(verification: Verification, key: PreparedKey | undefined): MaybePromise<Answer> {
  const { engine, request, query, clientAddress, now } = verification;
  if (key === undefined) return notFound(verification);
  if (!key.enabled) return refuse(verification, key, "DISABLED");
  if (key.expires !== undefined && now > key.expires) return refuse(verification, key, "EXPIRED");
  if (key.suspended || !key.allows(clientAddress)) return refuse(verification, key, "FORBIDDEN");
  verification.queried = query !== undefined;
  if (query !== undefined && !key.holdings.satisfy(query)) return refuse(verification, key, "INSUFFICIENT_PERMISSIONS");
  if (verification.taken !== undefined) return judgeUse(verification, key, verification.taken ?? undefined);
  const taking = takeLimits(engine.limiter, key, request.ratelimits, now);
  return taking instanceof Promise ? taking.then((limits) => judgeUse(verification, key, limits)) : judgeUse(verification, key, taking);
}

function judgeUse(verification: Verification, key: PreparedKey, limits: LimitsTaken | undefined): MaybePromise<Answer> {
  verification.limits = limits;
  verification.taken = limits ?? null;
  if (limits?.exceeded === true) return refuse(verification, key, "RATE_LIMITED");
  if (!key.limited) return conclude(verification, key, "VALID", undefined);
  const spending = verification.engine.spender.spend(key, verification.request.cost, verification.now);
  return spending instanceof Promise
    ? spending.then((spend) => afterSpend(verification, key, spend))
    : afterSpend(verification, key, spending);
}

function afterSpend(verification: Verification, key: PreparedKey, spend: Spend | undefined): MaybePromise<Answer> {
  if (spend === undefined) return notFound(verification);
  if (spend.stale === true) return startAgain(verification);
  return conclude(verification, key, spend.ok ? "VALID" : "USAGE_EXCEEDED", spend.remaining ?? undefined, spend.forfeited);
}

const mayNotVerify = () => new VerifierError("CALLER_FORBIDDEN", "the credential has no permission to verify keys");

/** An early refusal takes nothing and shows the balance as it stands (rulings A2, A6). */
async function refuse(verification: Verification, key: PreparedKey, code: VerificationCode): Promise<Answer> {
  if (!key.limited) return conclude(verification, key, code, undefined);
  const balance = await verification.engine.spender.spend(key, 0, verification.now);
  if (balance === undefined) return notFound(verification);
  if (balance.stale === true) return startAgain(verification);
  return conclude(verification, key, code, balance.remaining ?? undefined);
}

function notFound({ engine, request: { tags, key }, now }: Verification): Answer {
  return answerNotFound(engine.onOutcome, now, redact(tags, key));
}

function conclude(
  verification: Verification,
  key: PreparedKey,
  code: VerificationCode,
  credits: number | undefined,
  forfeitedRefills?: number,
): Answer {
  const { engine, request, now, queried, limits } = verification;
  const answer = answerFor(key, code, { queried, credits, ratelimits: limits?.results });
  const { onOutcome } = engine;
  if (onOutcome !== undefined) {
    const { tags, cost } = request;
    const degraded = limits?.degraded === true;
    onOutcome(eventFor(key, code, { time: now, tags: redact(tags, request.key), cost, degraded, forfeitedRefills }));
  }
  return answer;
}
