/** What a node does while the server is out of reach: within the bound, beyond it, and with `outage.serveStale`. */
import { describe, expect, it, vi } from "vitest";
import { createKeyring } from "../../../src/keyring/keyring.js";
import { type PostgresOutageOptions, postgresStore } from "../../../src/stores/postgres/index.js";
import { createVerifier } from "../../../src/verify/verifier.js";
import { pglite } from "./support.js";

const { server, newSchema } = pglite();
const BOUND = 200;
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** A node that remembers a key without credits, and a switch for its server. */
async function node(outage: PostgresOutageOptions, timeout = 5_000) {
  const net = { isDown: false, isHung: false };
  const client = {
    query: (text: string, values: (string | null)[]): Promise<unknown> => {
      if (net.isDown) return Promise.reject(Object.assign(new Error(), { code: "ECONNREFUSED" }));
      return net.isHung ? new Promise(() => undefined) : server.query(text, values);
    },
  };
  const store = postgresStore(client, { schema: newSchema(), bound: BOUND, poll: 50, outage, timeout });
  await store.setUp();
  const keyring = createKeyring(store);
  const { apiId } = await keyring.createApi({ name: "docs" });
  const { key } = await keyring.createKey({ apiId });
  const { key: limited } = await keyring.createKey({ apiId, credits: { remaining: 10 } });
  const verifier = createVerifier(store, { usage: false });
  const codeOf = async (one: string) => {
    try {
      return (await verifier.verify({ key: one })).code;
    } catch (error) {
      return (error as { code: string }).code;
    }
  };
  for (const one of [key, limited]) expect(await codeOf(one)).toBe("VALID");
  return { net, key, limited, codeOf, close: async () => (await verifier.close(), await store.close()) };
}

describe("postgres: an outage", () => {
  it("fails closed at the bound, credits and unknown keys at once, and is over with the first poll", async () => {
    const { net, key, limited, codeOf, close } = await node({});
    net.isDown = true;
    expect(await codeOf(limited)).toBe("STORE_UNAVAILABLE");
    expect(await codeOf(`${key}x`)).toBe("STORE_UNAVAILABLE");
    await pause(BOUND + 50);
    expect(await codeOf(key)).toBe("STORE_UNAVAILABLE");
    net.isDown = false;
    for (const one of [key, limited]) expect(await codeOf(one)).toBe("VALID");
    await close();
  });

  it("serveStale: what is remembered verifies for as long, and no longer", async () => {
    const { net, key, limited, codeOf, close } = await node({ serveStale: 600 });
    net.isDown = true;
    await pause(BOUND + 50);
    expect(await codeOf(key)).toBe("VALID");
    expect(await codeOf(limited)).toBe("STORE_UNAVAILABLE");
    await pause(700);
    expect(await codeOf(key)).toBe("STORE_UNAVAILABLE");
    await close();
  });

  it("serveStale: once it is known that the server hangs, no call waits for it, and its return is noticed", async () => {
    const { net, key, codeOf, close } = await node({ serveStale: 3_600_000 }, 1_500);
    net.isHung = true;
    await pause(BOUND + 50);
    expect(await codeOf(key)).toBe("VALID");
    const began = performance.now();
    for (let i = 0; i < 10; i++) {
      await pause(20);
      expect(await codeOf(key)).toBe("VALID");
    }
    // Each that waits takes up to 1.5 s.
    expect(performance.now() - began).toBeLessThan(5_000);
    net.isHung = false;
    await vi.waitFor(async () => expect(await codeOf(`${key}x`)).toBe("NOT_FOUND"), 10_000);
    await close();
  });
});
