/**
 * Handles one request, in this order: route (404, 405), caller (401), request limit of the workspace (429), any grant
 * of the action (403), headers (400), body (415, 413, 400), operation (contract 4, 5, 7). It waits for space wherever
 * it holds more (503).
 */
import type { Authenticator } from "../access/authenticate.js";
import { strictCaller } from "../access/check-caller.js";
import type { Caller } from "../contracts/caller.js";
import { isKeystileError, type KeystileErrorCode, KeystileError } from "../contracts/errors.js";
import type { MaybePromise } from "../contracts/types.js";
import { forbidden } from "../keyring/rows.js";
import { newId } from "../lib/hash.js";
import { secondsIn } from "../lib/seconds.js";
import type { Trace } from "./access-log.js";
import type { Hold } from "./admission/admission.js";
import { checkContentType, isShortJson, readLongJson, readShortJson } from "./body.js";
import { toFailure, toPage, toSentError, toSuccess } from "./envelope.js";
import { requireTaken } from "./idempotency-key.js";
import type { Incoming, Outgoing } from "./messages.js";
import type { Operation, Services } from "./operations/operation.js";
import type { BodyBound } from "./options.js";
import { methodsOf, noSuchPath, type Route, wrongMethod } from "./routes.js";
import type { RequestVerdict } from "./workspace-limit.js";

/** What handling a request needs; wired by `createService`. */
export interface ServiceContext {
  readonly routes: ReadonlyMap<string, Route>;
  readonly authenticator: Authenticator;
  /** The services of a workspace. @throws KeystileError AUTH_KEY_NOT_FOUND: this workspace is not served */
  readonly servicesOf: (workspaceId: string) => MaybePromise<Services>;
  /** Counts one request of a workspace; absent: there is no limit. */
  readonly limitRequests: ((workspaceId: string) => MaybePromise<RequestVerdict>) | undefined;
  readonly bodyBound: BodyBound;
  /** The URL, or the path on this server, below which the pages of error types are. */
  readonly docsBase: string;
  /** Called for every request after it was handled. */
  readonly observe: (trace: Trace) => void;
  readonly onFault: (error: unknown, requestId: string) => void;
}

const UNKNOWN = "unknown";

/**
 * Handles a request; never rejects.
 * @param hold of this request: in the end it has its answer, until the host releases it
 */
export async function respond(context: ServiceContext, incoming: Incoming, hold: Hold): Promise<Outgoing> {
  const trace: Trace = {
    requestId: newId("req"),
    began: performance.now(),
    method: incoming.method,
    operation: UNKNOWN,
    status: 200,
    code: "",
    workspaceId: undefined,
    rootKeyId: undefined,
    keyId: undefined,
    warning: undefined,
    headers: NONE,
  };
  let outgoing: Outgoing;
  try {
    await hold.turn(false);
    await hold.growBody(incoming.bytesAhead?.() ?? 0);
    outgoing = await answer(context, incoming, trace, hold);
  } catch (thrown) {
    outgoing = refuse(context, trace, thrown);
  }
  trace.status = outgoing.status;
  // Once as text, and once as bytes that wait for the client.
  hold.answered(2 * outgoing.text.length);
  context.observe(trace);
  return outgoing;
}

const NONE: readonly string[] = Object.freeze([]);

async function answer(context: ServiceContext, incoming: Incoming, trace: Trace, hold: Hold): Promise<Outgoing> {
  if (incoming.fault !== undefined) throw incoming.fault;
  const route = context.routes.get(incoming.path);
  if (route === undefined || (incoming.path === "/" && !isVisit(incoming))) throw noSuchPath();
  const isProbe = "page" in route && route.page.isProbe;
  trace.operation = "operation" in route ? route.operation.name : route.page.name;
  const methods = methodsOf(route);
  if (!methods.includes(incoming.method)) {
    trace.headers = ["allow", methods.join(", ")];
    throw wrongMethod(methods);
  }
  if ("page" in route && !isProbe) {
    // To write a hundred kilobytes takes as long as a dozen verifications.
    await hold.turn(true);
    await hold.withinShare();
  }
  return "operation" in route
    ? perform(context, incoming, trace, route.operation, hold)
    : route.page.read(incoming, trace.requestId);
}

/** At the root there is a page for people, and nothing for programs. */
const isVisit = ({ method, header }: Incoming): boolean =>
  (method === "GET" || method === "HEAD") && header("accept")?.includes("text/html") === true;

async function perform(
  context: ServiceContext,
  incoming: Incoming,
  trace: Trace,
  operation: Operation,
  hold: Hold,
): Promise<Outgoing> {
  let admitted = await admit(context, incoming, trace, hold);
  const { caller } = admitted;
  hold.belongsTo(caller.workspaceId);
  if (context.limitRequests !== undefined) {
    const verdict = await context.limitRequests(caller.workspaceId);
    trace.headers = limitHeaders(verdict);
    if (verdict.exceeded) throw tooMany();
  }
  if (!operation.mayAny(caller)) throw forbidden(operation.permissions);
  requireTaken(operation.headers, incoming.header("idempotency-key"));
  checkContentType(incoming.header);
  // Read before the turn if it is short: caller and key are then looked up together, so the store polls for changes
  // once.
  const buffered = incoming.bodyIfBuffered?.();
  const bytes = buffered ?? (await incoming.readBody(context.bodyBound(operation), hold));
  const isShort = isShortJson(bytes);
  if (buffered === undefined && isShort) await hold.turn(false);
  const body = isShort ? readShortJson(bytes) : await hold.parse(() => readLongJson(bytes, operation.bodyShape, hold));
  const seconds = secondsIn(body);
  trace.warning = seconds && `${seconds.name} ${seconds.message}`;
  // A body may take long to arrive and to be parsed: what was withdrawn from the caller meanwhile must not act.
  if (buffered === undefined) admitted = await admit(context, incoming, trace, hold);
  const { clientAddress, header } = incoming;
  const asked = { caller: admitted.caller, body, header, isGone: () => incoming.isGone?.() === true };
  const call = clientAddress === undefined ? asked : { ...asked, clientAddress };
  const { requestId, headers } = trace;
  if (operation.isLong)
    return hold.makePage(async () => {
      const answered = await operation.perform(admitted.services, call);
      const page = operation.isList ? answered : { data: answered };
      return toPage(requestId, page as Parameters<typeof toPage>[1], headers, hold);
    });
  await hold.withinShare();
  const data = await operation.perform(admitted.services, call);
  note(trace, data);
  return toSuccess(requestId, data, headers);
}

/** Who asks, as of now, and what serves its workspace. @throws KeystileError 401 */
async function admit(
  { authenticator, servicesOf }: ServiceContext,
  { authorization }: Incoming,
  trace: Trace,
  hold: Hold,
) {
  let identified: Caller;
  try {
    identified = await authenticator.authenticate(authorization);
  } catch (error) {
    if (isKeystileError(error) && error.status === 401) hold.refused();
    throw error;
  }
  const caller = strictCaller(identified, "what authenticate() returns");
  trace.workspaceId = caller.workspaceId;
  if (caller.kind === "rootKey") trace.rootKeyId = caller.id;
  const services = servicesOf(caller.workspaceId);
  return { caller, services: services instanceof Promise ? await services : services };
}

/** Records the outcome of a verification and the key id, for log and metrics. */
function note(trace: Trace, data: unknown): void {
  const { code, keyId } = (data ?? {}) as { readonly code?: unknown; readonly keyId?: unknown };
  if (typeof code === "string") trace.code = code;
  if (typeof keyId === "string") trace.keyId = keyId;
}

/**
 * Server errors that are no faults. Anybody may ask for readiness, and what was found is passed on where it was found,
 * once; too many requests are counted by their status.
 */
const EXPECTED: ReadonlySet<string> = new Set<KeystileErrorCode>(["NOT_READY", "OVERLOADED"]);

function refuse(context: ServiceContext, trace: Trace, thrown: unknown): Outgoing {
  const error = toSentError(thrown);
  if (error.status >= 500 && !EXPECTED.has(error.code)) context.onFault(thrown, trace.requestId);
  trace.code = error.code;
  return toFailure(trace.requestId, error, context.docsBase, trace.headers);
}

/* Headers and error of the workspace request limit (contract 4.1-6, 7). */

/** `ratelimit-*`, and `retry-after` if exceeded: alternating names and values, times in whole seconds. */
function limitHeaders({ exceeded, limit, remaining, reset, retryAfter }: RequestVerdict): readonly string[] {
  const headers = ["ratelimit-limit", `${limit}`, "ratelimit-remaining", `${remaining}`];
  headers.push("ratelimit-reset", `${toSeconds(reset)}`);
  if (exceeded) headers.push("retry-after", `${Math.max(1, toSeconds(retryAfter))}`);
  return headers;
}

/** The 429. */
const tooMany = (): KeystileError =>
  new KeystileError(
    "TOO_MANY_REQUESTS",
    "the workspace has made its calls for now; wait for the seconds that Retry-After says",
  );

const toSeconds = (ms: number): number => Math.ceil(ms / 1_000);
