/** A prepared verification: what `verify` returns, with everything but the key validated before. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createKeyring, createVerifier, memoryStore, type V2KeysVerifyKeyRequestBody } from "../../src/index.js";

const NOON = Date.UTC(2026, 2, 10, 12);

async function world() {
  const store = memoryStore();
  const clock = () => NOON;
  const keyring = createKeyring(store, { clock });
  const { apiId } = await keyring.createApi({ name: "documents" });
  const made = await keyring.createKey({
    apiId,
    permissions: ["documents.read", "documents.write"],
    credits: { remaining: 1_000_000 },
    ratelimits: [{ name: "requests", limit: 1_000_000, duration: 60_000, autoApply: false }],
  });
  return { apiId, key: made.key, verifier: createVerifier(store, { clock }) };
}
const { apiId, key, verifier } = await world();

const request = fc.record(
  {
    permissions: fc.constantFrom("documents.read", "documents.read AND documents.none", "documents.none OR a.b"),
    credits: fc.record({ cost: fc.nat(3) }),
    ratelimits: fc.array(fc.record({ name: fc.constant("requests"), cost: fc.nat(2) }), { maxLength: 2 }),
    tags: fc.array(fc.constantFrom("a", "b"), { maxLength: 3 }),
    migrationId: fc.constantFrom("old", ""),
  },
  { requiredKeys: [] },
);

/** Of a request that was refused, or went through. What is left is another one's after each call. */
const outcome = (asking: () => Promise<object>) =>
  asking().then(
    ({ credits: _, ratelimits, ...shown }: { credits?: unknown; ratelimits?: readonly object[] }) => ({
      ...shown,
      limits: ratelimits?.length,
    }),
    (error: unknown) => String(error),
  );

describe("verifier.prepare", () => {
  it("returns what verify returns (property)", () =>
    fc.assert(
      fc.asyncProperty(request, fc.constantFrom(key, "unknown", "", 5), async (body, asked) => {
        const prepared = verifier.prepare(body);
        for (let i = 0; i < 2; i++)
          expect(await outcome(() => prepared(asked as string))).toEqual(
            await outcome(() => verifier.verify({ ...body, key: asked as string })),
          );
      }),
    ));

  it("takes what the request costs, each time", async () => {
    const prepared = verifier.prepare({ credits: { cost: 7 }, ratelimits: [{ name: "requests", cost: 3 }] });
    const [first, second] = [await prepared(key), await prepared(key)];
    expect((first.credits as number) - (second.credits as number)).toBe(7);
    expect(first.ratelimits![0]!.remaining - second.ratelimits![0]!.remaining).toBe(3);
  });

  it.each([
    ["an unknown field", { cost: 3 }, "body.cost"],
    ["a key", { key: "k" }, "body.key"],
    ["a key that is undefined", { key: undefined }, "body.key"],
    ["nothing", null, "body"],
    ["a list", [], "body"],
    ["a negative cost", { credits: { cost: -1 } }, "body.credits.cost"],
    ["a query that does not parse", { permissions: "a AND" }, "body.permissions"],
  ])("refuses %s at once", (_, body, location) => {
    expect(() => verifier.prepare(body as never)).toThrow(
      expect.objectContaining({ status: 400, errors: [expect.objectContaining({ location })] }),
    );
  });

  it("says that the key is for each call, whatever it is", () => {
    for (const given of ["k", "-", undefined])
      expect(() => verifier.prepare({ key: given } as never)).toThrow(
        expect.objectContaining({
          errors: [{ location: "body.key", message: expect.any(String), fix: "give it to each call" }],
        }),
      );
    expect(() => verifier.prepare(7 as never)).toThrow(
      expect.objectContaining({ errors: [{ location: "body", message: "must be an object" }] }),
    );
  });

  it("is not changed by what becomes of the request, and reads it once", async () => {
    let reads = 0;
    const body = {
      ratelimits: [{ name: "requests", cost: 1 }],
      get permissions() {
        reads++;
        return "documents.read";
      },
    };
    const prepared = verifier.prepare(body);
    body.ratelimits[0]!.name = "none";
    body.ratelimits.length = 0;
    expect((await prepared(key)).ratelimits).toHaveLength(1);
    expect(reads).toBe(1);
  });

  it("checks the context of each call", async () => {
    const prepared = verifier.prepare({ permissions: "documents.read" });
    expect(await prepared(key, { apiId })).toMatchObject({ code: "VALID" });
    expect(await prepared(key, { apiId: "another" })).toEqual({ valid: false, code: "NOT_FOUND" });
    await expect(prepared(key, { adress: "10.0.0.1" } as never)).rejects.toThrow(TypeError);
    const caller = { kind: "root", workspaceId: "ws_default", mayAny: () => false, may: () => false };
    await expect(prepared(5 as never, { caller: caller })).rejects.toMatchObject({ code: "CALLER_FORBIDDEN" });
  });

  it("a repeat by `verify` takes nothing again", async () => {
    const body: Omit<V2KeysVerifyKeyRequestBody, "key"> = { credits: { cost: 5 }, tags: ["a"] };
    const first = await verifier.prepare(body)(key, { idempotencyKey: "once" });
    const second = await verifier.verify({ ...body, key }, { idempotencyKey: "once" });
    expect(second.credits).toBe(first.credits);
  });

  it("is refused once the verifier is closed", async () => {
    const other = (await world()).verifier;
    const prepared = other.prepare({});
    await other.close();
    await expect(prepared(key)).rejects.toMatchObject({ code: "VERIFIER_CLOSED" });
  });
});
