/** External ids over HTTP: the specification's pattern by default, and what the library takes by option. */
import { describe, expect, it } from "vitest";
import { createHandler, type HandlerOptions } from "../../src/http/index.js";
import { createKeyring, createVerifier, memoryStore } from "../../src/index.js";

async function stage(options: HandlerOptions, parts = false) {
  const store = memoryStore();
  const keyring = createKeyring(store);
  const { apiId } = await keyring.createApi({ name: "documents" });
  const permissions = ["api.*.create_key", "api.*.update_key", "api.*.read_key", "identity.*.create_identity"];
  const { key } = await keyring.createRootKey({ permissions });
  const handler = createHandler(parts ? { verifier: createVerifier(store), keyring } : store, options);
  const call = async (operation: string, body: object) => {
    const response = await handler(
      new Request(`http://localhost/v2/${operation}`, {
        method: "POST",
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        body: JSON.stringify(body),
      }),
    );
    const { data, error } = (await response.json()) as { data?: object; error?: { errors: { location: string }[] } };
    return error === undefined ? { status: response.status, data } : [response.status, error.errors[0]?.location];
  };
  const { keyId } = await keyring.createKey({ apiId });
  return { call, apiId, keyId };
}

describe("external ids over HTTP", () => {
  it.each(["auth0|123", "someone@example.com", "a b"])(
    "%s is refused by default, and taken by option",
    async (externalId) => {
      for (const parts of [false, true]) {
        for (const [options, expected] of [
          [{}, [400, "body.externalId"]],
          [{ externalIds: "specified" }, [400, "body.externalId"]],
          [{ externalIds: "any" }, { status: 200 }],
        ] as const) {
          const { call, apiId, keyId } = await stage(options, parts);
          expect(await call("keys.createKey", { apiId, externalId })).toMatchObject(expected);
          expect(await call("keys.updateKey", { keyId, externalId: `${externalId}+` })).toMatchObject(expected);
          expect(await call("identities.createIdentity", { externalId: `${externalId}++` })).toMatchObject(expected);
        }
      }
    },
  );

  it("control characters are refused in any case, and a past `expires` is taken, as the specification has it", async () => {
    const { call, apiId } = await stage({ externalIds: "any" });
    expect(await call("keys.createKey", { apiId, externalId: "a\nb" })).toEqual([400, "body.externalId"]);
    expect(await call("keys.createKey", { apiId, expires: 1_700_000_000 })).toMatchObject({ status: 200 });
    expect(await call("keys.createKey", { apiId, expiresIn: 1_000 })).toEqual([400, "body.expiresIn"]);
    expect(() => createHandler(memoryStore(), { externalIds: "all" as never })).toThrow(/^options\.externalIds must/);
  });

  it("a key is shown without the library's own fields", async () => {
    const { call, keyId } = await stage({});
    expect(await call("keys.getKey", { keyId })).toEqual({
      status: 200,
      data: { keyId, start: expect.any(String), enabled: true, createdAt: expect.any(Number) },
    });
  });
});
