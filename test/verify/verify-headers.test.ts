/** verifyHeaders: the key of a request's headers, verified as any other. */
import type { IncomingHttpHeaders } from "node:http";
import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { type HeadersLike, verifyHeaders } from "../../src/index.js";
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

  it("takes one value of one header, and only what is text", async () => {
    const { verifier, create } = await world();
    const { key } = await create();
    const code = async (value: unknown) =>
      (await verifyHeaders(verifier, { "x-api-key": value } as never, { headers: ["X-Api-Key"] })).code;
    expect(await code(key)).toBe("VALID");
    expect(await code([key])).toBe("VALID");
    for (const value of [[key, key], [key.slice(0, 9), key.slice(9)], [], 5, { toString: () => key }, undefined, null])
      expect(await code(value)).toBe("NOT_FOUND");
    const fetched = { get: (name: string) => (name === "x-api-key" ? key : null) };
    expect((await verifyHeaders(verifier, fetched)).code).toBe("VALID");
  });

  it("takes a key that has the form of a signed token as any other", async () => {
    const { verifier, keyring, apiId } = await world();
    const token = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl";
    const { migrationId } = await keyring.createMigration({ algorithm: "sha256" });
    const hash = createHash("sha256").update(token).digest("hex");
    await keyring.migrateKeys({ migrationId, apiId, keys: [{ hash }] });
    expect((await verifyHeaders(verifier, { authorization: `Bearer ${token}` })).code).toBe("VALID");
  });

  it("passes on what belongs to the call: caller and idempotency key too", async () => {
    const { verifier, create } = await world();
    const { key } = await create({ credits: { remaining: 5 } });
    const headers = { "x-api-key": key };
    for (let i = 0; i < 2; i++)
      expect(await verifyHeaders(verifier, headers, { idempotencyKey: "a" })).toMatchObject({ credits: 4 });
    const caller = { workspaceId: "ws_default", may: () => false, mayAny: () => true };
    expect(await verifyHeaders(verifier, headers, { caller })).toEqual(NOT_FOUND);
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
    const web = new Request("http://x/", { headers });
    for (const none of ["x", null, undefined, () => headers, [], { headers }, { headers: new Headers() }, web])
      await expect(verifyHeaders(verifier, none as never)).rejects.toThrow(
        new TypeError("headers must be the headers of a request: those of fetch, or Node's object"),
      );
    // As a request of Express.
    const express = { headers, get: (name: string) => (headers as Record<string, string>)[name] ?? null };
    expect((await verifyHeaders(verifier, express)).code).toBe("VALID");
    for (const options of [[], null, "x", new Date()])
      await expect(verifyHeaders(verifier, headers, options as never)).rejects.toThrow(
        new TypeError("options must be an object, not an array or a class instance"),
      );
    for (const names of [[], "x-api-key", null, [""], ["x-api-key", "a b"], ["x:"], ["\u00e9"], [5], ["x-api-key\n"]])
      await expect(verifyHeaders(verifier, headers, { headers: names as never })).rejects.toThrow(
        new TypeError("options.headers must be an array of header names"),
      );
    await expect(verifyHeaders(verifier, headers, { key: "x" } as never)).rejects.toThrow(
      new TypeError("options.key is not an option: the headers hold the key"),
    );
    await verifier.close();
    expect((await failure(verifyHeaders(verifier, headers))).code).toBe("VERIFIER_CLOSED");
  });

  it("does not compile with options in the place of the headers, and does with those of Node and of fetch", () => {
    const node: IncomingHttpHeaders = {};
    const fits: HeadersLike[] = [node, new Headers(), { authorization: "Bearer x" }];
    // @ts-expect-error: the headers are missing
    const options: HeadersLike = { apiId: "api_documents" };
    // @ts-expect-error: the headers are missing
    const query: HeadersLike = { permissions: "documents.read" };
    expect([...fits, options, query]).toHaveLength(5);
  });
});
