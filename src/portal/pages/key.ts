/** One key: what is known of it, another name, a replacement, and its end. */
import { badRequest } from "../../contracts/errors.js";
import type { KeyResponseData } from "../../keyring/schemas/responses.js";
import { button, form } from "../../view/form.js";
import { html, type Html } from "../../view/html.js";
import { unless } from "../../view/pages.js";
import { chips, code, facts, link, section } from "../../view/parts.js";
import type { TextName } from "../texts.js";
import { type Content, type Done, nameOf, type PortalPage, type PortalView } from "../view.js";
import { nameField, secret, stateOf, toKey } from "./keys.js";

const HOUR = 3_600_000;
/** How long a replaced key goes on working, milliseconds. */
const OVERLAPS: readonly (readonly [ms: number, text: TextName])[] = [
  [0, "overlapNone"],
  [HOUR, "overlapHour"],
  [24 * HOUR, "overlapDay"],
  [7 * 24 * HOUR, "overlapWeek"],
];
const DEFAULT_OVERLAP = String(24 * HOUR);

async function show(view: PortalView, keyId: string): Promise<Content> {
  const { say, time, number } = view.language;
  const key = await view.mine.get({ keyId });
  const { credits, expires, ipAllowlist, rerolledFrom, rerolledTo, lastUsedAt } = key;
  const toOther = (id: string | undefined) => id !== undefined && link(view.path(toKey(id)), code(id));
  const known = facts([
    [say("key"), code(`${key.start}…`)],
    [say("state"), stateOf(view, key)],
    [say("permissions"), key.permissions !== undefined && chips(key.permissions.map(code))],
    [say("credits"), credits?.remaining != null && number(credits.remaining)],
    [say("created"), time(key.createdAt)],
    [say("lastUsed"), lastUsedAt === undefined ? say("never") : time(lastUsedAt)],
    [say("expires"), expires !== undefined && time(expires)],
    [say("addresses"), ipAllowlist !== undefined && chips(ipAllowlist.map(code))],
    [say("replacedBy"), toOther(rerolledTo)],
    [say("replaces"), toOther(rerolledFrom)],
  ]);
  const rename = form(view, { fields: [nameField(view, key.name ?? "")], submit: say("rename"), tone: "quiet" });
  const isReplaceable = rerolledTo === undefined && key.state !== "expired";
  return {
    title: say("key"),
    heading: nameOf(view, key),
    actions: html`${isReplaceable && button(view, `${toKey(keyId)}/rotate`, say("rotate"))}
      ${button(view, `${toKey(keyId)}/revoke`, say("revoke"))}`,
    body: html`${section(say("key"), known)}${section(say("name"), rename)}`,
  };
}

async function rename({ form: sent, mine }: PortalView, keyId: string): Promise<Done> {
  const name = sent.get("name")?.trim() ?? "";
  await mine.rename({ keyId, name: name === "" ? null : name });
  return { to: toKey(keyId), notice: "nowRenamed" };
}

/** The key that this one replaced, if it still works: replacing this one ends it. */
async function endedWith({ mine, now }: PortalView, { rerolledFrom }: KeyResponseData) {
  if (rerolledFrom === undefined) return undefined;
  // Not found: revoked, or moved to another owner.
  const before = await mine.get({ keyId: rerolledFrom }).catch(unless(({ code }) => code === "NOT_FOUND"));
  return before === undefined || (before.expires ?? Infinity) < now ? undefined : before;
}

async function showRotate(view: PortalView, keyId: string): Promise<Content> {
  const { say } = view.language;
  const key = await view.mine.get({ keyId });
  const ended = await endedWith(view, key);
  const options = OVERLAPS.map(([ms, text]) => [String(ms), say(text)] as const);
  const overlap = { name: "overlap", label: say("overlap"), type: "select", options, value: DEFAULT_OVERLAP } as const;
  return {
    title: say("rotate"),
    heading: say("rotateTitle", { name: nameOf(view, key) }),
    body: html`<p class="ks-lead">${say("rotateLead")}</p>${ended && warning(view, ended)}${form(view, { fields: [overlap], submit: say("rotate"), cancel: toKey(keyId) })}`,
  };
}

function warning(view: PortalView, { keyId, start, expires = view.now }: KeyResponseData): Html {
  const { say, time } = view.language;
  const key = link(view.path(toKey(keyId)), code(`${start}…`));
  const ends = say("rotateEnds", { key, until: say("worksUntil", { date: time(expires) }) });
  return html`<p class="ks-alert ks-warn">${ends}</p>`;
}

async function rotate(view: PortalView, keyId: string): Promise<Done> {
  const asked = view.form.get("overlap");
  const overlap = OVERLAPS.find(([ms]) => String(ms) === asked)?.[0];
  if (overlap === undefined) throw badRequest([{ location: "body.overlap", message: "must be one of those listed" }]);
  return secret(view, "rotatedNow", await view.mine.rotate({ keyId, overlap }));
}

async function showRevoke(view: PortalView, keyId: string): Promise<Content> {
  const { say } = view.language;
  const key = await view.mine.get({ keyId });
  return {
    title: say("revoke"),
    heading: say("revokeTitle", { name: nameOf(view, key) }),
    body: html`<p class="ks-lead">${say("revokeLead")}</p>${form(view, { submit: say("revoke"), tone: "danger", cancel: toKey(keyId) })}`,
  };
}

async function revoke({ mine }: PortalView, keyId: string): Promise<Done> {
  await mine.revoke({ keyId });
  return { to: "/", notice: "nowRevoked" };
}

export const keyPages: readonly PortalPage[] = [
  { path: "/keys/:id", show, act: rename },
  { path: "/keys/:id/rotate", show: showRotate, act: rotate, conflict: "notReplaceable" },
  { path: "/keys/:id/revoke", show: showRevoke, act: revoke },
];
