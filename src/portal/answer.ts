/**
 * Handles one request, in this order: files, method (405), of a form where it comes from (403), whose it is (401), path
 * (404), and of a form its body (413, 415), its proof (403), and whether it was sent before (409).
 */
import { isKeystileError, KeystileError } from "../contracts/errors.js";
import type { MaybePromise } from "../contracts/types.js";
import type { Hold } from "../http/admission/admission.js";
import { toSentError } from "../http/envelope.js";
import type { Incoming, Outgoing } from "../http/messages.js";
import { forOwner, type OwnerKeys } from "../keyring/owner/owner-keys.js";
import type { Keyring } from "../keyring/keyring.js";
import { newId } from "../lib/hash.js";
import { TOKEN } from "../view/form.js";
import { html } from "../view/html.js";
import { belowBase, type PageResponses } from "../view/outgoing.js";
import { sendsForm } from "../view/pages.js";
import { code } from "../view/parts.js";
import { readForm, type SentForms } from "../view/reading.js";
import type { Frame } from "./layout.js";
import { ownerOptions, type PortalOptions } from "./options.js";
import { countPages } from "./pages/counts.js";
import { keyPages } from "./pages/key.js";
import { keysPages } from "./pages/keys.js";
import type { Language, TextName } from "./texts.js";
import type { PortalPage, PortalView } from "./view.js";

/** What handling a request needs; wired by `createPortal`. */
export interface PortalContext {
  readonly options: PortalOptions;
  readonly keyring: Keyring;
  readonly basePath: string;
  readonly frame: Frame;
  readonly language: Language;
  readonly responses: PageResponses;
  readonly sent: SentForms;
  /** Makes proofs that nobody else can, the same in all processes on the store. */
  readonly sign: () => Promise<(text: string) => MaybePromise<string>>;
  /** What a proof holds for besides the owner. */
  readonly scope: readonly string[];
  readonly clock: () => number;
  readonly onFault: (error: unknown, requestId: string) => void;
}

/** All pages. */
export const PAGES: readonly PortalPage[] = [...keysPages, ...keyPages, ...countPages];

/** Handles a request. @param hold of this request @throws (rejects) what {@link refuse} answers */
export async function route(context: PortalContext, incoming: Incoming, hold: Hold): Promise<Outgoing> {
  const { frame, responses, basePath, options } = context;
  const here = belowBase(incoming.path, basePath);
  const file = Object.hasOwn(frame.files, here) ? frame.files[here] : undefined;
  if (file !== undefined) return responses.file(file);
  const isForm = sendsForm(incoming, "the portal");
  const owner = await askOwner(context, incoming);
  if (owner === undefined) return turnAway(context, isForm);
  const view = await toView(context, owner, here, incoming);
  hold.belongsTo(`owner ${view.owner}`);
  const { page, id } = pageAt(here, options);
  if (!isForm) {
    const asked = () => show(context, page, view, id, 200);
    if (page.isCounted === true) return hold.makePage(asked);
    await hold.withinShare();
    return asked();
  }
  const form = await readForm(incoming, hold);
  await hold.withinShare();
  // A form may arrive slowly: whoever was signed out meanwhile does nothing.
  if ((await askOwner(context, incoming)) !== owner) return turnAway(context, isForm);
  return send(context, page, { ...view, form }, id);
}

/** What the program returns. @throws (rejects) Error: it failed, with whatever error; nobody is let in */
async function askOwner({ options }: PortalContext, incoming: Incoming): Promise<unknown> {
  try {
    return await options.owner(incoming.toRequest());
  } catch (cause) {
    throw new Error("options.owner failed", { cause });
  }
}

/** @throws TypeError: the program returned no owner */
async function toView(context: PortalContext, owner: unknown, here: string, incoming: Incoming): Promise<PortalView> {
  const { keyring, options, basePath, language, sign, scope, clock } = context;
  const signer = await sign();
  return {
    now: clock(),
    path: (to) => basePath + to,
    here,
    query: new URLSearchParams(incoming.query),
    form: new URLSearchParams(),
    failure: undefined,
    ...{ owner: owner as string, mine: bind(keyring, owner, options), language },
    token: await signer(JSON.stringify(["portal form", ...scope, owner])),
    words: {
      ...{ cancel: language.say("cancel"), unchanged: language.say("unchanged"), unknown: language.say("unknown") },
      seeBelow: language.say("seeBelow"),
      // What is wrong has the name of a text.
      toSentence: ({ message }) => language.say(message as TextName),
    },
    permissions: options.ceiling?.permissions ?? [],
    analytics: options.analytics,
  };
}

/** @throws TypeError: what the program returned is no owner; it is not repeated */
function bind(keyring: Keyring, owner: unknown, options: PortalOptions): OwnerKeys {
  try {
    if (typeof owner === "string") return forOwner(keyring, owner, ownerOptions(options));
  } catch {
    // Said below: of the options all but the owner were checked before.
  }
  throw new TypeError("options.owner must return an owner, 1 to 255 characters, or undefined");
}

/** @throws KeystileError NOT_FOUND */
function pageAt(here: string, { analytics }: PortalOptions): { readonly page: PortalPage; readonly id: string } {
  const [, id = "", below = ""] = /^\/keys\/([a-zA-Z0-9_]{3,200})(\/[a-z]+)?$/.exec(here) ?? [];
  const path = id === "" ? here : `/keys/:id${below}`;
  const page = PAGES.find((one) => one.path === path && (one.isCounted !== true || analytics !== undefined));
  if (page === undefined) throw new KeystileError("NOT_FOUND", "there is no such page");
  return { page, id };
}

async function show(
  { responses, frame }: PortalContext,
  page: PortalPage,
  view: PortalView,
  id: string,
  status: number,
): Promise<Outgoing> {
  const shown = await page.show(view, id);
  if ("file" in shown) return responses.download(shown.type, shown.file, shown.text);
  return responses.page(status, frame.page(view, shown));
}

/** What a form does: a redirect, so that loading the page again sends nothing, or what is shown this once. */
async function send(context: PortalContext, page: PortalPage, view: PortalView, id: string): Promise<Outgoing> {
  const { responses, frame, sent, onFault } = context;
  const { act } = page;
  if (act === undefined) throw new KeystileError("METHOD_NOT_ALLOWED", "this page has no form");
  if (view.form.get(TOKEN) !== view.token) throw new KeystileError("CALLER_FORBIDDEN", "this form is of another owner");
  const answer = sent.once(view, () => act(view, id));
  if (answer === undefined) return responses.page(409, frame.said("sentBefore"));
  try {
    const done = await answer;
    if ("to" in done) return responses.redirect(`${view.path(done.to)}?notice=${done.notice}`);
    return responses.page(200, frame.page({ ...view, form: new URLSearchParams() }, done));
  } catch (error) {
    if (!isKeystileError(error) || error.status === 404) throw error;
    const { status } = error;
    if (status >= 500) onFault(error, newId("req"));
    const detail =
      error.code === "KEY_LIMIT_REACHED" ? "keyLimit" : status >= 500 ? "busy" : (page.conflict ?? "wrong");
    const errors = error.errors.map(({ location }) => ({ location, message: problemAt(location) }));
    return show(context, page, { ...view, failure: { detail, errors, status } }, id, status);
  }
}

/** What is wrong with a field. */
function problemAt(location: string): TextName {
  if (location.startsWith("body.name")) return "badName";
  return location.startsWith("body.permissions") ? "noPermission" : "badChoice";
}

function turnAway({ options: { signIn }, responses, frame, language }: PortalContext, isForm: boolean): Outgoing {
  // A policy for forms would hold for where they are redirected too, so what was a form gets a link.
  if (signIn !== undefined && !isForm) return responses.redirect(signIn);
  const link = signIn !== undefined && html`<p><a href="${signIn}">${language.say("signIn")}</a></p>`;
  return responses.page(401, frame.said("signedOut", link));
}

/** What is said of an error, by its status. */
const SAID: Readonly<Record<number, TextName>> = {
  ...{ 400: "badForm", 403: "notYourForm", 404: "notFound", 405: "notFound", 413: "badForm", 415: "badForm" },
  503: "busy",
};

/** A page for what {@link route} threw. */
export function refuse({ responses, frame, language, onFault }: PortalContext, thrown: unknown): Outgoing {
  const isTooLarge = isKeystileError(thrown) && thrown.code === "ANALYTICS_TOO_LARGE";
  const { status } = toSentError(thrown);
  const id = newId("req");
  if (status >= 500) onFault(thrown, id);
  const request = status >= 500 ? html`<p>${language.say("request", { id: code(id) })}</p>` : undefined;
  return responses.page(status, frame.said(isTooLarge ? "tooMuchUsage" : (SAID[status] ?? "wrong"), request));
}
