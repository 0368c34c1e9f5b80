/** `options.meta` of a keyring: metadata that does not fit the program's schema is never written. */
import { describe, expect, expectTypeOf, it } from "vitest";
import { z } from "zod";
import { createHandler } from "../../src/http/index.js";
import { createKeyring, createVerifier, type JsonObject, memoryStore } from "../../src/index.js";
import { failure, problems, world } from "./support.js";

const meta = z.object({ plan: z.enum(["free", "pro"]), limits: z.array(z.number()).optional() });
const hash = (i: number) => `${i}`.repeat(64);

describe("a keyring with a schema of metadata", () => {
  it("refuses to create and to change with what does not fit, at its location", async () => {
    const { keyring, create } = await world({ meta });
    expect(await problems(create({ meta: { plan: "gold", limits: [1, "x"] } }))).toEqual([
      "body.meta.plan",
      "body.meta.limits[1]",
    ]);
    const { keyId } = await create({ meta: { plan: "free" } });
    expect(await problems(keyring.updateKey({ keyId, meta: {} }))).toEqual(["body.meta.plan"]);
    expect((await keyring.getKey({ keyId })).meta).toEqual({ plan: "free" });
    await keyring.updateKey({ keyId, meta: null });
    await keyring.updateKey({ keyId, name: "without" });
    expect(await keyring.getKey({ keyId })).not.toHaveProperty("meta");
  });

  it("is what the compiler asks for, and any JSON where there is no schema", () => {
    const _typed = createKeyring(memoryStore(), { meta });
    const _any = createKeyring(memoryStore());
    type Plan = z.input<typeof meta>;
    expectTypeOf<Parameters<typeof _typed.createKey>[0]["meta"]>().toEqualTypeOf<Plan | undefined>();
    expectTypeOf<Parameters<typeof _typed.updateKey>[0]["meta"]>().toEqualTypeOf<Plan | null | undefined>();
    expectTypeOf<Parameters<typeof _any.createKey>[0]["meta"]>().toEqualTypeOf<JsonObject | undefined>();
  });

  it("a problem lies at the names and indices of its path, up to what cannot be named", async () => {
    const paths = [
      ["plans", 2, { key: "seats" }],
      ["plans", "not plain", "seats"],
      [Symbol("plan"), "plans"],
      undefined,
    ];
    const issues = paths.map((path) => ({ message: "no", ...(path && { path }) }));
    const { create } = await world({
      meta: { "~standard": { version: 1, vendor: "own", validate: () => ({ issues }) } },
    });
    expect(await problems(create({ meta: { plan: "free" } }))).toEqual([
      "body.meta.plans[2].seats",
      "body.meta.plans",
      "body.meta",
      "body.meta",
    ]);
  });

  it("stores what was given, and not what the schema makes of it", async () => {
    const { keyring, create, store } = await world({ meta: z.object({ since: z.coerce.date() }) });
    const { key, keyId } = await create({ meta: { since: "2026-03-10T12:00:00Z" } });
    expect((await keyring.getKey({ keyId })).meta).toEqual({ since: "2026-03-10T12:00:00Z" });
    const verifier = createVerifier(store, { meta: z.object({ since: z.coerce.date() }) });
    const { meta } = await verifier.verify({ key });
    expect(meta?.since.getTime()).toBe(Date.UTC(2026, 2, 10, 12));
  });

  it.each([1, 2, 1_000])("imports the keys that fit, in batches of %i; the others fail alone", async (batchSize) => {
    const { keyring, apiId } = await world({ meta });
    const { migrationId } = await keyring.createMigration({ algorithm: "sha256" });
    const keys = [{ plan: "free" }, { plan: "gold" }, undefined, { plan: "pro" }].map((given, i) => ({
      hash: hash(i),
      ...(given && { meta: given }),
    }));
    const { migrated, failed } = await keyring.migrateKeys({ migrationId, apiId, keys }, { batchSize });
    expect(migrated.map((one) => one.hash)).toEqual([hash(0), hash(2), hash(3)]);
    expect(failed).toEqual([
      { hash: hash(1), reason: "INVALID_META", message: "the metadata does not fit the schema of this keyring" },
    ]);
  });

  it("is that of the verifier in a service on a store", async () => {
    const { store, keyring, apiId } = await world();
    const { key } = await keyring.createRootKey({ permissions: ["api.*.create_key"] });
    const handler = createHandler(store, { verifier: { meta } });
    const call = (given: object) =>
      handler(
        new Request("http://localhost/v2/keys.createKey", {
          method: "POST",
          headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
          body: JSON.stringify({ apiId, meta: given }),
        }),
      );
    expect((await call({ plan: "free" })).status).toBe(200);
    const refused = await call({ plan: "gold" });
    expect([refused.status, ((await refused.json()) as { error: { errors: unknown[] } }).error.errors]).toMatchObject([
      400,
      [{ location: "body.meta.plan" }],
    ]);
    await handler.close?.();
  });

  it("must be a Standard Schema; what its schema throws rises", async () => {
    await expect(world({ meta: 1 as never })).rejects.toThrow(/^options\.meta must be a Standard Schema/);
    const broken = { "~standard": { version: 1, vendor: "own", validate: () => 1 as never } } as const;
    const { create } = await world({ meta: broken });
    await expect(create({ meta: {} })).rejects.toThrow(TypeError);
    expect((await failure((await world({ meta })).create({ meta: { plan: 1 } }))).status).toBe(400);
  });
});
