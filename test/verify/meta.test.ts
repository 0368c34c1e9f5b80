/** `meta` through a Standard Schema: results show what the schema makes of it, and what does not fit passes nothing. */
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { createVerifier, isKeystileError, type StandardSchema } from "../../src/index.js";
import { failure, world } from "../spec/support.js";

const Plan = z.object({ plan: z.enum(["free", "pro"]), seats: z.number().default(1) });
const request = { credits: { cost: 1 }, ratelimits: [{ name: "calls", limit: 5, duration: 60_000 }] };

describe("options.meta of a verifier", () => {
  it("shows what the schema makes of stored metadata, whatever the code, and none where there is none", async () => {
    const { store, create, keyring } = await world();
    const verifier = createVerifier(store, { meta: Plan });
    const { key, keyId } = await create({ meta: { plan: "pro" } });
    expect(await verifier.verify({ key })).toMatchObject({ code: "VALID", meta: { plan: "pro", seats: 1 } });
    await keyring.updateKey({ keyId, enabled: false });
    expect(await verifier.verify({ key })).toMatchObject({ code: "DISABLED", meta: { plan: "pro", seats: 1 } });
    const bare = await verifier.verify({ key: (await create()).key });
    expect([bare.code, "meta" in bare]).toEqual(["VALID", false]);
  });

  it.each<[string, StandardSchema]>([
    ["zod", Plan],
    ["valibot", v.object({ plan: v.picklist(["free", "pro"]) })],
    ["one that takes its time", z.object({ plan: z.string().refine(async (plan) => plan === "pro") })],
    [
      "one whose issues are a getter",
      {
        "~standard": {
          version: 1,
          vendor: "own",
          validate: () => Object.create({ issues: [{ message: "no", path: [{ key: "plan" }] }] }) as never,
        },
      },
    ],
  ])("refuses what does not fit, and takes nothing: %s", async (_, meta) => {
    const { store, create } = await world();
    const verifier = createVerifier(store, { meta });
    const { key, keyId } = await create({ meta: { plan: "gold" }, credits: { remaining: 3 } });
    const error = await failure(verifier.verify({ key, ...request }));
    expect([error.code, error.status, error.detail]).toEqual([
      "META_INVALID",
      500,
      `the stored metadata of ${keyId} does not fit options.meta, at meta.plan`,
    ]);
    const { credits, ratelimits } = await createVerifier(store).verify({ key, ...request, credits: { cost: 0 } });
    expect([credits, ratelimits?.[0]?.remaining]).toEqual([3, 4]);
  });

  it("names every place that does not fit, each once", async () => {
    const { store, create } = await world();
    const meta = z.object({ plan: z.string().min(9).regex(/^x/), seats: z.number() });
    const { key, keyId } = await create({ meta: { plan: "gold" } });
    expect((await failure(createVerifier(store, { meta }).verify({ key }))).detail).toBe(
      `the stored metadata of ${keyId} does not fit options.meta, at meta.plan, meta.seats`,
    );
  });

  it("a schema that takes its time decides nothing else: the checks follow, and what passes is shown", async () => {
    const { store, create, keyring } = await world();
    const meta = z.object({ plan: z.string().refine(async (plan) => plan === "pro") });
    const verifier = createVerifier(store, { meta });
    const { key, keyId } = await create({ meta: { plan: "pro" }, credits: { remaining: 3 } });
    const result = await verifier.verify({ key, credits: { cost: 2 } });
    expect(result).toMatchObject({ code: "VALID", credits: 1, meta: { plan: "pro" } });
    expect((await verifier.verify({ key, credits: { cost: 2 } })).code).toBe("USAGE_EXCEEDED");
    await keyring.updateKey({ keyId, enabled: false });
    expect((await verifier.verify({ key })).code).toBe("DISABLED");
  });

  it("what throws, or returns neither a value nor issues, rises and never passes", async () => {
    const { store, create } = await world();
    const { key } = await create({ meta: { plan: "pro" } });
    const schema = (validate: () => unknown) =>
      ({ "~standard": { version: 1, vendor: "own", validate } }) as unknown as StandardSchema;
    const broken = createVerifier(store, {
      meta: schema(() => {
        throw new Error("broken");
      }),
    });
    await expect(broken.verify({ key })).rejects.toThrow("broken");
    for (const junk of [
      undefined,
      null,
      true,
      {},
      { issues: [] },
      { issues: "none", value: 1 },
      Object.create({ value: 1 }),
    ]) {
      const verifier = createVerifier(store, { meta: schema(() => junk) });
      await expect(verifier.verify({ key })).rejects.toThrow(TypeError);
    }
    expect(() => createVerifier(store, { meta: {} as never })).toThrow(/^options\.meta must be a Standard Schema/);
    expect(isKeystileError(await broken.verify({ key: "unknown" }).catch((e: unknown) => e))).toBe(false);
  });
});
