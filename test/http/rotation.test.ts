/** Rotation over HTTP and from the command line: one successor for a key, whoever asks, and how often. */
import { describe, expect, it } from "vitest";
import { runAs } from "../cli/support.js";
import { HOSTS, world } from "./support.js";

const DAY = 86_400_000;

describe.each(HOSTS)("rotation on the %s host", (host) => {
  it("only the newest key of a chain is rotated; another is a 409 that names it, also of many at once", async () => {
    const { call, create, keyring, apiId, close } = await world({ host });
    const { keyId } = await create();
    const reroll = (id: string) => call("keys.rerollKey", { keyId: id, expiration: 0 });
    const answers = await Promise.all([1, 2, 3].map(() => reroll(keyId)));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409]);
    const { rerolledTo = "" } = await keyring.getKey({ keyId });
    for (const { status, body } of [...answers, await reroll(keyId)])
      if (status === 409) expect(body.error!.detail).toContain(rerolledTo);
    expect((await keyring.listKeys({ apiId })).data).toHaveLength(2);
    const made = answers.find(({ status }) => status === 200)!.body.data as { key: string };
    expect((await call("keys.verifyKey", { key: made.key })).body.data).toMatchObject({ code: "VALID" });
    const revived = await call("keys.updateKey", { keyId, expires: null });
    expect([revived.status, revived.body.error!.errors![0]!.location]).toEqual([400, "body.expires"]);
    await close();
  });
});

it("rotation from the command line: a second one fails, and names the newest key", async () => {
  const { rootKey, create, keyring, send, close } = await world();
  const fetch = async (input: string | URL | Request, init?: RequestInit) => {
    const { pathname } = new URL(input instanceof Request ? input.url : input);
    const asked = {
      method: init!.method!,
      headers: init!.headers as Record<string, string>,
      body: init!.body as string,
    };
    const { status, headers, text } = await send(pathname, asked);
    return new Response(text, { status, headers });
  };
  const { keyId } = await create();
  const argv = ["api", "keys", "reroll-key", "--key-id", keyId, "--expiration", String(DAY)];
  expect((await runAs(rootKey, argv, { fetch })).code).toBe(0);
  const { rerolledTo = "" } = await keyring.getKey({ keyId });
  const { code, stderr } = await runAs(rootKey, argv, { fetch });
  expect([code, stderr]).toEqual([1, expect.stringContaining(rerolledTo)]);
  await close();
});
