/**
 * The OpenAPI document is valid, says what requests must be as validation does, and is checked against real responses;
 * the pages need nothing else.
 */
import { Validator } from "@seriousme/openapi-schema-validator";
import addFormats from "ajv-formats";
import { Ajv2020 } from "ajv/dist/2020.js";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { KeystileError, listProblemTypes } from "../../../src/contracts/errors.js";
import { toOpenApi } from "../../../src/http/docs/openapi.js";
import { OPERATIONS } from "../../../src/http/operations/index.js";
import type { JsonSchema } from "../../../src/keyring/schemas/json-schema.js";
import { PLAIN_NAME } from "../../../src/lib/problems.js";
import { runs } from "../../runs.js";
import { DOCUMENT } from "../../wider-interface.js";
import { faultsOf, world } from "../support.js";

const document = JSON.parse(toOpenApi());

/** Every text in a schema by its path, below `root`. */
function textsIn(schema: JsonSchema, root = ""): Map<string, JsonSchema> {
  const found = new Map<string, JsonSchema>();
  const visit = (given: JsonSchema, path: string): void => {
    const one: JsonSchema =
      given.$ref === undefined ? given : document.components.schemas[given.$ref.split("/").at(-1)!];
    for (const [name, part] of Object.entries(one.properties ?? {})) visit(part, `${path}.${name}`);
    if (one.items) visit(one.items, `${path}[]`);
    if ([one.type].flat().includes("string") && path.startsWith(root)) found.set(path.slice(root.length), one);
  };
  visit(schema, "");
  return found;
}

describe("openapi: the document", () => {
  it("no name of a property is taken for a secret, so each can be named where it is wrong", () => {
    const namesIn = (value: unknown): string[] => {
      if (typeof value !== "object" || value === null) return [];
      const { properties } = value as { properties?: object };
      return [...Object.keys(properties ?? {}), ...Object.values(value).flatMap(namesIn)];
    };
    const names = namesIn(document);
    expect(names).toContain("revalidateKeysCache");
    expect(names.filter((name) => !PLAIN_NAME.test(name))).toEqual([]);
  });

  it.each([
    ["keys.createKey", "keys.getKey"],
    ["keys.updateKey", "keys.getKey"],
    ["identities.createIdentity", "identities.getIdentity"],
    ["apis.createApi", "apis.getApi"],
    ["permissions.createRole", "permissions.getRole"],
    ["permissions.createPermission", "permissions.getPermission"],
  ])("%s takes no text that %s could not show", (changing, showing) => {
    const { requestBody } = document.paths[`/v2/${changing}`].post;
    const { responses } = document.paths[`/v2/${showing}`].post;
    const taken = textsIn(requestBody.content["application/json"].schema);
    const shown = textsIn(responses["200"].content["application/json"].schema, ".data");
    const both = [...taken.keys()].filter((path) => shown.has(path));
    expect(both).not.toEqual([]);
    for (const path of both) {
      const [given = Infinity, answer = Infinity] = [taken.get(path)?.maxLength, shown.get(path)?.maxLength];
      expect([path, given <= answer]).toEqual([path, true]);
    }
  });

  it("is valid OpenAPI 3.1", async () => {
    const { valid, errors } = await new Validator().validate(structuredClone(document));
    expect(errors).toBeUndefined();
    expect(valid).toBe(true);
    expect(document.openapi).toBe("3.1.0");
  });

  it("has every operation of the table at its path, with its permissions, and liveness (contract 9-3)", () => {
    const names = Object.keys(document.paths).map((path) => path.slice("/v2/".length));
    expect(names.sort()).toEqual([...Object.keys(OPERATIONS), "liveness"].sort());
    for (const { name, permissions, also } of Object.values(OPERATIONS)) {
      const { operationId, description } = document.paths[`/v2/${name}`].post;
      expect(operationId).toBe(name);
      for (const permission of permissions) expect(description).toContain(`\`${permission}\``);
      for (const { permission, where = "" } of also)
        expect(description).toContain(`; and \`${permission}\`${where && ` where ${where}`}`);
    }
  });

  it.each(Object.entries(DOCUMENT))(
    "%s has the statuses that the wider interface and contract 4.1 list",
    (name, { statuses }) => {
      const described = Object.keys(document.paths[`/v2/${name}`].post.responses).map(Number);
      // What a shell answers besides: rulings C7, G1. No API is protected from deletion, no namespace is gone: 412 and
      // 410 never come.
      const ours = described.filter((status) => ![408, 413, 415, 431, 503].includes(status));
      // Of an idempotency key, which is ours too: in flight, and used with another body.
      // And of an identity on whose credits keys draw, which is not deleted, and a key that was rotated before.
      const conflicting = ["identities.deleteIdentity", "keys.rerollKey"].includes(name);
      const adjusting = ["keys.updateCredits", "identities.updateCredits"].includes(name);
      const more = name === "keys.verifyKey" ? [409, 422] : conflicting ? [409] : adjusting ? [422] : [];
      const theirs = [...statuses.filter((status) => status !== 410 && status !== 412), ...more].sort();
      // A role that is not there is a 404, as any other thing is (contract 7).
      expect(ours).toEqual(name === "permissions.deleteRole" ? [200, 400, 401, 403, 404, 429, 500] : theirs);
    },
  );

  it("a control: an answer that departs from it is found", () => {
    const headers = new Headers({ "content-type": "application/json", "x-request-id": "req_1234567890123456" });
    const meta = { requestId: "req_1234567890123456" };
    const answer = (data: object, status = 200) =>
      faultsOf("/v2/keys.verifyKey", "POST", { status, headers, body: { meta, data } });
    expect(answer({ valid: true, code: "VALID" })).toEqual([]);
    for (const data of [
      { valid: true },
      { valid: true, code: "VALID", hash: "x" },
      { valid: true, code: "VALID", credits: -1 },
    ])
      expect(answer(data), JSON.stringify(data)).not.toEqual([]);
    expect(answer({ valid: true, code: "VALID" }, 201)).not.toEqual([]);
  });
});

/** Every default of a schema, by its place. */
function defaultsOf(schema: JsonSchema, place = ""): [place: string, value: unknown][] {
  const { properties = {}, items } = schema;
  return [
    ...(schema.default === undefined ? [] : [[place, schema.default] as [string, unknown]]),
    ...Object.entries(properties).flatMap(([name, part]) => defaultsOf(part, `${place}.${name}`)),
    ...(items === undefined ? [] : defaultsOf(items, `${place}[]`)),
  ];
}

describe("openapi: defaults", () => {
  it("says those that the wider interface names, and no others", () => {
    const noPlaintext = { ".decrypt": false };
    const page = { ".limit": 100 };
    const listKeys = { ...page, ...noPlaintext, ".revalidateKeysCache": false };
    const limits = { ".ratelimits[].autoApply": false };
    expect(
      Object.fromEntries(
        Object.entries(OPERATIONS)
          .map(([name, { request }]) => [name, Object.fromEntries(defaultsOf(request))] as const)
          .filter(([, defaults]) => Object.keys(defaults).length > 0),
      ),
    ).toEqual({
      "apis.listApis": page,
      "apis.listKeys": listKeys,
      "audit.listAudit": page,
      "identities.createIdentity": limits,
      "identities.listIdentities": { ...page, ".details": false },
      "identities.updateIdentity": limits,
      "keys.createKey": { ".byteLength": 16, ".enabled": true, ".recoverable": false, ...limits },
      "keys.changeKeys": { ".dryRun": false, ".limit": 100 },
      "keys.deleteKey": { ".permanent": false },
      "keys.getKey": noPlaintext,
      "keys.explainKey": { ".ratelimits[].cost": 1 },
      "keys.listKeys": listKeys,
      "keys.searchKeys": { ".limit": 50, ".order": "made" },
      "rootKeys.listRootKeys": page,
      "keys.migrateKeys": { ".keys[].enabled": true },
      "keys.updateKey": limits,
      "keys.verifyKey": { ".ratelimits[].cost": 1 },
      "permissions.listPermissions": page,
      "permissions.listRoles": page,
      "ratelimit.limit": { ".cost": 1 },
      "ratelimit.listNamespaces": page,
      "ratelimit.listOverrides": { ".limit": 10 },
      "ratelimit.multiLimit": { "[].cost": 1 },
    });
  });

  it("lists that are not told a limit have pages of the size that it says", async () => {
    const { keyring, call, close } = await world();
    for (let i = 0; i < 101; i++) await keyring.createPermission({ name: "p", slug: `p${i}` });
    const overrides = Array.from({ length: 11 }, (_, i) => ({
      namespace: "ns",
      identifier: `i${i}`,
      limit: 5,
      duration: 1_000,
    }));
    for (const override of overrides) await call("ratelimit.setOverride", override);
    for (const [name, body] of Object.entries({
      "permissions.listPermissions": {},
      "ratelimit.listOverrides": { namespace: "ns" },
    })) {
      const limit = OPERATIONS[name]!.request.properties!["limit"]!.default;
      expect([name, (await call(name, body)).body.data.length]).toEqual([name, limit]);
    }
    await close();
  });
});

describe("openapi: requests", () => {
  const ajv = new Ajv2020({ strict: false });
  addFormats(ajv);

  it.each(Object.values(OPERATIONS).map((operation) => [operation.name, operation] as const))(
    "%s: what the document allows is what its judge allows",
    (_name, operation) => {
      const allows = ajv.compile(operation.request);
      const accepts = (body: unknown): boolean => {
        try {
          operation.validate(body);
          return true;
        } catch (error) {
          if (error instanceof KeystileError && error.status === 400) return false;
          throw error;
        }
      };
      const bodies = fc.oneof(
        { arbitrary: valuesOf(operation.request), weight: 4 },
        {
          arbitrary: fc.tuple(valuesOf(operation.request), strange).map(([body, value]) => spoil(body, value)),
          weight: 2,
        },
        strange,
      );
      const agree = (one: unknown): void => {
        const body = withPlainQuery(one);
        // What the judge knows besides: cursors, names that must be unique.
        if (!beyondSchema(body)) expect(accepts(body), JSON.stringify(body).slice(0, 500)).toBe(allows(body));
      };
      edgesOf(operation.request).forEach(agree);
      fc.assert(fc.property(bodies, agree), { numRuns: runs(100) });
    },
  );
});

/** A value that a schema allows. */
function plainOf(schema: JsonSchema, n = 0): unknown {
  const {
    type,
    enum: choices,
    properties = {},
    required = [],
    items = {},
    minItems = 0,
    minLength = 0,
    minimum = 0,
  } = schema;
  const kind = typeof type === "string" ? type : type?.[0];
  if (schema.const !== undefined) return schema.const;
  if (choices !== undefined) return choices[0];
  if (kind === "boolean") return true;
  if (kind === "integer") return minimum;
  if (kind === "string") return String(n).padStart(Math.max(minLength, 1), "a");
  if (kind === "array") return Array.from({ length: minItems }, (_, i) => plainOf(items, i));
  return Object.fromEntries(required.map((name) => [name, plainOf(properties[name] ?? {}, n)]));
}

/** Values at both sides of every bound of a schema, and of each part of it. */
function edgesOf(schema: JsonSchema): unknown[] {
  const { type, properties, items, minLength, maxLength, minimum, maximum, minItems = 0, maxItems } = schema;
  const kind = typeof type === "string" ? type : type?.[0];
  const edges: unknown[] = [null, plainOf(schema)];
  if (kind === "string") {
    for (const length of [minLength, maxLength])
      if (length !== undefined) for (const by of [-1, 0, 1]) edges.push("a".repeat(Math.max(0, length + by)));
    if (schema.pattern === undefined) edges.push("😀".repeat(maxLength ?? 1), "😀".repeat((maxLength ?? 1) + 1));
    else
      edges.push(
        ...["é", " ", ".", "-", "_", "*", ":", "/", "\n"].map((character) =>
          character.repeat(Math.max(minLength ?? 1, 1)),
        ),
      );
  }
  if (kind === "integer")
    for (const bound of [minimum ?? 0, maximum ?? 0])
      edges.push(bound - 1, bound, bound + 1, bound + 0.5, String(bound));
  if (kind === "array") {
    const lengths = [minItems - 1, minItems, minItems + 1, ...(maxItems === undefined ? [] : [maxItems, maxItems + 1])];
    for (const length of lengths)
      if (length >= 0) edges.push(Array.from({ length }, (_, i) => plainOf(items ?? {}, i)));
    edges.push(...edgesOf(items ?? {}).map((item) => [item]));
  }
  if (properties !== undefined) {
    const base = plainOf(schema) as Record<string, unknown>;
    for (const [name, part] of Object.entries(properties)) {
      edges.push(...edgesOf(part).map((value) => ({ ...base, [name]: value })));
      edges.push(Object.fromEntries(Object.entries(base).filter(([other]) => other !== name)));
    }
    edges.push({ ...base, extra: 1 });
  }
  return edges;
}

const strange: fc.Arbitrary<unknown> = fc.constantFrom<unknown>(
  null,
  true,
  0,
  -1,
  1.5,
  2 ** 53,
  "",
  "x",
  "x".repeat(2_000),
  [],
  {},
  [1],
  {
    a: 1,
  },
);

/** Values that a schema allows, most of the time. */
function valuesOf(schema: JsonSchema): fc.Arbitrary<unknown> {
  const { type, enum: choices, properties, required = [], items } = schema;
  if (schema.const !== undefined) return fc.constant(schema.const);
  if (choices !== undefined) return fc.constantFrom(...choices);
  const kind = typeof type === "string" ? type : fc.sample(fc.constantFrom(...(type ?? ["string"])), 1)[0];
  if (Array.isArray(type)) return fc.oneof(...type.map((one) => valuesOf({ ...schema, type: one })));
  if (kind === "null") return fc.constant(null);
  if (kind === "boolean") return fc.boolean();
  if (kind === "integer")
    return fc.integer({ min: schema.minimum ?? 0, max: Math.min(schema.maximum ?? 100, Number.MAX_SAFE_INTEGER) });
  if (kind === "array") return fc.array(valuesOf(items ?? {}), { minLength: schema.minItems ?? 0, maxLength: 3 });
  if (kind === "string") {
    const { minLength = 0, maxLength = 20 } = schema;
    const length = { minLength, maxLength: Math.min(maxLength, minLength + 4) };
    return schema.pattern === undefined
      ? fc.oneof(
          fc.string({ ...length, unit: "grapheme-ascii" }),
          fc.string({ ...length, unit: fc.constantFrom("a", "😀", "Ł") }),
        )
      : fc.string({ ...length, unit: fc.constantFrom("a", "B", "7", "_") });
  }
  if (properties === undefined) return fc.constant({ a: 1 });
  return fc.record(Object.fromEntries(Object.entries(properties).map(([name, part]) => [name, valuesOf(part)])), {
    requiredKeys: [...required],
  });
}

function spoil(body: unknown, value: unknown): unknown {
  if (typeof body !== "object" || body === null || Array.isArray(body)) return value;
  const names = Object.keys(body);
  const name = names[JSON.stringify(value).length % (names.length + 1)] ?? "extra";
  return { ...body, [name]: value };
}

/** The grammar of queries is not for JSON Schema: a name of the same length stands in for one. */
function withPlainQuery(body: unknown): unknown {
  const { permissions } = (body ?? {}) as { readonly permissions?: unknown };
  return typeof permissions === "string"
    ? { ...(body as object), permissions: permissions.replace(/[^]/gu, "a") }
    : body;
}

/** JSON Schema cannot say these. */
function beyondSchema(body: unknown): boolean {
  if (typeof body !== "object" || body === null) return false;
  const { cursor, ratelimits, keys, ipAllowlist } = body as Record<string, unknown>;
  if (cursor !== undefined || ipAllowlist !== undefined) return true;
  // Which time zones there are.
  if (/"timeZone":"/.test(JSON.stringify(body))) return true;
  const named = [
    ratelimits,
    ...(Array.isArray(keys) ? keys.map((key) => (key as { ratelimits?: unknown } | null)?.ratelimits) : []),
  ];
  return named.some((list) => {
    if (!Array.isArray(list)) return false;
    const names = list.map((limit) => (limit as { name?: unknown } | null)?.name);
    return new Set(names).size < names.length;
  });
}

describe("docs: pages", () => {
  it("every error type of the catalogue has a page, plain and without a script", async () => {
    const { send, close } = await world();
    for (const { type, title, code, status: errorStatus } of listProblemTypes()) {
      const { status, headers, text } = await send(`/docs/errors/${type}`);
      if (errorStatus < 500) expect(text, code).not.toContain("A fault of the service");
      expect([status, headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"]);
      expect(text).toContain(`<h1>${title}</h1>`);
      expect(headers.get("content-security-policy")).toMatch(
        /^default-src 'none'; style-src 'self'; script-src 'self'; base-uri 'none'/,
      );
    }
    await close();
  });

  it("every operation is once in the list, by groups, and has a page; none loads anything from elsewhere", async () => {
    const { send, close } = await world();
    const { text } = await send("/docs");
    const listed = [...text.matchAll(/<li id="([^"]+)"><a href="\/docs\/([^"]+)">/g)].map(([, id, path]) => [id, path]);
    expect(listed.sort()).toEqual(
      Object.keys(OPERATIONS)
        .map((name) => [name, name])
        .sort(),
    );
    expect(text.match(/<h2>/g)?.length).toBe(6);
    const pages = [(await send("/docs/errors/forbidden")).text, (await send("/docs/style.css")).text];
    for (const { name, also } of Object.values(OPERATIONS)) {
      const page = (await send(`/docs/${name}`)).text;
      expect(page, name).toContain("<p>Takes ");
      for (const { permission } of also) expect(page, name).toContain(`; and <code>${permission}</code>`);
      pages.push(page);
    }
    for (const page of pages) expect(/<script|https?:|url\(|@import|\son\w+=/.test(page)).toBe(false);
    expect(text.match(/<script[^>]*>/g)).toEqual(['<script src="/docs/filter.js">']);
    expect(/https?:|url\(|\son\w+=/.test(text)).toBe(false);
    expect((await send("/openapi.json")).body.info.version).toBe("2.0.0");
    await close();
  });

  it("the list is also at /docs/, and says rotate and revoke, so that the filter finds them", async () => {
    const { send, close } = await world();
    const [{ text }, { status, text: same }] = [await send("/docs"), await send("/docs/")];
    expect([status, same]).toEqual([200, text]);
    const found = (word: string) =>
      [...text.matchAll(/<li id="([^"]+)">(.*?)<\/li>/g)].filter(([, , item = ""]) =>
        item.toLowerCase().includes(word),
      );
    expect(found("rotate").map(([, id]) => id)).toEqual(["keys.rerollKey"]);
    expect(found("revoke").map(([, id]) => id)).toEqual(["keys.deleteKey"]);
    await close();
  });

  it("the list has at most 12 kB and its script 1 kB, a page of an operation 40 kB", async () => {
    const { send, close } = await world();
    const bytesOf = async (path: string) => Buffer.byteLength((await send(path)).text);
    expect(await bytesOf("/docs")).toBeLessThanOrEqual(12_000);
    expect(await bytesOf("/docs/filter.js")).toBeLessThanOrEqual(1_000);
    for (const name of Object.keys(OPERATIONS))
      expect(await bytesOf(`/docs/${name}`), name).toBeLessThanOrEqual(40_000);
    await close();
  });

  it("the type of an error is the path of its page", async () => {
    const { send, call, close } = await world({ host: "node" });
    const { body } = await call("keys.verifyKey", {});
    expect((await send(body.error.type)).status).toBe(200);
    expect((await send("/nowhere")).body.error.type).toBe("/docs/errors/application/not_found");
    await close();
  });

  it("options: docsBase goes before every type; without docs there are no pages", async () => {
    const { send, close } = await world({ docsBase: "https://docs.example.com", docs: false });
    const { status, body } = await send("/docs");
    expect([status, body.error.type]).toEqual([404, "https://docs.example.com/errors/application/not_found"]);
    expect((await send("/openapi.json")).status).toBe(404);
    await close();
  });
});
