/** Root keys: what each may do. They are made on the database alone, so that none can make another. */
import type { RootKeyData } from "../../keyring/schemas/responses.js";
import { keyState } from "../../lib/key-state.js";
import { count, time } from "../../view/format.js";
import { button, requireTyped, typedForm } from "../../view/form.js";
import { html, type Part } from "../../view/html.js";
import { asked, listed } from "../view/lists.js";
import { badge, code, name, some } from "../../view/parts.js";
import type { Content, Done, Page, View } from "../view/view.js";
import { REASON, reasonOf } from "./key-fields.js";
import { showState } from "./key-parts.js";

const COLUMNS = ["Root key", "State", "Permissions", "Expires", "Created", "Action"];

async function list(view: View): Promise<Content> {
  const request = { limit: 50, ...asked(view, "cursor") };
  const { data, pagination } = await view.ask("rootKeys.listRootKeys", request);
  const rows = data.map((rootKey) => row(view, rootKey));
  return {
    title: "Root keys",
    about: html`Credentials of programs and people. ${code("keystile root-keys create")} makes one, on the database.`,
    body: listed(view, { title: "Root keys", columns: COLUMNS, rows, empty: "No root key.", pagination }),
  };
}

function row(view: View, rootKey: RootKeyData): Part[] {
  const { rootKeyId, start, name: called, permissions, expires, createdAt } = rootKey;
  return [
    html`${called !== undefined && html`${name(called)}<br>`}${code(`${start}…`)}${rootKeyId === view.signedIn.id && html`<br> ${badge("plain", "You")}`}`,
    showState({ state: keyState(rootKey, view.now) }),
    html`<details><summary>${count(new Set(permissions).size, "permission")}</summary>${some([...new Set(permissions)], 100)}</details>`,
    time(expires, view.now),
    time(createdAt, view.now),
    view.may("rootKeys.deleteRootKey") &&
      button(view, `/root-keys/${encodeURIComponent(rootKeyId)}`, "Delete", "danger"),
  ];
}

async function showDelete(view: View, rootKeyId: string): Promise<Content> {
  return {
    title: "Delete root key",
    about: code(rootKeyId),
    body: html`<p class="ks-lead">It lets nobody in from the next request on. If it is yours, you are signed out.</p>
      ${typedForm(view, { fields: [REASON], submit: "Delete", cancel: "/root-keys" }, "its id", rootKeyId)}`,
  };
}

async function remove(view: View, rootKeyId: string): Promise<Done> {
  requireTyped(view, rootKeyId);
  await view.ask("rootKeys.deleteRootKey", { rootKeyId, ...reasonOf(view.form) });
  return { to: "/root-keys", notice: "deleted" };
}

/** The pages of root keys. */
export const rootKeyPages: readonly Page[] = [
  { path: "/root-keys", needs: "rootKeys.listRootKeys", show: list },
  { path: "/root-keys/:id", needs: "rootKeys.deleteRootKey", show: showDelete, act: remove },
];
