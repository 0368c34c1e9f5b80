/** createPortal: pages on which a customer looks after its own keys, as a function from `Request` to `Response`. */
import { type Handler, handlerOf } from "../http/fetch.js";
import type { Service } from "../http/service.js";
import { contextOfKeyring, type Keyring } from "../keyring/keyring.js";
import { fireAndForget } from "../lib/callbacks.js";
import { createSigner } from "../lib/once.js";
import { checkBase, createPageResponses } from "../view/outgoing.js";
import { servePages } from "../view/pages.js";
import { createSentForms } from "../view/reading.js";
import { PAGES, type PortalContext, refuse, route } from "./answer.js";
import { createFrame } from "./layout.js";
import { checkPortalOptions, type PortalOptions } from "./options.js";
import { createLanguage } from "./texts.js";
import { originOfLogo } from "./theme.js";

/**
 * Pages on which your customers look after their own keys, behind your own sign-in: {@link forOwner} with a face, and
 * without any right that it lacks. A customer makes, renames, replaces and revokes keys, sees what is left and when
 * more comes, and with `analytics` what was used and the statement of a month. Whose page it is comes from `owner`
 * alone, with every request: no address and no form names an owner. Everything works without JavaScript. Its promise
 * never rejects; serve it over TLS.
 * @param keyring made by `createKeyring`
 * @throws TypeError or RangeError naming the option · KeystileError BAD_REQUEST for an API, a prefix or metadata that
 *   no key can have · STORE_POWER_MISSING
 * @example
 * const owner = (request) => sessionOf(request)?.customerId;
 * const ceiling = { keys: 5, identity: true }; // only owners that have credits
 * const portal = createPortal(keyring, { owner, apiId, ceiling, basePath: "/account/keys" });
 * app.all("/account/keys/*", (c) => portal(c.req.raw));
 */
export function createPortal(keyring: Keyring, options: PortalOptions): Handler {
  return handlerOf(createPortalService(keyring, options), (path) => path, {});
}

/** The portal, for any host. */
export function createPortalService(keyring: Keyring, given: PortalOptions): Service {
  const options = checkPortalOptions(keyring, given);
  const found = contextOfKeyring(keyring);
  // Checked by `forOwner` before.
  if (found === undefined) throw new TypeError("keyring must be one that createKeyring made");
  const { basePath = "", theme = {}, lang, texts, frameAncestors, onError, apiId } = options;
  const language = createLanguage(lang, texts);
  const images = originOfLogo(theme);
  const ancestors = frameAncestors?.map((one) => (one === "self" ? "'self'" : one));
  const frame = createFrame(options, language, (to) => basePath + to);
  checkBase(basePath, [...PAGES.map(({ path }) => path), ...Object.keys(frame.files)]);
  const context: PortalContext = {
    ...{ options, keyring, basePath, language, clock: found.clock, scope: [found.workspaceId, apiId] },
    frame,
    responses: createPageResponses({ ancestors, ...(images !== undefined && { images }) }),
    sent: createSentForms(),
    sign: createSigner(found.store),
    onFault: (error, requestId) => onError && fireAndForget(() => onError(error, { requestId })),
  };
  return servePages(
    (incoming, hold) => route(context, incoming, hold),
    (thrown) => refuse(context, thrown),
    () => Promise.resolve(),
  );
}
