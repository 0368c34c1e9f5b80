/** Options of the portal: defaults and validation. */
import { type Analytics, sourceOfAnalytics } from "../analytics/analytics.js";
import type { MaybePromise } from "../contracts/types.js";
import { WEB_OPTIONS } from "../http/fetch.js";
import type { ServiceOptions } from "../http/options.js";
import { contextOfKeyring, type Keyring } from "../keyring/keyring.js";
import { forOwner, type OwnerOptions } from "../keyring/owner/owner-keys.js";
import { callable, type Check, checkOptions, methods, narrowing, text } from "../lib/check-options.js";
import { requirePower } from "../lib/guards/powers.js";
import { checkLanguage, checkTexts, type PortalTexts } from "./texts.js";
import { checkTheme, isAddress, type PortalTheme } from "./theme.js";

/** Options of the portal on every host; those of {@link OwnerOptions} hold for every owner. */
export interface PortalOptions extends OwnerOptions, Pick<ServiceOptions, "onError"> {
  /**
   * Returns whose keys a request may look after, as `externalId` of `createKey`: from your session, never from what the
   * request asks for. `undefined`: nobody is signed in. What it throws or rejects with, and any other value, is a 500
   * that lets nobody in, and is reported to `onError`.
   */
  readonly owner: (request: Request) => MaybePromise<string | undefined>;
  /**
   * Made by `createAnalytics` of the same store as the keyring, the very object, and of its workspace: the portal then
   * has usage and statements. Default: it has neither.
   */
  readonly analytics?: Pick<Analytics, "statement">;
  /**
   * Path below which browsers see the portal, such as `/account/keys`. A proxy or framework before it may pass that
   * path on or take it away, so it must not begin as a page does, such as `/keys` or `/usage`. Default: none.
   */
  readonly basePath?: string;
  /** Where whoever is not signed in is sent: a path of your site, or an `https:` address. Default: a page with 401. */
  readonly signIn?: string;
  /** Where your name at the top leads: a path of your site, or an `https:` address. Default: the first page. */
  readonly home?: string;
  /**
   * Origins whose pages may show the portal in a frame, such as `https://app.example.com`, or `self`; 1–20. Your
   * session's cookie must reach it there. Default: nobody may.
   */
  readonly frameAncestors?: readonly string[];
  /** How it looks. Default: as the console does. */
  readonly theme?: PortalTheme;
  /** The language of `texts`, of numbers and of dates, a BCP 47 tag. Default `en`. */
  readonly lang?: string;
  /** Texts in place of the English ones, by name. They are shown as text, never as HTML. */
  readonly texts?: Partial<PortalTexts>;
}

/** Of a portal: as many permissions as a form has check boxes for. */
const MAX_PERMISSIONS = 100;
const MAX_ANCESTORS = 20;
const ORIGIN = /^https?:\/\/[a-z0-9.-]{1,253}(?::\d{1,5})?$/;

const ancestors: Check = (value, path) => {
  const fits = Array.isArray(value) && value.length >= 1 && value.length <= MAX_ANCESTORS;
  if (!fits || !value.every((one) => typeof one === "string" && (one === "self" || ORIGIN.test(one))))
    throw new TypeError(`${path} must be 1 to ${MAX_ANCESTORS} origins such as https://app.example.com, or self`);
};

const address: Check = (value, path) => {
  if (!isAddress(value)) throw new TypeError(`${path} must be a path such as /sign-in, or an https address`);
};

const unchecked: Check = () => undefined;
const OPTIONS = {
  owner: narrowing(callable),
  // Checked by `forOwner`.
  ...{ apiId: narrowing(text), ceiling: narrowing(unchecked), prefix: unchecked, meta: unchecked },
  analytics: methods("statement"),
  basePath: WEB_OPTIONS.basePath,
  ...{ signIn: address, home: address },
  frameAncestors: ancestors,
  theme: checkTheme,
  lang: checkLanguage,
  texts: checkTexts,
  onError: callable,
} satisfies Record<keyof PortalOptions, Check>;

/**
 * @returns a copy of its own properties, as validated
 * @throws TypeError or RangeError naming the option · KeystileError BAD_REQUEST · STORE_POWER_MISSING
 */
export function checkPortalOptions(keyring: Keyring, given: PortalOptions): PortalOptions {
  const options = checkOptions(given, OPTIONS);
  if (!Object.hasOwn(options, "owner")) throw new TypeError("options.owner must be a function");
  const context = contextOfKeyring(keyring);
  // Nobody's: what is wrong for one owner is wrong for all, and is said at once.
  forOwner(keyring, "portal", ownerOptions(options));
  if ((options.ceiling?.permissions?.length ?? 0) > MAX_PERMISSIONS)
    throw new RangeError(`options.ceiling.permissions must be at most ${MAX_PERMISSIONS}, as many as a form shows`);
  if (options.analytics !== undefined && !readsSame(options.analytics, context))
    throw new TypeError(
      "options.analytics must be one that createAnalytics made, of the store and the workspace of the keyring",
    );
  if (context !== undefined) requirePower(context.store, "idempotency", "createPortal");
  const { ceiling, meta } = options;
  // The program may change its own later.
  const copies = {
    ...(ceiling && { ceiling: structuredClone(ceiling) }),
    ...(meta && { meta: structuredClone(meta) }),
  };
  return { ...options, ...copies };
}

/** Of another store or workspace they would show what another customer of the same name spent. */
function readsSame(analytics: Pick<Analytics, "statement">, context: ReturnType<typeof contextOfKeyring>): boolean {
  const source = sourceOfAnalytics(analytics);
  return source !== undefined && source.given === context?.given && source.workspaceId === context.workspaceId;
}

/** What `forOwner` takes of the options. */
export function ownerOptions({ apiId, ceiling, prefix, meta }: PortalOptions): OwnerOptions {
  return {
    apiId,
    ...(ceiling !== undefined && { ceiling }),
    ...(prefix !== undefined && { prefix }),
    ...(meta !== undefined && { meta }),
  };
}
