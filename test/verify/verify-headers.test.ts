/** verifyHeaders: the key of a request's headers, verified as any other. */
import { describe, expect, it } from "vitest";
import { verifyHeaders } from "../../src/index.js";
import { failure, world } from "../spec/support.js";

const NOT_FOUND = { valid: false, code: "NOT_FOUND" };

describe("verifyHeaders", () => {
  it("reads Bearer, then x-api-key, of fetch and of Node, and passes on what else is asked for", async () => {
    const { verifier, create, apiId } = await world();
    const { key, keyId } = await create({ permissions: ["a"], credits: { remaining: 9 }, ipAllowlist: ["10.0.0.1"] });
    const options = { permissions: "a", credits: { cost: 2 }, clientAddress: "10.0.0.1", apiId };
    for (const headers of [
      new Headers({ Authorization: `Bearer ${key}` }),
      { authorization: `bEARER  ${key} ` },
      { authorization: "Basic abc", "x-api-key": key },
      { authorization: [`Bearer ${key}`] },
    ])
      expect(await verifyHeaders(verifier, headers, options)).toMatchObject({ code: "VALID", keyId });
    expect(await verifyHeaders(verifier, { token: key }, { ...options, headers: ["Token"] })).toMatchObject({
      code: "USAGE_EXCEEDED",
      credits: 1,
    });
  });

  it("without a key, or with what cannot be one, is NOT_FOUND without a call of the store", async () => {
    const { verifier, create, calls } = await world();
    const { key } = await create();
    const before = { ...calls };
    for (const headers of [
      {},
      new Headers(),
      { authorization: `Bearer ${key}, Bearer ${key}` },
      { authorization: "Bearer" },
      { authorization: `Bearer\t${key}`, "x-api-key": key },
      { "x-api-key": "x".repeat(513) },
      { "x-api-key": "\ud800" },
      Object.create({ "x-api-key": key }) as object,
    ])
      expect(await verifyHeaders(verifier, headers as never)).toEqual(NOT_FOUND);
    expect(calls).toEqual(before);
  });

  it("refuses what is no request, no headers and no name of one", async () => {
    const { verifier, create } = await world();
    const headers = { "x-api-key": (await create()).key };
    expect((await failure(verifyHeaders(verifier, headers, { permissions: "a AND" }))).code).toBe(
      "PERMISSIONS_QUERY_SYNTAX",
    );
    expect((await failure(verifyHeaders(verifier, headers, { scope: 1 } as never))).errors[0]?.location).toBe(
      "body.scope",
    );
    await expect(verifyHeaders(verifier, "x" as never)).rejects.toThrow(/^headers must be/);
    await expect(verifyHeaders(verifier, headers, [] as never)).rejects.toThrow(/^options must be/);
    await expect(verifyHeaders(verifier, headers, { headers: [] })).rejects.toThrow(/^options\.headers must be/);
    await expect(verifyHeaders(verifier, headers, { key: "x" } as never)).rejects.toThrow(/^options\.key is not/);
    await verifier.close();
    expect((await failure(verifyHeaders(verifier, headers))).code).toBe("VERIFIER_CLOSED");
  });
});
