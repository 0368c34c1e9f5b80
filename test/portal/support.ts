/** A portal with two customers, and a browser without a screen for each. */
import { createPortal, type PortalOptions } from "../../src/portal/index.js";
import { createAnalytics, createKeyring, createVerifier, forOwner, type Keyring, type Store } from "../../src/index.js";
import { memoryStore } from "../../src/index.js";
import { hiddenOf } from "../console/client.js";

export const NOW = Date.UTC(2026, 10, 24, 12);
export const ORIGIN = "http://app.example.com";
export const CEILING = { keys: 5, permissions: ["reports.read", "reports.write"] } as const;

export interface Shop {
  readonly store: Store;
  readonly keyring: Keyring;
  readonly apiId: string;
  /** Texts and ids of keys, by owner: each has two. */
  readonly keys: Readonly<Record<string, readonly { readonly key: string; readonly keyId: string }[]>>;
}

/** Customers with a plan, a grant, and keys that were used. */
export async function openShop(
  owners: readonly string[] = ["ann", "bob"],
  store: Store = memoryStore(),
): Promise<Shop> {
  let now = NOW - 20 * 86_400_000;
  const clock = () => now;
  const keyring = createKeyring(store, { clock: () => NOW });
  const { apiId } = await keyring.createApi({ name: "reports" });
  const before = createKeyring(store, { clock });
  const keys: Record<string, { key: string; keyId: string }[]> = {};
  const refill = { interval: "monthly", amount: 1_000, refillDay: 1, rollover: 0 } as const;
  const verifier = createVerifier(store, { clock, analytics: true });
  for (const externalId of owners) {
    await before.createIdentity({ externalId, credits: { remaining: 1_000, refill } });
    const mine = forOwner(before, externalId, { apiId, prefix: "rep", ceiling: CEILING });
    keys[externalId] = [];
    for (const name of [`Laptop of ${externalId}`, `Server of ${externalId}`])
      keys[externalId].push(await mine.create({ name, permissions: ["reports.read"] }));
    for (const { key } of keys[externalId])
      for (const permissions of ["reports.read", "reports.write"]) await verifier.verify({ key, permissions });
  }
  now = NOW;
  for (const externalId of owners) {
    const expires = NOW + 30 * 86_400_000;
    await keyring.grantCredits({
      identity: externalId,
      grantId: `order_${externalId}`,
      amount: 50,
      expires,
      reason: "staff only",
    });
    await verifier.verify({ key: keys[externalId]?.[0]?.key ?? "", permissions: "reports.read" });
  }
  await verifier.close();
  return { store, keyring, apiId, keys };
}

export interface Shown {
  readonly status: number;
  readonly text: string;
  readonly headers: Headers;
}

export interface Browser {
  get(path: string, headers?: Record<string, string>): Promise<Shown>;
  post(path: string, fields: Record<string, string>, headers?: Record<string, string>): Promise<Shown>;
  /** Sends the form of a page that goes to that page, with these fields in it. */
  submit(page: string, fields?: Record<string, string>): Promise<Shown>;
  send(request: Request): Promise<Shown>;
}

/** The options of a portal whose session is a cookie with the owner's name. */
export function optionsOf(
  { store, apiId }: Pick<Shop, "store" | "apiId">,
  more: Partial<PortalOptions> = {},
): PortalOptions {
  return {
    owner: (request) => /user=([^;]+)/.exec(request.headers.get("cookie") ?? "")?.[1],
    ...{ apiId, prefix: "rep", ceiling: CEILING },
    analytics: createAnalytics(store, { clock: () => NOW }),
    ...more,
  };
}

/** @param owner who is signed in; undefined: nobody */
export function browse(
  shop: Pick<Shop, "store" | "apiId" | "keyring">,
  owner: string | undefined,
  more: Partial<PortalOptions> = {},
): Browser {
  const base = more.basePath ?? "";
  const handler = createPortal(shop.keyring, optionsOf(shop, more));
  const cookie: Record<string, string> = owner === undefined ? {} : { cookie: `user=${owner}` };
  const self: Browser = {
    async send(request) {
      const response = await handler(request);
      return { status: response.status, text: await response.text(), headers: response.headers };
    },
    get: (path, headers = {}) => self.send(new Request(ORIGIN + base + path, { headers: { ...cookie, ...headers } })),
    post: (path, fields, headers = {}) =>
      self.send(
        new Request(ORIGIN + base + path, {
          method: "POST",
          body: new URLSearchParams(fields),
          headers: { ...cookie, origin: ORIGIN, ...headers },
        }),
      ),
    async submit(page, fields = {}) {
      const { text } = await self.get(page);
      return self.post(page, { ...hiddenOf(text, base + page), ...fields });
    },
  };
  return self;
}
