import { afterEach, describe, expect, it, vi } from "vitest";
import { createSession } from "../../../src/stores/postgres/client.js";
import { postgresStore } from "../../../src/stores/postgres/index.js";
import { createSlots, NoSlot } from "../../../src/stores/postgres/slots.js";

describe("createSlots", () => {
  it("gives slots in the order in which they were asked for", async () => {
    const slots = createSlots(1);
    await slots.take(1_000);
    const order: number[] = [];
    const waiting = [1, 2].map((n) => slots.take(60_000).then(() => order.push(n)));
    slots.give();
    await waiting[0];
    expect(order).toEqual([1]);
    slots.give();
    await waiting[1];
    expect(order).toEqual([1, 2]);
  });

  it("one that did not wait long enough takes no slot later", async () => {
    const slots = createSlots(1);
    await slots.take(1_000);
    await expect(slots.take(1)).rejects.toBeInstanceOf(NoSlot);
    slots.give();
    await slots.take(60_000);
    await expect(slots.take(1)).rejects.toBeInstanceOf(NoSlot);
  });

  it("while all are held by what does not respond, nobody waits; one that recovers is free again", async () => {
    const slots = createSlots(2);
    await slots.take(1_000);
    await slots.take(1_000);
    const waits = slots.take(60_000);
    slots.stall();
    slots.stall();
    await expect(waits).rejects.toBeInstanceOf(NoSlot);
    await expect(slots.take(60_000)).rejects.toBeInstanceOf(NoSlot);
    slots.recover();
    await slots.take(60_000);
  });
});

describe("createSession", () => {
  afterEach(() => vi.restoreAllMocks());

  it("pauses at random before what met other sessions is sent again", async () => {
    const random = vi.spyOn(Math, "random");
    const met = async () => {
      let tries = 0;
      const query = async () => {
        if (tries++ < 2) throw Object.assign(new Error(), { code: "40P01" });
        return [];
      };
      const session = createSession({ query }, { timeout: 60_000, prepared: false, maxWrites: 1 });
      await session.run({ isRead: false, text: "" });
      return tries;
    };
    const began = performance.now();
    for (let i = 0; i < 10; i++) expect(await met()).toBe(3);
    const took = performance.now() - began;
    const parts = random.mock.results.map(({ value }) => value as number);
    expect(parts).toHaveLength(20);
    // Up to 10 ms before the first repeat, and up to 20 before the second. A timer rounds down to whole milliseconds.
    const pauses = parts.map((part, i) => part * (i % 2 === 0 ? 10 : 20));
    expect(took).toBeGreaterThan(pauses.reduce((sum, ms) => sum + Math.floor(ms), 0) - 20);
  });
});

describe("postgresStore: maxWrites", () => {
  const client = { query: async () => [] };
  it.each([0, 101, 1.5, NaN])("%d is out of range", (maxWrites) => {
    expect(() => postgresStore(client, { maxWrites })).toThrow(/options\.maxWrites/);
  });
  it.each([1, 100, undefined])("%s is accepted", (maxWrites) => {
    expect(() => postgresStore(client, maxWrites === undefined ? {} : { maxWrites })).not.toThrow();
  });
});
