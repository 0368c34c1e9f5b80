/** The first page: what is left, and the keys; and making a key. */
import { badRequest } from "../../contracts/errors.js";
import { isOverage } from "../../keyring/granted.js";
import type { AccountData, KeyResponseData } from "../../keyring/schemas/responses.js";
import type { KeyState } from "../../lib/key-state.js";
import { copyField } from "../../view/copy.js";
import { button, type Field, form } from "../../view/form.js";
import { html, type Html, type Part } from "../../view/html.js";
import { badge, bar, chips, code, link, muted, section, table, type Tone } from "../../view/parts.js";
import type { TextName } from "../texts.js";
import { type Content, type Done, nameOf, type PortalPage, type PortalView } from "../view.js";

/** Keys of a page. */
const SHOWN = 50;
const TONES: Partial<Record<KeyState, Tone>> = { active: "good", exhausted: "warn", rotated: "plain" };

export const toKey = (keyId: string): string => `/keys/${keyId}`;

/** The state of a key; of one that was replaced and still works, until when. */
export function stateOf({ language, now }: PortalView, { state, rerolledTo, expires = now }: KeyResponseData): Html {
  const isEnding = state === "active" && rerolledTo !== undefined;
  // Keys that are deleted are not listed.
  if (!isEnding) return badge(TONES[state] ?? "bad", language.say(state as TextName));
  const until = language.say("worksUntil", { date: language.time(expires) });
  return html`${badge("warn", language.say("rotated"))} <span class="ks-muted ks-until">${until}</span>`;
}

async function show(view: PortalView): Promise<Content> {
  const { mine, query, language, permissions } = view;
  const { say, number, date } = language;
  const cursor = query.get("cursor");
  const [{ data, pagination }, { remaining, accounts }] = await Promise.all([
    mine.list({ limit: SHOWN, ...(cursor !== null && { cursor }) }),
    mine.balance(),
  ]);
  const isCapped = data.some(({ credits }) => credits !== undefined);
  const columns = [
    ...["name", "key", "state", ...(permissions.length > 1 ? ["permissions"] : [])],
    ...[...(isCapped ? ["credits"] : []), "lastUsed", "created"],
  ].map((title) => ({ title: say(title as TextName), isNumber: title === "credits" }));
  const rows = data.map((key): Part[] => [
    link(view.path(toKey(key.keyId)), nameOf(view, key)),
    code(`${key.start}…`),
    stateOf(view, key),
    ...(permissions.length > 1 ? [chips((key.permissions ?? []).map(code), "–")] : []),
    ...(isCapped ? [key.credits?.remaining == null ? "" : number(key.credits.remaining)] : []),
    key.lastUsedAt === undefined ? muted(say("never")) : date(key.lastUsedAt),
    date(key.createdAt),
  ]);
  const pages = [
    cursor !== null && button(view, "/", say("firstPage")),
    pagination.cursor !== undefined && button(view, `/?cursor=${pagination.cursor}`, say("nextPage")),
  ];
  const list = html`${table(say("keys"), columns, rows, say("noKeysYet"))}
    ${pages.some(Boolean) && html`<nav class="ks-pager" aria-label="${say("keys")}"><span class="ks-actions">${pages}</span></nav>`}`;
  return {
    title: say("portal"),
    actions: button(view, "/new", say("newKey"), "primary"),
    body: html`${remaining !== null && section(say("creditsLeft"), balance(view, remaining, accounts))}${section(say("keys"), list)}`,
  };
}

/** What is left without overage, and account by account where there are several, with when more comes. */
function balance({ language }: PortalView, remaining: number, accounts: readonly AccountData[]): Html {
  const { say, number, day, date } = language;
  const left = ({ remaining, of }: AccountData): Part =>
    of === undefined || of < remaining
      ? number(remaining)
      : bar(remaining, of, say("leftOf", { left: number(remaining), whole: number(of) }));
  const columns = [say("what"), say("left"), say("next"), say("expires")].map((title) => ({ title }));
  const rows = accounts.map((one): Part[] => [
    say(isOverage(one) ? "overage" : one.kind),
    left(one),
    one.next &&
      say("nextCredits", {
        amount: language.signed(one.next.amount),
        date: day(one.next.at),
      }),
    one.expires !== undefined && date(one.expires),
  ]);
  const beyond = accounts.filter(isOverage).reduce((sum, one) => sum + one.remaining, 0);
  return html`<p class="ks-left" id="ks-left">${number(Math.max(0, remaining - beyond))}</p>${table(say("creditsLeft"), columns, rows, "")}`;
}

/** What the text of a new key is shown in: the answer to the form that made it, and nowhere else. */
export function secret(
  view: PortalView,
  title: TextName,
  made: { readonly key: string; readonly keyId: string },
): Content {
  const { say } = view.language;
  const words = { label: say("key"), copy: say("copy"), copied: say("copied"), byHand: say("copyByHand") };
  return {
    title: say(title),
    body: html`<p class="ks-alert ks-warn" role="status">${say("copyNow")}</p>${copyField("ks-secret", made.key, words)}
      <p class="ks-below">${link(view.path(toKey(made.keyId)), say("toKey"))}</p>`,
  };
}

export const nameField = ({ language: { say } }: PortalView, value?: string): Field => ({
  ...{ name: "name", label: say("name"), hint: say("nameHint") },
  ...(value !== undefined && { value }),
});

/** Where a permission is ticked. */
const box = (permission: string): string => `may:${permission}`;

function showNew(view: PortalView): Promise<Content> {
  const { language, permissions } = view;
  const boxes = permissions.map((permission, i): Field => ({
    ...{ name: box(permission), type: "checkbox", value: "on" },
    label: language.say("mayDo", { permission: code(permission) }),
    at: i === 0 ? "body.permissions" : "none",
  }));
  const fields = [nameField(view), ...(permissions.length > 1 ? boxes : [])];
  const title = language.say("newKey");
  return Promise.resolve({ title, body: form(view, { fields, submit: language.say("make"), cancel: "/" }) });
}

async function make(view: PortalView): Promise<Done> {
  const { form: sent, mine, permissions } = view;
  const name = sent.get("name")?.trim() ?? "";
  const given = permissions.length > 1 ? permissions.filter((one) => sent.has(box(one))) : permissions;
  if (given.length === 0 && permissions.length > 0)
    throw badRequest([{ location: "body.permissions", message: "must be one or more" }]);
  return secret(view, "made", await mine.create({ ...(name !== "" && { name }), permissions: given }));
}

export const keysPages: readonly PortalPage[] = [
  { path: "/", show },
  { path: "/new", show: showNew, act: make, conflict: "noNewKey" },
];
