/** A browser without a screen: it keeps the cookie, and fills in forms as they are. */
import { createConsole, type ConsoleHandlerOptions } from "../../src/console/index.js";
import type { Handler } from "../../src/http/index.js";
import type { Store } from "../../src/index.js";
import { NOW } from "./support.js";

export const ORIGIN = "http://localhost:5398";

/** What a page says. */
export interface Shown {
  readonly status: number;
  readonly text: string;
  readonly headers: Headers;
}

export interface Client {
  readonly handler: Handler;
  cookie: string;
  send(request: Request): Promise<Shown>;
  get(path: string, headers?: Record<string, string>): Promise<Shown>;
  post(path: string, fields: Record<string, string>, headers?: Record<string, string>): Promise<Shown>;
  signIn(rootKey: string): Promise<Shown>;
  /** Sends the form of a page that goes to `path`, with these fields in it. */
  submit(page: string, path: string, fields?: Record<string, string>): Promise<Shown>;
}

export function client(store: Store, options: ConsoleHandlerOptions = {}): Client {
  const base = options.basePath ?? "";
  const handler = createConsole(store, { clock: () => NOW, clientAddress: () => "203.0.113.1", ...options });
  const self: Client = {
    handler,
    cookie: "",
    async send(request) {
      const response = await handler(request);
      const set = response.headers.get("set-cookie");
      if (set !== null) self.cookie = set.split(";")[0] ?? "";
      return { status: response.status, text: await response.text(), headers: response.headers };
    },
    get: (path, headers = {}) =>
      self.send(new Request(ORIGIN + base + path, { headers: { cookie: self.cookie, ...headers } })),
    post: (path, fields, headers = {}) =>
      self.send(
        new Request(ORIGIN + base + path, {
          method: "POST",
          body: new URLSearchParams(fields),
          headers: { cookie: self.cookie, origin: ORIGIN, ...headers },
        }),
      ),
    signIn: (rootKey) => self.post("/sign-in", { key: rootKey, to: "/" }),
    async submit(page, path, fields = {}) {
      const { text } = await self.get(page);
      return self.post(path, { ...filledOf(text, base + path), ...fields });
    },
  };
  return self;
}

/** The hidden fields of the form that goes to a path. */
export function hiddenOf(text: string, path: string): Record<string, string> {
  const fields = [...formOf(text, path).matchAll(/<input type="hidden" name="([^"]*)" value="([^"]*)">/g)];
  return Object.fromEntries(fields.map(([, name = "", value = ""]) => [name, value]));
}

function formOf(text: string, path: string): string {
  // As a browser with scripts has it.
  const forms = text.replace(/<noscript>.*?<\/noscript>/g, "").split("<form ");
  const form = forms.find((part) => part.startsWith(`method="post" action="${path}"`)) ?? "";
  return form.split("</form>")[0] ?? "";
}

/** All that a browser sends of the form that goes to a path, without boxes. */
export function filledOf(page: string, path: string): Record<string, string> {
  const text = formOf(page, path);
  const decode = (value = ""): string =>
    value
      .replaceAll("&lt;", "<")
      .replaceAll("&gt;", ">")
      .replaceAll("&quot;", '"')
      .replaceAll("&#39;", "'")
      .replaceAll("&amp;", "&");
  const inputs = [...text.matchAll(/<input type="(?!checkbox)[^"]*"[^>]*? name="([^"]*)"[^>]*? value="([^"]*)"/g)];
  const areas = [...text.matchAll(/<textarea [^>]*name="([^"]*)"[^>]*>\n?([^<]*)<\/textarea>/g)];
  const selects = [...text.matchAll(/<select [^>]*name="([^"]*)"[^>]*>(.*?)<\/select>/gs)].map(
    ([all, name, options = ""]) => {
      const [, value] = /value="([^"]*)" selected/.exec(options) ?? /value="([^"]*)"/.exec(options) ?? [];
      return [all, name, value] as const;
    },
  );
  return Object.fromEntries([...inputs, ...areas, ...selects].map(([, name = "", value]) => [name, decode(value)]));
}
