/** An empty store: an API, its first key, and the line that tries it; and the form that makes an API at any time. */
import { button, type Field, form } from "../../view/form.js";
import { html, type Html } from "../../view/html.js";
import { code, section } from "../../view/parts.js";
import { ifAble } from "../ask.js";
import type { Content, Done, Page, View } from "../view/view.js";

const FIELDS: readonly Field[] = [
  { name: "name", label: "Name", hint: "For people, such as documents. Keys are of one API.", isRequired: true },
];
const PATH = "/apis/new";
const toNewKey = (apiId: string): string => `/keys/new?apiId=${encodeURIComponent(apiId)}`;

/** What to do first, for whoever may; undefined: there is a key, or nothing that this caller could begin with. */
export async function firstRun(view: View): Promise<Content | undefined> {
  if (!view.may("apis.listApis") || !view.may("keys.searchKeys") || !view.may("keys.createKey")) return undefined;
  const apis = await ifAble(view.ask("apis.listApis", { limit: 1 }));
  const [api] = apis?.data ?? [];
  if (apis === undefined || (api === undefined && !view.may("apis.createApi"))) return undefined;
  if (api !== undefined && (await view.ask("keys.searchKeys", { limit: 1 })).data.length > 0) return undefined;
  const create = button(view, toNewKey(api?.id ?? ""), "Create the first key", "primary");
  const id = JSON.stringify(api?.id ?? "api_…");
  return {
    title: "Overview",
    about: "There are no keys yet.",
    body: html`${section("1. Make an API", api === undefined ? apiForm(view) : html`<p>It is there: ${code(api.id)}.</p>`)}
      ${section("2. Create a key", api === undefined ? "Of the API, once it is made." : create)}
      ${section(
        "3. Try it",
        html`<p>With the key comes a line to paste: a request to your program, which asks
        ${code(`verifier.verify({ key }, { apiId: ${id} })`)}, or has ${code(`apiKey(verifier, { apiId: ${id} })`)}
        before its routes. Without ${code("apiId")} keys of every API would pass.</p>`,
      )}`,
  };
}

const apiForm = (view: View, more: { readonly cancel?: string } = {}): Html =>
  form(view, { to: PATH, fields: FIELDS, submit: "Create API", ...more });

async function showNew(view: View): Promise<Content> {
  const body = apiForm(view, { cancel: "/keys/new" });
  return { title: "New API", about: "The service that keys give access to.", body };
}

async function create(view: View): Promise<Done> {
  const { apiId } = await view.ask("apis.createApi", { name: view.form.get("name") ?? "" });
  return { to: toNewKey(apiId) };
}

/** The page that makes an API. */
export const apiPages: readonly Page[] = [{ path: PATH, needs: "apis.createApi", show: showNew, act: create }];
