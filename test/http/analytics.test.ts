import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createVerifier } from "../../src/verify/verifier.js";
import { type World, world } from "./support.js";

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
