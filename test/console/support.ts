/** A console with keys of every kind, and a root key that may do everything. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { allPermissions } from "../../src/cli/database/database.js";
import { createConsoleListener, type ConsoleListenerOptions } from "../../src/console/index.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { createKeyring, type Store } from "../../src/index.js";

export const NOW = Date.UTC(2026, 10, 24, 12);
const DAY = 86_400_000;

/** Text that would do harm where it is not escaped, shown, or kept in its place. */
export const HOSTILE: readonly string[] = [
  "<script>window.hurt=1</script>",
  '"><img src=x onerror=window.hurt=1>',
  "' onmouseover='window.hurt=1",
  "</title><script>window.hurt=1</script>",
  "</textarea><script>window.hurt=1</script>",
  "<!--",
  "]]>",
  "&lt;b&gt;",
  "&#x3c;script&#x3e;",
  "javascript:window.hurt=1",
  "${window.hurt=1}",
  "{{7*7}}",
  "`window.hurt=1`",
  "\u202Eevil\u202C",
  "\u2066left\u2069",
  "zero\u200Bwidth",
  "\uFEFFmark",
  "soft\u00ADhyphen",
  "W".repeat(255),
  "a ".repeat(127).trim(),
  "ا".repeat(200),
  "漢".repeat(200),
  "👩‍👩‍👧‍👦".repeat(20),
  "Z̷a̷l̷g̷o̷".repeat(20),
  "../../etc/passwd",
  "%00%0d%0aSet-Cookie:a=b",
  "?notice=revoked",
  "#fragment",
  "a/b/c",
  "new",
  "constructor",
  "__proto__",
  "null",
  "0",
  "-1",
  "1e309",
  "<a href=//evil.example>click</a>",
  "<svg onload=window.hurt=1>",
  "<style>*{display:none}</style>",
  "<base href=//evil.example>",
];

export interface Seeded {
  readonly store: Store;
  readonly rootKey: string;
  readonly apiId: string;
  /** Ids of keys by what is special about them. */
  readonly keys: Readonly<Record<string, string>>;
  readonly texts: Readonly<Record<string, string>>;
}

/** A store with two APIs, owners, roles and keys. */
export async function seed(store: Store = sqliteStore(":memory:"), now = NOW): Promise<Seeded> {
  const keyring = createKeyring(store, { clock: () => now, actor: "set-up" });
  const { apiId } = await keyring.createApi({ name: "Documents" });
  const { apiId: other } = await keyring.createApi({ name: "Exports" });
  await keyring.createRole({
    name: "reader",
    description: "Reads what is public",
    permissions: ["documents.read", "documents.list"],
  });
  await keyring.createRole({ name: "editor", permissions: ["documents.*"] });
  await keyring.createIdentity({
    externalId: "acme",
    ratelimits: [{ name: "requests", limit: 1_000, duration: 60_000, autoApply: true }],
    credits: { remaining: 4_200, refill: { interval: "monthly", amount: 5_000, refillDay: 1 } },
  });
  const keys: Record<string, string> = {};
  const texts: Record<string, string> = {};
  const create = async (name: string, body: object): Promise<void> => {
    const made = await keyring.createKey({ apiId, prefix: "sk_live", name, ...body });
    keys[name] = made.keyId;
    texts[name] = made.key;
  };
  await create("Nightly export", { apiId: other, externalId: "acme", roles: ["reader"], permissions: ["exports.run"] });
  await create("Mobile app", {
    externalId: "acme",
    permissions: ["documents.read"],
    credits: { remaining: 37, refill: { interval: "daily", amount: 100 } },
    ratelimits: [{ name: "requests", limit: 100, duration: 60_000, autoApply: true }],
    ipAllowlist: ["203.0.113.0/24", "2001:db8::/32"],
    expires: now + 12 * DAY,
    meta: { plan: "pro", seats: 5 },
  });
  await create("Partner integration", { externalId: "globex", roles: ["editor"], expires: now + 200 * DAY });
  await create("Old laptop", { externalId: "globex", enabled: false });
  await create("Trial", { externalId: "initech", expires: now + 1_000, credits: { remaining: 0 } });
  await create("Billing worker", { credits: { remaining: 1_250_000 } });
  const { keyId } = await keyring.createKey({ apiId });
  keys["nameless"] = keyId;
  const { key: rootKey } = await keyring.createRootKey({
    name: "Operator",
    permissions: [...allPermissions(), "api.*.read_analytics"],
  });
  await keyring.createRootKey({ name: "Gateway", permissions: ["api.*.verify_key"], expires: now + 90 * DAY });
  return { store, rootKey, apiId, keys, texts };
}

/** A store that looks at three keys at a time, and each time lets the page's time pass. */
export function slowly(store: Store, spend: () => void): Store {
  return {
    ...store,
    searchKeys(search) {
      spend();
      return store.searchKeys!({ ...search, among: Math.min(search.among, 3) });
    },
  };
}

export interface Served {
  readonly url: string;
  close(): Promise<void>;
}

/** A console on a free port. */
export async function serve(store: Store, options: ConsoleListenerOptions = {}): Promise<Served> {
  const listener = createConsoleListener(store, { clock: () => NOW, ...options });
  const server = createServer(listener as never);
  const url = await listen(server);
  return {
    url: url + (options.basePath ?? ""),
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await listener.close();
    },
  };
}

export async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
