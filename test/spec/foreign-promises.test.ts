import { describe, expect, it } from "vitest";
import { createVerifier, type Limiter, memoryLimiter } from "../../src/index.js";
import { limit, NOON, world } from "./support.js";

/** What another realm or a library answers with: it has `then`, and is no instance of this realm's Promise. */
const foreign = <T>(value: T) => {
  const promise = Promise.resolve(value);
  return { then: promise.then.bind(promise) };
};

describe("the ports: answers that come late, in promises of any kind", () => {
  it("a store's and a limiter's are waited for", async () => {
    const { store, create } = await world();
    const { key } = await create({ credits: { remaining: 2 }, ratelimits: [limit("requests")] });
    const late = (name: "findKey" | "spendCredits" | "catchUp") => ({
      [name]: (...given: unknown[]) => foreign((store[name] as (...args: unknown[]) => unknown)(...given)),
    });
    const inner = memoryLimiter();
    const limiter = { ...inner, take: (...given: Parameters<typeof inner.take>) => foreign(inner.take(...given)) } as unknown as Limiter;
    const slow = { ...store, ...late("findKey"), ...late("spendCredits"), ...late("catchUp") };
    for (const options of [{}, { limiter }]) {
      const verifier = createVerifier(slow, { clock: () => NOON, ...options });
      expect(await verifier.verify({ key })).toMatchObject({ code: "VALID" });
      expect(await verifier.verify({ key: "nobody" })).toEqual({ valid: false, code: "NOT_FOUND" });
    }
    const verifier = createVerifier(slow, { clock: () => NOON });
    expect(await verifier.verify({ key })).toMatchObject({ code: "USAGE_EXCEEDED", credits: 0 });
  });
});
