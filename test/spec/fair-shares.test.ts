/** Ruling C9 from outside: what one workspace does to the limiter's memory refuses nobody else. */
import { describe, expect, it } from "vitest";
import {
  createKeyring,
  createRatelimits,
  createVerifier,
  memoryLimiter,
  memoryStore,
  type OutcomeEvent,
} from "../../src/index.js";

const SIZE = 64;
const MONTH = 2_592_000_000;

describe("ruling C9: fair shares of the limiter's memory", () => {
  it("limits of namespaces: identifiers that all refuse hold up the workspace that brought them, and no other", async () => {
    const store = memoryStore();
    const limiter = memoryLimiter({ size: SIZE });
    const limits = (workspaceId: string) => createRatelimits(store, { workspaceId, limiter });
    const [greedy, other] = [limits("greedy"), limits("other")];
    const check = { namespace: "calls", limit: 1, duration: MONTH };
    const take = async (ratelimits: typeof greedy, from: number, count: number): Promise<number> => {
      let passed = 0;
      for (let i = from; i < from + count; i++)
        if ((await ratelimits.limit({ ...check, identifier: `${i}` })).success) passed++;
      return passed;
    };
    expect(await take(greedy, 0, 2 * SIZE)).toBe(SIZE);
    // Up to its half it is let in, beyond it is refused; and all that was let in is counted.
    expect(await take(other, 0, SIZE)).toBe(SIZE / 2);
    expect(await take(other, 0, SIZE / 2)).toBe(0);
    expect(limiter.counters()).toEqual({
      newcomersRefused: SIZE + SIZE / 2,
      bucketsDisplaced: SIZE / 2,
    });
    expect(limiter.size()).toBe(SIZE);
  });

  it("ad hoc limits of keys likewise; the event tells what gave way", async () => {
    const store = memoryStore();
    const limiter = memoryLimiter({ size: SIZE });
    const events: OutcomeEvent[] = [];
    const verifier = createVerifier(store, { limiter, onOutcome: (event) => events.push(event) });
    const keyOf = async (workspaceId: string) => {
      const keyring = createKeyring(store, { workspaceId });
      return (await keyring.createKey({ apiId: (await keyring.createApi({ name: "documents" })).apiId })).key;
    };
    const verify = async (key: string, name: string) =>
      (await verifier.verify({ key, ratelimits: [{ name, limit: 1, duration: MONTH }] })).code;
    const [greedy, other] = [await keyOf("greedy"), await keyOf("other")];
    for (let i = 0; i < SIZE; i++)
      expect(await verify(greedy, `name${i}`)).toBe(i < SIZE / 2 ? "VALID" : "RATE_LIMITED");
    for (let i = 0; i < SIZE / 2; i++)
      expect(await verify(other, `name${i}`)).toBe(i < SIZE / 4 ? "VALID" : "RATE_LIMITED");
    await verifier.close();
    const told = events.filter(({ displacedBuckets }) => displacedBuckets === 1);
    expect(told.map(({ workspaceId }) => workspaceId)).toEqual(Array.from({ length: SIZE / 4 }, () => "other"));
  });
});
