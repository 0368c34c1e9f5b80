import { describe, expect, it } from "vitest";
import { createKeyring, memoryStore } from "../../../src/index.js";
import { readRequest } from "../../../src/verify/request.js";

const keyring = createKeyring(memoryStore());
/** Where a request is refused, and why. */
const problems = (body: unknown) =>
  keyring.createRole(body as never).then(
    () => [],
    (error: unknown) => (error as { readonly errors: readonly { readonly location: string }[] }).errors,
  );

describe("parse", () => {
  it("tells of a hundred problems at most, each at its place in a list", async () => {
    const found = await problems({ name: "role", permissions: Array.from({ length: 500 }, () => 1) });
    expect(found.length).toBeLessThanOrEqual(100);
    expect(found[0]?.location).toBe("body.permissions[0]");
  });

  it("tells what is missing, and what is unknown", async () => {
    expect(await problems({})).toContainEqual(
      expect.objectContaining({ location: "body.name", message: "is required" }),
    );
    expect((await problems({ name: "role", colour: 1 }))[0]?.location).toBe("body.colour");
  });

  it("does not repeat a name that is no plain one", async () => {
    const found = await problems({ name: "role", "sk_live_\u0000 secret": 1 });
    expect([found[0]?.location, JSON.stringify(found).includes("secret")]).toEqual(["body", false]);
  });
});

describe("a check of a request", () => {
  it("that is no object is a problem at its place", () => {
    expect(() => readRequest({ key: "k", ratelimits: [1] })).toThrow(
      expect.objectContaining({
        errors: expect.arrayContaining([expect.objectContaining({ location: "body.ratelimits[0]" })]),
      }),
    );
  });
});
