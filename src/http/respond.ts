/**
 * Handles one request, in this order: route (404, 405), caller (401), request limit of the workspace (429), body (415,
 * 413, 400), operation (spec §4, §5, §7).
 */
import type { AuthenticatedCaller, Authenticator } from "../access/authenticate.js";
import { strictCaller } from "../access/check-caller.js";
import type { Caller } from "../contracts/caller.js";
import type { MaybePromise } from "../contracts/types.js";
import type { Turns } from "../keyring/context.js";
import { newId } from "../lib/hash.js";
import type { Trace } from "./access-log.js";
import { checkContentType, readJson, readLongJson } from "./body.js";
import { toFailure, toPage, toSentError, toSuccess } from "./envelope.js";
import type { Incoming, Outgoing } from "./messages.js";
import { SMALL_BODY_BYTES } from "./operations/largest-body.js";
import type { Operation, Services } from "./operations/operation.js";
import { type BodyBound, IMPORT } from "./options.js";
import { limitHeaders, tooMany } from "./ratelimit-headers.js";
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
  readonly turns: Turns;
  /** The URL, or the path on this server, below which the pages of error types are. */
  readonly docsBase: string;
  /** Called for every request after it was handled. */
  readonly observe: (trace: Trace) => void;
  readonly onFault: (error: unknown, requestId: string) => void;
}

const UNKNOWN = "unknown";

/** Handles a request; never rejects. */
export async function respond(context: ServiceContext, incoming: Incoming): Promise<Outgoing> {
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
    headers: NONE,
  };
  let outgoing: Outgoing;
  try {
    outgoing = await answer(context, incoming, trace);
  } catch (thrown) {
    outgoing = refuse(context, trace, thrown);
  }
  trace.status = outgoing.status;
  context.observe(trace);
  return outgoing;
}

const NONE: readonly string[] = Object.freeze([]);

async function answer(context: ServiceContext, incoming: Incoming, trace: Trace): Promise<Outgoing> {
  if (incoming.fault !== undefined) throw incoming.fault;
  const route = context.routes.get(incoming.path);
  if (route === undefined) throw noSuchPath();
  trace.operation = "operation" in route ? route.operation.name : route.page.name;
  const methods = methodsOf(route);
  if (!methods.includes(incoming.method)) {
    trace.headers = ["allow", methods.join(", ")];
    throw wrongMethod(methods);
  }
  return "operation" in route
    ? perform(context, incoming, trace, route.operation)
    : route.page.read(incoming, trace.requestId);
}

async function perform(
  context: ServiceContext,
  incoming: Incoming,
  trace: Trace,
  operation: Operation,
): Promise<Outgoing> {
  const maxBytes = context.bodyBound(operation);
  // Taken before authentication, parsed after it: caller and key are then looked up in one turn of the event loop, so
  // the store polls for changes once. A body that is still arriving is awaited only once the caller is authenticated.
  const buffered = incoming.bodyIfBuffered === undefined ? undefined : await incoming.bodyIfBuffered(maxBytes);
  let admitted = await admit(context, incoming, trace);
  const { caller } = admitted;
  if (context.limitRequests !== undefined) {
    const verdict = await context.limitRequests(caller.workspaceId);
    trace.headers = limitHeaders(verdict);
    if (verdict.exceeded) throw tooMany();
  }
  checkContentType(incoming.header);
  // A caller who is refused whatever it sends gets no more parsed than that costs little.
  const bound = operation.mayAny(caller) ? maxBytes : Math.min(maxBytes, SMALL_BODY_BYTES);
  const bytes = buffered ?? (await incoming.readBody(bound));
  const isImport = operation.name === IMPORT;
  const isLong = isImport || bytes.length > SMALL_BODY_BYTES;
  const body = isLong ? await readLongJson(bytes, isImport, context.turns.next) : readJson(bytes);
  // A body may take long to arrive and to be parsed: what was withdrawn from the caller meanwhile must not act.
  if (buffered === undefined || isLong) admitted = await admit(context, incoming, trace, admitted.authenticated);
  const { clientAddress, header } = incoming;
  const asked = { caller: admitted.caller, body, header };
  const data = await operation.perform(
    admitted.services,
    clientAddress === undefined ? asked : { ...asked, clientAddress },
  );
  note(trace, data);
  const { requestId, headers } = trace;
  return operation.isList
    ? toPage(requestId, data as Parameters<typeof toPage>[1], headers, context.turns)
    : toSuccess(requestId, data, headers);
}

interface Admitted {
  readonly authenticated: AuthenticatedCaller;
  readonly caller: Caller;
  readonly services: Services;
}

/**
 * Who asks, as of now, and what serves its workspace.
 * @param earlier who asked when the request began
 * @throws KeystileError 401
 */
async function admit(
  { authenticator, servicesOf }: ServiceContext,
  { authorization }: Incoming,
  trace: Trace,
  earlier?: AuthenticatedCaller,
): Promise<Admitted> {
  const authenticated = await authenticator.authenticate(authorization, earlier);
  const caller = strictCaller(authenticated, "what authenticate() returns");
  trace.workspaceId = caller.workspaceId;
  if (caller.kind === "rootKey") trace.rootKeyId = caller.id;
  const services = servicesOf(caller.workspaceId);
  return { authenticated, caller, services: services instanceof Promise ? await services : services };
}

/** Records the outcome of a verification and the key id, for log and metrics. */
function note(trace: Trace, data: unknown): void {
  const { code, keyId } = (data ?? {}) as { readonly code?: unknown; readonly keyId?: unknown };
  if (typeof code === "string") trace.code = code;
  if (typeof keyId === "string") trace.keyId = keyId;
}

function refuse(context: ServiceContext, trace: Trace, thrown: unknown): Outgoing {
  const error = toSentError(thrown);
  // Anybody may ask for readiness; what was found is passed on where it was found, once.
  if (error.status >= 500 && error.code !== "NOT_READY") context.onFault(thrown, trace.requestId);
  trace.code = error.code;
  return toFailure(trace.requestId, error, context.docsBase, trace.headers);
}
