/** A client that goes away: the search that it asked for ends, on each host, and what others wait for goes on. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { KeySearch, Store } from "../../src/contracts/store.js";
import { createHandler, createNodeListener } from "../../src/http/index.js";
import { createKeyring, memoryStore } from "../../src/index.js";
import { createConsole } from "../../src/console/index.js";

const KEYS = 1_500;
const servers: Server[] = [];
afterEach(() => {
  vi.restoreAllMocks();
  for (const server of servers.splice(0)) server.close();
});

/** A store whose searches look at few keys at a time, and wait at the first slice for what `onFirst` returns. */
async function world() {
  const inner = memoryStore();
  const keyring = createKeyring(inner);
  const { apiId } = await keyring.createApi({ name: "documents" });
  for (let i = 0; i < KEYS; i++) await keyring.createKey({ apiId });
  const { key: rootKey } = await keyring.createRootKey({ permissions: ["api.*.read_key", "api.*.read_api"] });
  const seen = { slices: 0, onFirst: (): Promise<unknown> => Promise.resolve() };
  const store: Store = {
    ...inner,
    async searchKeys(search: KeySearch) {
      if (++seen.slices === 1) await seen.onFirst();
      return inner.searchKeys!({ ...search, among: Math.min(search.among, 50) });
    },
  };
  const ask = (url: string, body: object, signal?: AbortSignal) =>
    new Request(`${url}/v2/keys.searchKeys`, {
      method: "POST",
      headers: { authorization: `Bearer ${rootKey}`, "content-type": "application/json" },
      body: JSON.stringify(body),
      ...(signal !== undefined && { signal }),
    });
  return { store, seen, ask, keyring };
}

/** Unlike a search, which ends after 80 ms, it looks at every key. */
const ALL = { order: "lastUsed" };

describe("a search whose client has gone", () => {
  it("ends after the slice that is being read: fetch", async () => {
    const { store, seen, ask } = await world();
    const handler = createHandler(store);
    const gone = new AbortController();
    seen.onFirst = async () => gone.abort();
    expect((await handler(ask("http://keys.test", ALL, gone.signal))).status).toBe(400);
    expect(seen.slices).toBe(1);
    expect((await handler(ask("http://keys.test", ALL))).status).toBe(200);
    expect(seen.slices).toBeGreaterThan(20);
    await handler.close();
  });

  it("ends after the slice that is being read: node", async () => {
    const { store, seen, ask } = await world();
    const lines: string[] = [];
    let tell = (): void => undefined;
    const told = new Promise<void>((resolve) => (tell = resolve));
    const listener = createNodeListener(store, { log: (line) => (lines.push(line), tell()) });
    const server = createServer(listener);
    servers.push(server);
    const closed = new Promise<void>((resolve) =>
      server.on("connection", (socket) => socket.on("close", () => resolve())),
    );
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const gone = new AbortController();
    seen.onFirst = () => {
      gone.abort();
      return closed;
    };
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    await expect(fetch(ask(url, ALL, gone.signal))).rejects.toThrow();
    await told;
    expect(JSON.parse(lines[0]!)).toMatchObject({ status: 400 });
    expect(seen.slices).toBe(1);
    await listener.close();
  });

  it("an order that is kept for others is worked out to its end", async () => {
    const { store, seen, ask } = await world();
    const handler = createHandler(store);
    const gone = new AbortController();
    seen.onFirst = async () => gone.abort();
    const body = { order: "lastUsed", maxAge: 60_000 };
    expect((await handler(ask("http://keys.test", body, gone.signal))).status).toBe(200);
    const { slices } = seen;
    expect(slices).toBeGreaterThan(20);
    expect((await handler(ask("http://keys.test", body))).status).toBe(200);
    expect(seen.slices).toBe(slices);
    seen.slices = 0;
    expect((await handler(ask("http://keys.test", { order: "lastUsed" }, gone.signal))).status).toBe(400);
    expect(seen.slices).toBe(1);
    await handler.close();
  });

  it("in the console: a page stops", async () => {
    const { store, seen, keyring } = await world();
    const { key } = await keyring.createRootKey({ permissions: ["api.*.read_key", "api.*.read_api"] });
    const show = createConsole(store);
    const origin = "http://localhost";
    const form = { method: "POST", headers: { origin }, body: new URLSearchParams({ key }) };
    const signedIn = await show(new Request(`${origin}/sign-in`, form));
    const cookie = signedIn.headers.get("set-cookie")?.split(";")[0] ?? "";
    const gone = new AbortController();
    const load = (signal: AbortSignal) =>
      show(new Request(`${origin}/keys?search=no-key-has-this`, { headers: { cookie }, signal }));
    seen.onFirst = async () => gone.abort();
    seen.slices = 0;
    // So that no page ends for its time before it is known that nobody waits for it.
    const clock = vi.spyOn(performance, "now").mockReturnValue(0);
    expect((await load(gone.signal)).status).toBe(400);
    clock.mockRestore();
    expect(seen.slices).toBe(1);
    expect((await load(new AbortController().signal)).status).toBe(200);
    await show.close();
  });
});
