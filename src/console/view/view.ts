/** What a page is made from: who looks at it, what was asked, and the operations as that caller. */
import type { Ask, OperationName } from "../ask.js";
import type { ConsoleAnalytics } from "../options.js";
import type { Html, Part } from "../../view/html.js";
import type { Download, PageView } from "../../view/pages.js";

/** Who is signed in. */
export interface SignedIn {
  /** Name of the root key, or kind and id of the caller of the program. */
  readonly name: string;
  /** Its id: of a root key that of the key. */
  readonly id: string;
  /** Whether it can sign out: it has a session of the console. */
  readonly hasSession: boolean;
}

/** One request of a signed-in caller. */
export interface View extends PageView {
  readonly signedIn: SignedIn;
  readonly isReadOnly: boolean;
  /** Calls an operation as the caller. */
  readonly ask: Ask;
  /** The same, on a store that writes nothing. */
  readonly preview: Ask;
  /** Whether the caller may do this anywhere at all; on a console that only reads, nothing that changes. */
  may(operation: OperationName): boolean;
  /** Whether the console knows how far rate limits are used. */
  readonly seesLimits: boolean;
  /**
   * Reads counts, for whoever may read those of this API, or of all.
   * @returns undefined: the caller may not, or the store keeps none
   */
  analyticsOf(apiId?: string): ConsoleAnalytics | undefined;
  /** Of the store and of the verifier. */
  health(): Promise<Health>;
}

/** What the page about health shows. */
export interface Health {
  readonly ok: boolean | undefined;
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
  readonly counters: Readonly<Record<string, number>>;
}

/** What a page shows. */
export interface Content {
  readonly title: string;
  /** Below the title. */
  readonly about?: Part;
  /** Beside the title: what can be done. */
  readonly actions?: Part;
  readonly body: Html;
}

/** What a form did: where to go on, with a notice, or what is shown this once. */
export type Done = { readonly to: string; readonly notice?: NoticeName } | Content;

/** What is said on the next page; the address names one of these and nothing else. */
export const NOTICES = {
  enabled: "It is enabled.",
  disabled: "The key is disabled. Its calls are refused from now on.",
  ownerDisabled: "The owner is disabled; all its keys, also new ones, are refused.",
  revoked: "The key is revoked.",
  changed: "The changes are saved.",
  created: "It is created.",
  deleted: "It is deleted.",
  credits: "The credits are changed.",
  plan: "The plan is changed.",
  granted: "The credits are granted.",
  ended: "The grant has ended. What was left of it is taken away.",
  known: "A grant of this id was made before. Nothing was added.",
  found: "The key is found: this is its page.",
  kept: "You are signed in again. What you sent last was not taken: look at what you typed, and send it.",
} as const;
export type NoticeName = keyof typeof NOTICES;

/** One address of the console. */
export interface Page {
  /** Path below the mount path; a part that begins with `:` is any one. */
  readonly path: string;
  /** Whoever may not do this anywhere gets a 403. Absent: whoever is signed in may look. */
  readonly needs?: OperationName;
  /** The page; after a form that failed, with what was sent. */
  show(view: View, id: string): Promise<Content | Download>;
  /** Its form only asks for what may belong in no address, and may be sent again. */
  readonly isRead?: true;
  /** What its form does. Absent: it has none. */
  act?(view: View, id: string): Promise<Done>;
}
