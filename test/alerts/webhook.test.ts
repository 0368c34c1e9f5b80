/** Alerts as Standard Webhooks: what arrives is what the receiver can verify, and nothing but a 2xx counts. */
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { afterEach, describe, expect, it } from "vitest";
import { createAlerts, createKeyring, memoryStore } from "../../src/index.js";

const BYTES = Buffer.from("0123456789abcdef0123456789abcdef");
const SECRET = `whsec_${BYTES.toString("base64")}`;

interface Received {
  readonly method: string | undefined;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

const servers: Server[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
    await once(server, "close");
  }
});

/** A receiver, and an alert that is posted to it. */
async function posted(
  answer: (response: ServerResponse, received: Received, url: string) => unknown,
  timeout = 20_000,
) {
  const received: Received[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const one = { method: request.method, headers: request.headers, body: Buffer.concat(chunks).toString("utf8") };
      received.push(one);
      answer(response, one, url);
    });
  });
  servers.push(server);
  await once(server.listen(0, "127.0.0.1"), "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
  const store = memoryStore();
  const keyring = createKeyring(store);
  const { apiId } = await keyring.createApi({ name: "documents" });
  const { keyId } = await keyring.createKey({ apiId, externalId: "日本", credits: { remaining: 3 } });
  const errors: string[] = [];
  let now = Date.now();
  const alerts = createAlerts(store, {
    ...{ creditsBelow: 10, interval: 0, timeout, clock: () => now },
    deliver: { url, secret: SECRET },
    onError: (error) => errors.push(String(error)),
  });
  return { alerts, received, errors, keyId, store, later: (ms: number) => void (now += ms) };
}

describe("webhooks of alerts", () => {
  it("are signed so that a receiver verifies them by the secret alone, the same at each try but for its time", async () => {
    const { alerts, received, keyId, later } = await posted((response) =>
      response.writeHead(received.length === 1 ? 503 : 204).end(),
    );
    await alerts.run();
    later(5_000);
    await alerts.run();
    expect(received).toHaveLength(2);
    for (const { method, headers, body } of received) {
      expect([method, headers["content-type"]]).toEqual(["POST", "application/json"]);
      const [id, timestamp] = [headers["webhook-id"], headers["webhook-timestamp"]] as string[];
      expect(Math.abs(Date.now() / 1_000 - Number(timestamp))).toBeLessThan(5);
      const signature = createHmac("sha256", BYTES).update(`${id}.${timestamp}.${body}`).digest("base64");
      expect(headers["webhook-signature"]).toBe(`v1,${signature}`);
      expect(JSON.parse(body)).toEqual({
        type: "credits.low",
        timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/) as string,
        data: { workspaceId: "ws_default", keyId, externalId: "日本", remaining: 3 },
      });
      expect(body + JSON.stringify(headers)).not.toContain(SECRET.slice(6));
    }
    expect(received[0]!.headers["webhook-id"]).toBe(received[1]!.headers["webhook-id"]);
    expect(received[0]!.body).toBe(received[1]!.body);
    expect((await alerts.list("pending")).alerts).toEqual([]);
  });

  it.each([301, 302, 307, 308])("a redirect by %i is not followed, and is a failure", async (status) => {
    const { alerts, received, errors } = await posted((response, _, url) =>
      response.writeHead(status, { location: `${url}/elsewhere` }).end(),
    );
    expect(await alerts.run()).toMatchObject({ delivered: 0, failed: 1 });
    expect(received).toHaveLength(1);
    expect(errors).toEqual([`Error: the webhook returned ${status}`]);
    expect((await alerts.list("pending")).alerts).toHaveLength(1);
  });

  it("one that does not answer in time, or breaks off, is a failure", async () => {
    const silent = await posted(() => undefined, 100);
    expect(await silent.alerts.run()).toMatchObject({ delivered: 0, failed: 1 });
    expect(silent.errors).toEqual([expect.stringMatching(/not delivered within 100 ms|aborted/)]);
    const broken = await posted((response) => response.destroy());
    expect(await broken.alerts.run()).toMatchObject({ delivered: 0, failed: 1 });
    expect(JSON.stringify([silent.errors, broken.errors])).not.toContain("127.0.0.1");
    await pause(10);
  });

  it("where all of a batch fail, the rest waits for the next run", async () => {
    const { alerts, received, store } = await posted((response) => response.writeHead(500).end());
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "more" });
    for (let i = 0; i < 30; i++) await keyring.createKey({ apiId, credits: { remaining: 1 } });
    expect(await alerts.run()).toEqual({ raised: 31, delivered: 0, failed: 10 });
    expect(await alerts.run()).toEqual({ raised: 0, delivered: 0, failed: 10 });
    expect(received).toHaveLength(20);
  });

  it("neither the address nor the secret is stored", async () => {
    const { alerts } = await posted((response) => response.writeHead(500).end());
    await alerts.run();
    expect(JSON.stringify(await alerts.list("pending"))).not.toMatch(/whsec|127\.0\.0\.1/);
  });
});
