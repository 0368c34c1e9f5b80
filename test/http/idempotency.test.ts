/** The header `Idempotency-Key`: its forms, its errors, whose key it is, and which operations take it. */
import { describe, expect, it } from "vitest";
import { readIdempotencyKey } from "../../src/http/idempotency-key.js";
import { OPERATIONS } from "../../src/http/operations/index.js";
import { memoryStore } from "../../src/index.js";
import { HOSTS, world, type WorldOptions } from "./support.js";

const UUID = "8e03978e-40d5-43dd-bc93-6894a57f9324";

describe("readIdempotencyKey", () => {
  it.each([
    [`"${UUID}"`, UUID],
    [UUID, UUID],
    [`  "a b, c; d"  `, "a b, c; d"],
    [String.raw`"say \"hi\" \\ bye"`, String.raw`say "hi" \ bye`],
    [`"${"\\\\".repeat(255)}"`, "\\".repeat(255)],
    ["a:b/c=d_e~f", "a:b/c=d_e~f"],
  ])("reads %s", (header, key) => {
    expect(readIdempotencyKey(header)).toBe(key);
  });

  it.each([
    ...["", '""', " ", '"', '"a', 'a"', '"a"b', '"a" "b"', '"a", "b"', "a, b", "a,b", "a b", "a;b", '"a";b=1', "a\\b"],
    ...['"\\a"', '"a\\"', '"é"', "é", '"a\u0000"', `"${"x".repeat(256)}"`, "x".repeat(256), "x".repeat(100_000)],
  ])("refuses %j", (header) => {
    expect(() => readIdempotencyKey(header)).toThrow(
      expect.objectContaining({ code: "BAD_REQUEST", errors: [expect.objectContaining({ location: LOCATION })] }),
    );
  });
});

const LOCATION = "headers.Idempotency-Key";
const JSON_TYPE = { "content-type": "application/json" };

async function service(options: WorldOptions) {
  const made = await world(options);
  const { key, keyId } = await made.create({ credits: { remaining: 10 } });
  const { keyring } = made;
  const left = async () => (await keyring.getKey({ keyId })).credits?.remaining;
  const { key: root } = await keyring.createRootKey({ permissions: ["api.*.verify_key"] });
  const { key: otherRoot } = await keyring.createRootKey({ permissions: ["api.*.verify_key"] });
  const verify = (idempotencyKey: string, body: object = {}, credential = root) =>
    made.send("/v2/keys.verifyKey", {
      method: "POST",
      headers: { ...JSON_TYPE, authorization: `Bearer ${credential}`, "idempotency-key": idempotencyKey },
      body: JSON.stringify({ key, ...body }),
    });
  return { ...made, left, verify, otherRoot };
}

describe.each(HOSTS)("Idempotency-Key where it is not taken: %s", (host) => {
  it("every operation that does not document it refuses it, and does nothing", async () => {
    const { send, authorization, create, keyring, close } = await world({ host });
    const { keyId } = await create({ credits: { remaining: 10 } });
    const headers = { ...JSON_TYPE, authorization, "idempotency-key": UUID };
    const ask = (name: string, body: object) =>
      send(`/v2/${name}`, { method: "POST", headers, body: JSON.stringify(body) });
    const taking: string[] = [];
    for (const { name, headers: documented = {} } of Object.values(OPERATIONS)) {
      const { status, body } = await ask(name, {});
      const locations = body.error?.errors?.map(({ location }: { location: string }) => location) ?? [];
      expect([name, status, locations.includes(LOCATION)]).toEqual([name, 400, !(LOCATION.slice(8) in documented)]);
      if (!locations.includes(LOCATION)) taking.push(name);
    }
    expect(taking.sort()).toEqual([
      ...["identities.changePlan", "identities.endGrant", "identities.grantCredits", "identities.updateCredits"],
      ...["keys.changePlan", "keys.endGrant", "keys.grantCredits", "keys.updateCredits", "keys.verifyKey"],
    ]);
    for (const _ of [1, 2]) expect((await ask("keys.updateKey", { keyId, name: "n" })).status).toBe(400);
    expect((await keyring.getKey({ keyId })).name).toBeUndefined();
    await close();
  });

  it("a caller without a grant of the action learns nothing of it: 401 and 403 come first", async () => {
    const { send, keyring, close } = await world({ host });
    const { key } = await keyring.createRootKey({ permissions: ["api.*.verify_key"] });
    const statusOf = async (credential: string) => {
      const authorization = `Bearer ${credential}`;
      const headers = { ...JSON_TYPE, authorization, "idempotency-key": UUID };
      return (await send("/v2/keys.updateCredits", { method: "POST", headers, body: "{}" })).status;
    };
    expect([await statusOf("root_unknown"), await statusOf(key)]).toEqual([401, 403]);
    await close();
  });
});

describe.each(HOSTS)("Idempotency-Key of changes of credits: %s", (host) => {
  it("a repeat changes nothing and says so, another body is a 422, and each root key has its own", async () => {
    const { send, authorization, create, keyring, close } = await world({ host });
    const { keyId } = await create({ credits: { remaining: 10 } });
    await keyring.createIdentity({ externalId: "ada", credits: { remaining: 10 } });
    const { key: other } = await keyring.createRootKey({ permissions: ["api.*.update_key", "api.*.read_api"] });
    const add = { operation: "increment", value: 5 };
    const ask = async (name: string, body: object, header = `"${UUID}"`, credential = authorization) => {
      const headers = { ...JSON_TYPE, authorization: credential, "idempotency-key": header };
      const answer = await send(`/v2/${name}`, { method: "POST", headers, body: JSON.stringify(body) });
      return [answer.status, answer.body.data ?? answer.body.error.type.split("/").at(-1)] as const;
    };
    const change = { keyId, ...add };
    expect(await ask("keys.updateCredits", change)).toEqual([200, { remaining: 15 }]);
    for (const header of [UUID, `"${UUID}"`])
      expect(await ask("keys.updateCredits", change, header)).toEqual([200, { remaining: 15, repeated: true }]);
    expect(await ask("keys.updateCredits", { ...change, value: 6 })).toEqual([422, "idempotency_mismatch"]);
    expect(await ask("identities.updateCredits", { identity: "ada", ...add })).toEqual([422, "idempotency_mismatch"]);
    expect((await ask("keys.updateCredits", change, '"a", "b"'))[0]).toBe(400);
    expect(await ask("keys.updateCredits", change, UUID, `Bearer ${other}`)).toEqual([200, { remaining: 20 }]);
    // The program is not a root key either.
    expect(await keyring.updateCredits(change as never, { idempotencyKey: UUID })).toEqual({ remaining: 25 });
    const identities = () => ask("identities.updateCredits", { identity: "ada", ...add }, "second");
    expect(await identities()).toEqual([200, { remaining: 15 }]);
    expect(await identities()).toEqual([200, { remaining: 15, repeated: true }]);
    await close();
  });
});

describe.each(HOSTS)("Idempotency-Key: %s", (host) => {
  it("a repeat answers again and takes nothing, quoted or bare; each root key has its own", async () => {
    const { verify, left, otherRoot, close } = await service({ host });
    for (const header of [`"${UUID}"`, UUID]) {
      const { status, body } = await verify(header);
      expect([status, body]).toMatchObject([200, { data: { code: "VALID", credits: 9 } }]);
    }
    expect((await verify(UUID, { tags: ["x"] }, otherRoot)).status).toBe(200);
    expect(await left()).toBe(8);
    await close();
  });

  it("another body is a 422, a call in flight a 409, no space a 503, a bad header a 400", async () => {
    const faults: unknown[] = [];
    const { verify, left, close } = await service({
      host,
      verifier: { idempotency: { records: 2, recordsPerWorkspace: 2 } },
      onError: (error) => faults.push(error),
    });
    const both = await Promise.all([verify(UUID), verify(UUID)]);
    // Over sockets one may have ended before the other began.
    expect(both.map(({ status }) => status).every((status) => status === 200 || status === 409)).toBe(true);
    expect(both.some(({ status }) => status === 200)).toBe(true);
    const other = await verify(UUID, { tags: ["x"] });
    expect(other.status).toBe(422);
    expect(other.body).toMatchObject({
      error: { status: 422, type: expect.stringMatching(/\/errors\/user\/bad_request\/idempotency_mismatch$/) },
    });
    const bad = await verify('"a", "b"');
    expect([bad.status, bad.body]).toMatchObject([400, { error: { errors: [{ location: LOCATION }] } }]);
    expect((await verify("second")).status).toBe(200);
    const full = await verify("third");
    expect([full.status, full.headers.get("retry-after")]).toEqual([503, "1"]);
    expect(full.body).toMatchObject({ error: { type: expect.stringMatching(/application\/idempotency_full$/) } });
    expect(faults).toMatchObject([{ code: "IDEMPOTENCY_FULL" }]);
    expect(await left()).toBe(8);
    await close();
  });
});

describe("Idempotency-Key", () => {
  it("two at once: one is told that the other is in flight", async () => {
    const { verify, left, close } = await service({});
    const statuses = (await Promise.all([verify(UUID), verify(UUID), verify(UUID)])).map(({ status }) => status);
    expect(statuses.sort()).toEqual([200, 409, 409]);
    expect(await left()).toBe(9);
    await close();
  });

  it("is in the document of the interface, with its statuses", async () => {
    const { send, close } = await service({});
    const { paths } = (await send("/openapi.json")).body as unknown as {
      paths: Record<string, { post: { parameters?: { name: string }[]; responses: object } }>;
    };
    const { parameters, responses } = paths["/v2/keys.verifyKey"]!.post;
    expect(parameters).toMatchObject([{ name: "Idempotency-Key", in: "header", required: false }]);
    expect(Object.keys(responses)).toEqual(expect.arrayContaining(["409", "422", "503"]));
    expect(paths["/v2/keys.createKey"]!.post.parameters).toBeUndefined();
    const page = await send("/docs/keys.verifyKey");
    expect(page.text).toContain("Idempotency-Key");
    await close();
  });

  it("a store without the power is a fault of the service", async () => {
    const faults: unknown[] = [];
    const store = memoryStore();
    const powers = { ...store.powers, idempotency: false };
    const { verify, close } = await service({
      store: { ...store, powers },
      onError: (error) => faults.push(error),
    });
    expect((await verify(UUID)).status).toBe(500);
    expect(faults).toMatchObject([{ code: "STORE_POWER_MISSING" }]);
    await close();
  });
});
