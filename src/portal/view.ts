/** What a page of the portal is made from: whose it is, what was asked, and that owner's keys. */
import type { KeyResponseData } from "../keyring/schemas/responses.js";
import type { OwnerKeys } from "../keyring/owner/owner-keys.js";
import type { Html, Part } from "../view/html.js";
import type { Download, PageView } from "../view/pages.js";
import { name } from "../view/parts.js";
import type { PortalOptions } from "./options.js";
import type { Language, TextName } from "./texts.js";

/** One request of an owner. */
export interface PortalView extends PageView {
  /** As the program calls the owner. */
  readonly owner: string;
  /** The owner's keys, and nobody else's. */
  readonly mine: OwnerKeys;
  readonly language: Language;
  /** What a new key may be given. */
  readonly permissions: readonly string[];
  readonly analytics: PortalOptions["analytics"];
}

/** What a page shows. */
export interface Content {
  readonly title: Html;
  /** In place of the title, with names in it. */
  readonly heading?: Html;
  readonly actions?: Part;
  readonly body: Html;
}

/** What a form did: where to go on, with a notice, or what is shown this once. */
export type Done = { readonly to: string; readonly notice: Notice } | Content;

/** What is said on the next page; the address names one of these and nothing else. */
export const NOTICES = ["nowRenamed", "nowRevoked"] as const satisfies readonly TextName[];
export type Notice = (typeof NOTICES)[number];

/** One address of the portal. */
export interface PortalPage {
  /** Path below the mount path; `:id` is that of a key. */
  readonly path: string;
  /** Whether the portal has it only with counts. */
  readonly isCounted?: true;
  show(view: PortalView, id: string): Promise<Content | Download>;
  /** What its form does. Absent: it has none. */
  act?(view: PortalView, id: string): Promise<Done>;
  /** What is said where the form meets a `CONFLICT`. */
  readonly conflict?: TextName;
}

/** What a key is called: its name, or that it has none. */
export const nameOf = ({ language }: PortalView, key: KeyResponseData): Html =>
  key.name === undefined ? language.say("nameless") : name(key.name);
