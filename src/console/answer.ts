/**
 * Handles one request, in this order: host (400), path (404), files, who asks (sign in, 403), permission (403), and of
 * a form: where it comes from (403), its body (413, 415), its proof (403), and whether it was sent before (409).
 */
import { strictCaller } from "../access/check-caller.js";
import type { Caller } from "../contracts/caller.js";
import { isKeystileError, KeystileError } from "../contracts/errors.js";
import type { MaybePromise } from "../contracts/types.js";
import { toSentError } from "../http/envelope.js";
import type { Hold } from "../http/admission/admission.js";
import type { Incoming, Outgoing } from "../http/messages.js";
import type { Services } from "../http/operations/operation.js";
import { digestKey, newId } from "../lib/hash.js";
import { askAs, dryServices, lacksPower, mayAsk, refusal } from "./ask.js";
import type { ConsoleAnalytics } from "./options.js";
import { belowBase, createPageResponses } from "../view/outgoing.js";
import { cookieHeader, requireHost, sessionsOf } from "./origin.js";
import { findPage } from "./pages/find-page.js";
import { readForm, type SentForms } from "../view/reading.js";
import type { Sessions } from "./sessions.js";
import type { SignIn } from "./sign-in.js";
import { form as formOf, ONCE, TOKEN } from "../view/form.js";
import { html, type Html } from "../view/html.js";
import { toKept } from "./kept.js";
import { FILES, outside, page, signInForm, type SignInParts } from "./view/layout.js";
import { sendsForm } from "../view/pages.js";
import { facts, muted, section } from "../view/parts.js";
import type { Content, Health, Page, View } from "./view/view.js";

/** What handling a request needs; wired by `createConsole`. */
export interface ConsoleContext {
  readonly basePath: string;
  readonly hosts: readonly string[] | undefined;
  readonly isReadOnly: boolean;
  /** The program's own sign-in; absent: that of the console. */
  readonly authenticate: ((request: Request) => MaybePromise<Caller | undefined>) | undefined;
  readonly sessions: Sessions;
  readonly signIn: (rootKey: string, address: string | undefined) => Promise<SignIn>;
  readonly sent: SentForms;
  /** Of this console, for proofs of forms without a session. */
  readonly secret: string;
  readonly servicesOf: (workspaceId: string) => MaybePromise<Services>;
  /** Whether it has the limiter, or the verifier, that counts. */
  readonly seesLimits: boolean;
  /** Reads the counts of a workspace; undefined: the store keeps none. */
  readonly analyticsOf: (workspaceId: string) => ConsoleAnalytics | undefined;
  readonly health: () => Promise<Health>;
  readonly clock: () => number;
  readonly onFault: (error: unknown, requestId: string) => void;
}

const { page: toOutgoing, redirect, file, download } = createPageResponses();
const WRONG = "This root key does not sign in. It may be mistyped, disabled, expired or no root key.";
const ENDED = "Your session has ended. What you typed is kept: sign in, look at it, and send it again.";
const FLOOD = "Too many attempts. Wait a minute and try again.";

/** Handles a request. @param hold of this request @throws (rejects) what {@link refuse} answers */
export async function route(context: ConsoleContext, incoming: Incoming, hold: Hold): Promise<Outgoing> {
  requireHost(incoming, context.hosts);
  const here = belowBase(incoming.path, context.basePath);
  if (Object.hasOwn(FILES, here)) return file(FILES[here as keyof typeof FILES]);
  const isForm = sendsForm(incoming, "the console");
  if (here === "/sign-in" && context.authenticate === undefined)
    return isForm
      ? signIn(context, incoming, hold)
      : toSignIn(context, 200, new URLSearchParams(incoming.query).get("to"));
  const seen = await whoAsks(context, incoming);
  if (seen === undefined) return turnAway(context, here, isForm ? await readForm(incoming, hold) : undefined);
  hold.belongsTo(seen.caller.workspaceId);
  const view = await toView(context, seen, here, incoming);
  let form: URLSearchParams | undefined;
  try {
    form = isForm ? await readForm(incoming, hold) : undefined;
    await hold.withinShare();
    return form === undefined ? await show(view, 200) : await send(context, view, form, incoming);
  } catch (thrown) {
    return failed(context, view, form, thrown);
  }
}

interface Seen {
  readonly caller: Caller;
  /** Its session in the console, if it has one. */
  readonly session: string | undefined;
}

async function whoAsks({ authenticate, sessions }: ConsoleContext, incoming: Incoming): Promise<Seen | undefined> {
  if (authenticate !== undefined) {
    const caller = await authenticate(incoming.toRequest());
    return caller && { caller: strictCaller(caller, "what authenticate() returns"), session: undefined };
  }
  for (const session of sessionsOf(incoming)) {
    const active = await sessions.find(session);
    if (active !== undefined) return { caller: strictCaller(active.caller, "caller"), session };
  }
  return undefined;
}

async function toView(
  context: ConsoleContext,
  { caller, session }: Seen,
  here: string,
  incoming: Incoming,
): Promise<View> {
  const { basePath, isReadOnly, servicesOf, seesLimits, analyticsOf, health } = context;
  // The operations of a form run to their end, even if the browser has gone.
  const isGone = incoming.method === "POST" ? undefined : () => incoming.isGone?.() === true;
  const ask = askAs(caller, servicesOf, { isReadOnly, isGone });
  const preview = askAs(caller, async (id) => dryServices(await servicesOf(id)), { isReadOnly, isGone });
  const { kind, id = kind, name = id } = await ask("callers.whoami", {});
  // A caller without a session has a proof of its own, which nobody can compute without the secret of this console.
  const who = session ?? JSON.stringify([context.secret, caller.workspaceId, caller.kind, caller.id]);
  return {
    now: context.clock(),
    path: (to) => basePath + to,
    here,
    query: new URLSearchParams(incoming.query),
    form: new URLSearchParams(),
    failure: undefined,
    signedIn: { name, id, hasSession: session !== undefined },
    isReadOnly,
    token: await digestKey(`console form ${who}`),
    ask,
    preview,
    may: (operation) => mayAsk(caller, operation, isReadOnly),
    seesLimits,
    analyticsOf(id) {
      const of = { type: "api", ...(id !== undefined && { id }) } as const;
      return caller.may("read_analytics", of) ? analyticsOf(caller.workspaceId) : undefined;
    },
    health,
  };
}

/** The page of a path. @throws KeystileError NOT_FOUND · CALLER_FORBIDDEN */
function pageFor({ here, may, isReadOnly }: View): { readonly page: Page; readonly id: string } {
  const found = findPage(here);
  if (found === undefined) throw new KeystileError("NOT_FOUND", "there is no such page");
  const { needs } = found.page;
  if (needs !== undefined && !may(needs)) throw refusal(needs, isReadOnly);
  return found;
}

async function show(view: View, status: number): Promise<Outgoing> {
  const { page: found, id } = pageFor(view);
  const shown = await found.show(view, id);
  return "file" in shown ? download(shown.type, shown.file, shown.text) : toPage(view, shown, status);
}

/** What a form does: a redirect, so that loading the page again sends nothing, or what is shown this once. */
async function send(
  context: ConsoleContext,
  given: View,
  form: URLSearchParams,
  incoming: Incoming,
): Promise<Outgoing> {
  if (form.get(TOKEN) !== given.token)
    throw new KeystileError("CALLER_FORBIDDEN", "this form is not of your session; load the page again");
  if (given.here === "/sign-out") return signOut(context, incoming);
  const view: View = { ...given, form };
  const { page: found, id } = pageFor(view);
  const { act } = found;
  if (view.isReadOnly && found.isRead !== true)
    throw new KeystileError("CALLER_FORBIDDEN", "this console only reads: nothing can be changed in it");
  if (act === undefined) throw new KeystileError("METHOD_NOT_ALLOWED", "this page has no form");
  try {
    const run = () => act(view, id);
    const answer = found.isRead === true ? run() : context.sent.once({ ...view, owner: view.signedIn.id }, run);
    if (answer === undefined)
      throw new KeystileError("CONFLICT", "this form was sent before; go back and look at the result");
    const done = await answer;
    if (!("to" in done)) return toPage({ ...view, form: new URLSearchParams() }, done, 200);
    return redirect(view.path(done.to) + (done.notice === undefined ? "" : `?notice=${done.notice}`));
  } catch (error) {
    if (!isKeystileError(error) || error.status >= 500) throw error;
    return show({ ...view, failure: error }, error.status);
  }
}

async function signIn(context: ConsoleContext, incoming: Incoming, hold: Hold): Promise<Outgoing> {
  const form = await readForm(incoming, hold);
  const result = await context.signIn(form.get("key") ?? "", incoming.clientAddress);
  const [to, kept] = [form.get("to"), form.get("kept") ?? undefined];
  if ("refused" in result) {
    const isFlood = result.refused === "flood";
    return toSignIn(context, isFlood ? 429 : 403, to, { failure: isFlood ? FLOOD : WRONG, kept });
  }
  for (const before of sessionsOf(incoming)) await context.sessions.end(before);
  const cookie = cookieHeader(incoming, context.basePath, result.session);
  if (kept === undefined) return redirect(context.basePath + pathWithin(to), cookie);
  const resumed = await resume(context, result.session, pathWithin(to), kept, incoming);
  return { ...resumed, headers: [...resumed.headers, ...cookie] };
}

/** The form of a session that had ended, as it was filled in; nothing is done until it is sent again. */
async function resume(
  context: ConsoleContext,
  session: string,
  here: string,
  kept: string,
  incoming: Incoming,
): Promise<Outgoing> {
  const active = await context.sessions.find(session);
  if (active === undefined) return redirect(`${context.basePath}/sign-in`);
  const caller = strictCaller(active.caller, "caller");
  const view = await toView(context, { caller, session }, here, incoming);
  const form = new URLSearchParams(kept);
  form.set(TOKEN, view.token);
  try {
    return await show({ ...view, query: new URLSearchParams({ notice: "kept" }), form }, 200);
  } catch (thrown) {
    return failed(context, view, undefined, thrown);
  }
}

async function signOut(context: ConsoleContext, incoming: Incoming): Promise<Outgoing> {
  for (const session of sessionsOf(incoming)) await context.sessions.end(session);
  return redirect(`${context.basePath}/sign-in`, cookieHeader(incoming, context.basePath, undefined));
}

/** A path of the console, as a header may have it; anything else is its first page. */
function pathWithin(to: string | null): string {
  const base = "http://console";
  const path = to?.startsWith("/") && URL.canParse(to, base) ? new URL(to, base).pathname : "/";
  return findPage(path) === undefined ? "/" : path;
}

function toSignIn({ basePath }: ConsoleContext, status: number, to: string | null, more: SignInParts = {}): Outgoing {
  const path = (below: string): string => basePath + below;
  return toOutgoing(status, outside(path, "Sign in", signInForm(path, pathWithin(to), more)));
}

/** @param form what was sent; absent: a page is asked for */
function turnAway(context: ConsoleContext, here: string, form: URLSearchParams | undefined): Outgoing {
  if (context.authenticate !== undefined)
    throw new KeystileError("CALLER_FORBIDDEN", "you are not signed in, or may not look");
  const page = findPage(here)?.page;
  const isChange = form !== undefined && page?.act !== undefined && page.isRead !== true;
  const kept = isChange ? toKept(form) : undefined;
  if (kept !== undefined) return toSignIn(context, 403, here, { failure: ENDED, kept });
  const to = here === "/" || (form !== undefined && !isChange) ? "" : `?to=${encodeURIComponent(here)}`;
  return redirect(`${context.basePath}/sign-in${to}`);
}

/** A page that could not be shown, within the frame; a form is given back as it was filled in. */
async function failed(
  context: ConsoleContext,
  view: View,
  form: URLSearchParams | undefined,
  thrown: unknown,
): Promise<Outgoing> {
  const error = lacksPower(thrown) ? thrown : toSentError(thrown);
  const { title, detail, status } = error;
  const isFault = status >= 500 && !lacksPower(thrown);
  const requestId = newId("req");
  if (isFault) context.onFault(thrown, requestId);
  const body = html`<p class="ks-empty">${detail}</p>`;
  const about = muted(`Status ${status}${isFault ? `, request ${requestId}` : ""}`);
  if (form === undefined || !isFault || findPage(view.here)?.page.isRead === true)
    return toPage(view, { title, about, body }, status);
  const failure = { status, errors: [], detail: `${detail} (request ${requestId})` };
  try {
    return await show({ ...view, form, failure }, status);
  } catch {
    // The page cannot be read either: the fields alone, under the id that they were sent with.
    return toPage(view, { title, about, body: html`${body}${sendAgain(view, form)}` }, status);
  }
}

/** What was typed, to be looked at and sent again. */
function sendAgain(view: View, form: URLSearchParams): Html {
  const kept = [...new URLSearchParams(toKept(form))];
  const again = formOf({ ...view, form }, { hidden: Object.fromEntries(kept), submit: "Send again" });
  const typed = kept.filter(([name]) => name !== ONCE);
  return section("What you typed", html`${facts(typed)}<div class="ks-below">${again}</div>`);
}

/** The same for whoever is not known. */
export function refuse({ basePath, onFault }: ConsoleContext, thrown: unknown): Outgoing {
  const { title, detail, status } = toSentError(thrown);
  const requestId = newId("req");
  if (status >= 500) onFault(thrown, requestId);
  const body = html`<p>${detail}</p>${status >= 500 && html`<p>${muted(`Request ${requestId}`)}</p>`}`;
  const path = (below: string): string => basePath + below;
  return toOutgoing(status, outside(path, title, body));
}

const toPage = (view: View, content: Content, status: number): Outgoing => toOutgoing(status, page(view, content));
