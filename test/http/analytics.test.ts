import { Ajv2020 } from "ajv/dist/2020.js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createAnalytics } from "../../src/analytics/analytics.js";
import { OPERATIONS } from "../../src/http/operations/index.js";
import { createVerifier } from "../../src/verify/verifier.js";
import { NOON, type World, world } from "./support.js";

describe("analytics.getVerifications", () => {
  let w: World;
  let keyId: string;
  const RANGE = { from: 0, to: 4_000_000_000_000 };
  beforeAll(async () => {
    w = await world();
    const made = await w.create({ externalId: "user_1", credits: { remaining: 5 } });
    keyId = made.keyId;
    const verifier = createVerifier(w.store, { analytics: true });
    for (const cost of [3, 3]) await verifier.verify({ key: made.key, credits: { cost }, tags: ["plan=pro", "eu"] });
    await verifier.close();
  });
  afterAll(() => w.close());

  it("adds up by the names of the interface, from an object or its JSON", async () => {
    const by = ["outcome", "keyId", "externalId", "apiId", "tag:plan"].slice(0, 4);
    const common = { count: 1, key_id: keyId, external_id: "user_1", key_space_id: w.apiId };
    for (const query of [{ ...RANGE, by }, JSON.stringify({ ...RANGE, by })])
      expect((await w.call("analytics.getVerifications", { query })).body.data).toEqual([
        { ...common, outcome: "USAGE_EXCEEDED", spent_credits: 0 },
        { ...common, outcome: "VALID", spent_credits: 3 },
      ]);
    const tags = await w.call("analytics.getVerifications", { query: { ...RANGE, by: ["tag:plan"] } });
    expect(tags.body.data).toEqual([{ tags: ["plan=pro"], count: 2, spent_credits: 3 }]);
  });

  it.each([
    ["body.query", {}],
    ["body.limit", { query: {}, limit: 1 }],
    ["body.query", { query: "SELECT count(*) FROM verifications" }],
    ["body.query", { query: 1 }],
    ["body.query.by", { query: { ...RANGE, by: ["week"] } }],
    ["body.query.from", { query: '{"to":1}' }],
  ])("a 400 is located at %s", async (location, body) => {
    const { status, body: answer } = await w.call("analytics.getVerifications", body);
    expect([status, (answer.error as { errors: { location: string }[] }).errors[0]!.location]).toEqual([400, location]);
  });
});

describe("analytics.getRefusals", () => {
  let w: World;
  let keyId: string;
  beforeAll(async () => {
    w = await world();
    const made = await w.create({ externalId: "user_1", credits: { remaining: 5 } });
    keyId = made.keyId;
    const verifier = createVerifier(w.store, { analytics: true, clock: () => NOON });
    for (const cost of [9, 8, 1]) await verifier.verify({ key: made.key, credits: { cost }, permissions: "a" });
    for (const cost of [9, 8, 1]) await verifier.verify({ key: made.key, credits: { cost }, tags: ["eu"] });
    await verifier.close();
  });
  afterAll(() => w.close());

  it("counts by code and hour of a key, an owner and an API, and shows the last ones of a key", async () => {
    const time: unknown = expect.any(Number);
    const hours = [
      { time, code: "INSUFFICIENT_PERMISSIONS", count: 3 },
      { time, code: "USAGE_EXCEEDED", count: 2 },
    ];
    for (const of of [{ keyId }, { externalId: "user_1" }, { apiId: w.apiId }])
      expect((await w.call("analytics.getRefusals", of)).body.data).toMatchObject({ hours });
    const { last } = (await w.call("analytics.getRefusals", { keyId })).body.data as { last: unknown[] };
    expect(last.slice(0, 3)).toEqual([
      { time, code: "USAGE_EXCEEDED", cost: 8, remaining: 5, tags: ["eu"] },
      { time, code: "USAGE_EXCEEDED", cost: 9, remaining: 5, tags: ["eu"] },
      { time, code: "INSUFFICIENT_PERMISSIONS", cost: 1, remaining: 5, permissions: "a" },
    ]);
    const before = { keyId, to: NOON - 3_600_000 };
    expect((await w.call("analytics.getRefusals", before)).body.data).toEqual({ hours: [], last: [] });
  });

  it.each([{}, { keyId: "key_1", apiId: "api_1" }, { keyId: "key_1", from: 5, to: 4 }, { keyId: "key_1", from: 1.5 }])(
    "%j is a 400",
    async (body) => {
      expect((await w.call("analytics.getRefusals", body)).status).toBe(400);
    },
  );

  it("shows a caller of one API what is of that alone", async () => {
    const other = await w.keyring.createApi({ name: "other" });
    const hidden = await w.keyring.createKey({ apiId: other.apiId });
    const caller = w.as((await w.keyring.createRootKey({ permissions: [`api.${w.apiId}.read_analytics`] })).key);
    const status = async (body: object) => (await caller("analytics.getRefusals", body)).status;
    expect(await status({ keyId })).toBe(200);
    expect(await status({ apiId: w.apiId })).toBe(200);
    expect(await status({ apiId: other.apiId })).toBe(403);
    expect(await status({ keyId: hidden.keyId })).toBe(404);
    expect(await status({ externalId: "user_1" })).toBe(403);
  });
});

describe("analytics.getStatement", () => {
  const MONTH = new Date(NOON).toISOString().slice(0, 7);
  let w: World;
  let keyId: string;
  beforeAll(async () => {
    w = await world();
    const made = await w.create({ externalId: "user_1", credits: { remaining: 100 } });
    keyId = made.keyId;
    const verifier = createVerifier(w.store, { analytics: true, clock: () => NOON });
    for (const cost of [30, 5, 500]) await verifier.verify({ key: made.key, credits: { cost } });
    await w.keyring.updateCredits({ keyId, operation: "increment", value: 7, reason: "a refund" });
    await verifier.close();
  });
  afterAll(() => w.close());

  it("answers what the library does, of an owner and of a key", async () => {
    const analytics = createAnalytics(w.store, { clock: () => NOON });
    for (const of of [{ externalId: "user_1" }, { keyId }]) {
      const { data } = (await w.call("analytics.getStatement", { ...of, month: MONTH })).body;
      expect(data).toEqual(JSON.parse(JSON.stringify(await analytics.statement(of, MONTH))));
      expect(data).toMatchObject({
        ...{ opening: 0, spent: 35, adjustments: 107, closing: 72, refused: { USAGE_EXCEEDED: 1 } },
        lines: [
          { kind: "adjustment", credits: 100 },
          { credits: 7, reason: "a refund", operation: "updateCredits" },
        ],
        changes: expect.arrayContaining([expect.objectContaining({ operation: "updateCredits", reason: "a refund" })]),
      });
      const validate = new Ajv2020({ strict: false, validateFormats: false }).compile(
        OPERATIONS["analytics.getStatement"]!.answer,
      );
      validate(data);
      expect(validate.errors).toBeNull();
    }
  });

  it.each([
    ["body", { month: MONTH }],
    ["body", { keyId: "key_1", externalId: "user_1", month: MONTH }],
    ["body.month", { keyId: "key_1" }],
    ["body.month", { keyId: "key_1", month: "2026-13" }],
    ["body.month", { keyId: "key_1", month: "November 2026" }],
  ])("a 400 is located at %s: %j", async (location, body) => {
    const { status, body: answer } = await w.call("analytics.getStatement", body);
    expect([status, (answer.error as { errors: { location: string }[] }).errors[0]!.location]).toEqual([400, location]);
  });

  it("shows a caller of one API its keys, and who changed what to whoever may read the audit trail", async () => {
    const other = await w.keyring.createApi({ name: "other" });
    const hidden = await w.keyring.createKey({ apiId: other.apiId });
    const caller = w.as((await w.keyring.createRootKey({ permissions: [`api.${w.apiId}.read_analytics`] })).key);
    const ask = (of: object) => caller("analytics.getStatement", { ...of, month: MONTH });
    expect((await ask({ keyId: hidden.keyId })).status).toBe(404);
    expect((await ask({ externalId: "user_1" })).status).toBe(403);
    const { status, body } = await ask({ keyId });
    const time: unknown = expect.any(Number);
    expect([status, body.data]).toMatchObject([200, { spent: 35, closing: 72, changes: [] }]);
    expect((body.data as { lines: unknown }).lines).toEqual([
      { time, kind: "adjustment", credits: 100 },
      { time, kind: "adjustment", credits: 7 },
    ]);
  });
});
