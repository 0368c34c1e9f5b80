/**
 * Whatever a client sends, it gets the envelope, no 5xx, and nothing of its secrets back. Contract 1, 2.4, ruling G4.
 */
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { OPERATIONS } from "../../src/http/operations/index.js";
import { runs } from "../runs.js";
import { type World, world } from "./support.js";

const STATUSES = [200, 400, 401, 403, 404, 405, 409, 413, 415];

describe("any request", () => {
  let w: World;
  let ids: string[];
  beforeAll(async () => {
    w = await world({ maxBodyBytes: 4_096 });
    const { key, keyId } = await w.create({ credits: { remaining: 5 } });
    await w.keyring.createRole({ name: "editor", permissions: ["a.b"] });
    ids = [
      key,
      keyId,
      w.apiId,
      "editor",
      "a.b",
      "__proto__",
      "constructor",
      "toString",
      "",
      "😀",
      "\ud800",
      "a".repeat(300),
    ];
  });
  afterAll(() => w.close());

  const name = fc.constantFrom(...Object.keys(OPERATIONS));
  const path = fc.oneof(
    { arbitrary: name.map((operation) => `/v2/${operation}`), weight: 8 },
    fc.webPath(),
    fc.constantFrom("/", "/v2/liveness", "/docs", "/openapi.json", "/v2/keys.verifyKey/", "/v2/keys.verifyKey?key=1"),
  );
  const method = fc.constantFrom("POST", "POST", "POST", "POST", "GET", "PUT", "DELETE", "OPTIONS");
  const type = fc.constantFrom(
    "application/json",
    "application/json",
    "application/json",
    "application/json; charset=utf-8",
    "text/plain",
    "application/json; charset=latin1",
    "",
  );
  const credential = fc.oneof(
    { arbitrary: fc.constant(undefined), weight: 8 },
    fc.constantFrom("Bearer", "Basic x", "Bearer a.b.c", "Bearer nobody"),
  );

  it("is answered in the envelope", async () => {
    const value = fc.oneof(
      fc.jsonValue(),
      fc.integer(),
      fc.boolean(),
      fc.nat({ max: 11 }).map((n) => ids[n]),
    );
    const properties = name.chain((operation) => {
      const { request } = OPERATIONS[operation]!;
      const names = Object.keys((request.items ?? request).properties ?? {});
      return fc
        .dictionary(fc.constantFrom(...names, "extra", "__proto__"), value, { maxKeys: 6 })
        .map((body): [string, unknown] => [operation, request.items ? [body] : body]);
    });
    const sensible = properties.map(([operation, body]) => ({
      path: `/v2/${operation}`,
      method: "POST",
      type: "application/json",
      body: JSON.stringify(body),
    }));
    const body = fc.oneof(fc.string(), fc.json(), fc.uint8Array({ maxLength: 5_000 }), fc.constant(undefined));
    const wild = fc.record({ path, method, type, body });
    await fc.assert(
      fc.asyncProperty(fc.oneof(sensible, sensible, wild), credential, async (asked, sent) => {
        const headers = { "content-type": asked.type, authorization: sent ?? w.authorization };
        const withBody = asked.method !== "GET" && asked.body !== undefined && { body: asked.body };
        // `send` holds every answer against the OpenAPI document.
        const { status, text } = await w.send(asked.path, { method: asked.method, headers, ...withBody });
        expect(STATUSES).toContain(status);
        if (!asked.path.startsWith("/docs")) expect(text).not.toMatch(/<html|at .*\.ts:\d+|root_[A-Za-z0-9]{8}/);
      }),
      { numRuns: runs(600) },
    );
  });
});
