/** The default limiter of a store: shared by all that is made on it in this process. */
import { expect, it } from "vitest";
import { createKeyring, createRatelimits, createVerifier, memoryStore } from "../../../src/index.js";

const ratelimits = [{ name: "requests", limit: 3, duration: 60_000, autoApply: true }];
const clock = () => 1_700_000_000_000;

async function world() {
  const store = memoryStore();
  const keyring = createKeyring(store, { clock });
  const { apiId } = await keyring.createApi({ name: "documents" });
  const { key } = await keyring.createKey({ apiId, ratelimits });
  return { store, key };
}

it("the default limiter: verifiers on one store take from the same buckets", async () => {
  const { store, key } = await world();
  const verifiers = [createVerifier(store, { clock }), createVerifier(store, { clock, cache: { ttl: 5 } })];
  const codes: string[] = [];
  for (let i = 0; i < 6; i++) codes.push((await verifiers[i % 2]!.verify({ key })).code);
  expect(codes).toEqual(["VALID", "VALID", "VALID", "RATE_LIMITED", "RATE_LIMITED", "RATE_LIMITED"]);
  // It does not end with a verifier.
  await verifiers[0]!.close();
  expect((await verifiers[1]!.verify({ key })).code).toBe("RATE_LIMITED");
});

it("the default limiter: a verifier with another clock, or on another store, has buckets of its own", async () => {
  const { store, key } = await world();
  const other = await world();
  const ahead = createVerifier(store, { clock: () => clock() + 3_600_000 });
  for (let i = 0; i < 3; i++) await ahead.verify({ key });
  expect((await ahead.verify({ key })).code).toBe("RATE_LIMITED");
  expect((await createVerifier(store, { clock }).verify({ key })).code).toBe("VALID");
  expect((await createVerifier(other.store, { clock }).verify({ key: other.key })).code).toBe("VALID");
});

it("the default limiter: rate limits of one store too", async () => {
  const { store } = await world();
  const check = { namespace: "email", identifier: "user_1", limit: 3, duration: 60_000, cost: 2 };
  const [one, two] = [createRatelimits(store, { clock }), createRatelimits(store, { clock })];
  expect((await one.limit(check)).success).toBe(true);
  expect((await two.limit(check)).success).toBe(false);
});
