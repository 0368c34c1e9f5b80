/** The ordered checks, top to bottom. Spec §2.2, §3, ruling A1. The one room with the branching; what each check means is said elsewhere. */
import { answerFor, answerNotFound, eventFor } from "./answer.js";
import { strictCaller } from "./callers/strict-caller.js";
import type { Caller } from "./caller.js";
import { VerifierError } from "./errors.js";
import { redact } from "./outcomes.js";
import type { Query } from "./permissions.js";
import type { PreparedKey } from "./prepared-key.js";
import { judgeValues, readValues, type RequestValues, type VerificationRequest } from "./request.js";
import type { Spend } from "./store.js";
import { type LimitsTaken, takeLimits } from "./take-limits.js";
import type { MaybePromise, V2KeysVerifyKeyResponseData, VerificationCode } from "./types.js";
import { answerUsual, isUsual, type Means } from "./usual-call.js";

/** What the caller knows of a request besides its body. */
export interface VerifyContext {
  /** The client's address, IPv4 or IPv6; a key or API with an allow-list is FORBIDDEN without it (ruling A4). */
  readonly clientAddress?: string | undefined;
  /** Who asks, if the program serves others: spec §4.1-3 and §4.1-4 apply. Absent: the program, which may do all (ruling F1). */
  readonly caller?: Caller;
}

/** What a verification consults; wired by `createVerifier`. */
export interface Engine extends Means {
  readonly clock: () => number;
  /** The key that was presented, if it may be seen here (rulings E4, F1). */
  readonly findKey: (request: VerificationRequest, caller: Caller | undefined, now: number) => MaybePromise<PreparedKey | undefined>;
}

/** A {@link VerifyContext}, each property read once (ruling G7). */
interface Context {
  readonly caller: Caller | undefined;
  readonly clientAddress: string | undefined;
}

/** What the cache had, and when. */
interface Look {
  readonly now: number;
  readonly key: PreparedKey | undefined;
}

/** A verification on its way to an answer: what was found out so far. */
interface Verification {
  readonly engine: Engine;
  readonly request: VerificationRequest;
  readonly query: Query | undefined;
  readonly clientAddress: string | undefined;
  readonly now: number;
  queried: boolean;
  limits: LimitsTaken | undefined;
}

type Answer = V2KeysVerifyKeyResponseData;

/**
 * Judges one request. The first check that fails gives the code; later ones do not run (ruling A1).
 * @throws (rejects) VerifierError 400 for a request or query that is not well formed, and for a limit that does not exist (ruling C5);
 *   403 for a caller without any right to verify (spec §4.1-4)
 * @see spec §4.1-1, §4.1-2, ruling A2 for what each outcome consumes · waits only for what is not in memory
 */
export function verifyKey(engine: Engine, body: unknown, context: VerifyContext | undefined): Promise<Answer> {
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

/** Own properties only: a polluted prototype must not say who asks, and from where. */
function readContext(context: VerifyContext): Context {
  return {
    caller: Object.hasOwn(context, "caller") ? context.caller : undefined,
    clientAddress: Object.hasOwn(context, "clientAddress") ? context.clientAddress : undefined,
  };
}

const NO_CONTEXT: Context = Object.freeze({ caller: undefined, clientAddress: undefined });

function judge(engine: Engine, body: unknown, given: VerifyContext | undefined): MaybePromise<Answer> {
  const context = given === undefined ? NO_CONTEXT : readContext(given);
  const values = readValues(body);
  if (context.caller !== undefined || !isUsual(engine, values)) return judgeRequest(engine, values, context);
  const now = engine.clock();
  const key = engine.rememberedKey(values.key, now);
  if (key instanceof Promise) return key.then((late) => judgeRequest(engine, values, context, { now, key: late }));
  const usual = key === undefined ? undefined : answerUsual(engine, values, key, now);
  return usual ?? judgeRequest(engine, values, context, { now, key });
}

function judgeRequest(
  engine: Engine,
  values: RequestValues,
  { caller: given, clientAddress }: Context,
  looked?: Look,
): MaybePromise<Answer> {
  const request = judgeValues(values);
  const query = request.permissions === undefined ? undefined : engine.compileQuery(request.permissions);
  const caller = given === undefined ? undefined : strictCaller(given, "context.caller");
  if (caller?.mayAny("verify_key", "api") === false) throw mayNotVerify();
  const now = looked?.now ?? engine.clock();
  const verification: Verification = { engine, request, query, clientAddress, now, queried: false, limits: undefined };
  const found = looked?.key ?? engine.findKey(request, caller, now);
  return found instanceof Promise ? found.then((key) => judgeKey(verification, key)) : judgeKey(verification, found);
}

function judgeKey(verification: Verification, key: PreparedKey | undefined): MaybePromise<Answer> {
  const { engine, request, query, clientAddress, now } = verification;
  if (key === undefined) return notFound(verification);
  if (!key.enabled) return refuse(verification, key, "DISABLED");
  if (key.expires !== undefined && now > key.expires) return refuse(verification, key, "EXPIRED");
  if (key.suspended || !key.allows(clientAddress)) return refuse(verification, key, "FORBIDDEN");
  verification.queried = query !== undefined;
  if (query !== undefined && !key.holdings.satisfy(query)) return refuse(verification, key, "INSUFFICIENT_PERMISSIONS");
  const taking = takeLimits(engine.limiter, key, request.ratelimits, now);
  return taking instanceof Promise ? taking.then((limits) => judgeUse(verification, key, limits)) : judgeUse(verification, key, taking);
}

function judgeUse(verification: Verification, key: PreparedKey, limits: LimitsTaken | undefined): MaybePromise<Answer> {
  verification.limits = limits;
  if (limits?.exceeded === true) return refuse(verification, key, "RATE_LIMITED");
  if (!key.limited) return conclude(verification, key, "VALID", undefined);
  const spending = verification.engine.spender.spend(key, verification.request.cost, verification.now);
  return spending instanceof Promise
    ? spending.then((spend) => afterSpend(verification, key, spend))
    : afterSpend(verification, key, spending);
}

function afterSpend(verification: Verification, key: PreparedKey, spend: Spend | undefined): Answer {
  if (spend === undefined) return notFound(verification);
  return conclude(verification, key, spend.ok ? "VALID" : "USAGE_EXCEEDED", spend.remaining ?? undefined);
}

const mayNotVerify = () => new VerifierError("CALLER_FORBIDDEN", "the credential has no permission to verify keys");

/** An early refusal takes nothing and shows the balance as it stands (rulings A2, A6). */
async function refuse(verification: Verification, key: PreparedKey, code: VerificationCode): Promise<Answer> {
  if (!key.limited) return conclude(verification, key, code, undefined);
  const balance = await verification.engine.spender.spend(key, 0, verification.now);
  if (balance === undefined) return notFound(verification);
  return conclude(verification, key, code, balance.remaining ?? undefined);
}

function notFound({ engine, request: { tags, key }, now }: Verification): Answer {
  return answerNotFound(engine.onOutcome, now, redact(tags, key));
}

function conclude(verification: Verification, key: PreparedKey, code: VerificationCode, credits: number | undefined): Answer {
  const { engine, request, now, queried, limits } = verification;
  const { tags, cost } = request;
  const answer = answerFor(key, code, { queried, credits, ratelimits: limits?.results });
  engine.onOutcome?.(eventFor(key, code, { time: now, tags: redact(tags, request.key), cost, degraded: limits?.degraded === true }));
  return answer;
}
