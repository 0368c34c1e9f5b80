import { afterEach, describe, expect, it } from "vitest";
import { ADMISSION_BOUNDS, createAdmission, type Hold, MIB } from "../../src/http/admission/admission.js";
import { BodyMemory } from "../../src/http/body-memory.js";
import { ArrivingBody } from "../../src/http/body.js";

const holds: Hold[] = [];
afterEach(() => holds.splice(0).forEach((hold) => hold.release()));
const arrive = (): Hold => {
  const hold = createAdmission(ADMISSION_BOUNDS).arrive("Bearer one");
  hold.belongsTo("one");
  holds.push(hold);
  return hold;
};
const bytesOf = (size: number): Uint8Array => Uint8Array.from({ length: size }, (_, i) => (i * 31) & 0xff);

describe("ArrivingBody", () => {
  it.each([
    ["declared", 3 * MIB],
    ["of unknown length", Infinity],
  ])("%s: keeps the bytes in order while it grows, whatever the chunks", async (_, declared) => {
    const sent = bytesOf(3 * MIB);
    const body = new ArrivingBody(4 * MIB, declared, arrive());
    for (let at = 0, size = 1; at < sent.length; at += size, size = Math.min(65_536, size * 3))
      await body.add(sent.subarray(at, at + size));
    expect(body.length).toBe(sent.length);
    expect(Buffer.compare(body.bytes(), sent)).toBe(0);
  });

  it.each([1_000, 100_000])("a host may pass on more than the declared %i bytes", async (declared) => {
    const sent = bytesOf(300_000);
    const body = new ArrivingBody(MIB, declared, arrive());
    for (let at = 0; at < sent.length; at += 70_000) await body.add(sent.subarray(at, at + 70_000));
    expect(Buffer.compare(body.bytes(), sent)).toBe(0);
  });

  it.each([10_000, 1_000_000])(
    "of %i declared bytes it takes no more memory than twice what has come",
    async (declared) => {
      const all = createAdmission(ADMISSION_BOUNDS);
      const hold = all.arrive(undefined);
      hold.belongsTo("one");
      const body = new ArrivingBody(MIB, declared, hold);
      for (let sent = 0; sent < 5_000; sent += 100) {
        await body.add(bytesOf(100));
        expect(all.held()).toBeLessThanOrEqual(Math.max(1_024, 2 * body.length));
      }
      hold.release();
    },
  );

  it("a body that grows in turns takes nothing more once its request has ended", async () => {
    const hold = arrive();
    const body = new ArrivingBody(4 * MIB, 2 * MIB, hold);
    await body.add(bytesOf(65_536));
    const growing = body.add(bytesOf(65_536));
    hold.release();
    await expect(growing).rejects.toMatchObject({ code: "BAD_REQUEST" });
    expect(body.bytes().length).toBe(0);
  });
});

describe("BodyMemory", () => {
  it("goes back to the system when it is freed, not when it is collected", () => {
    const size = 64 * MIB;
    const memory = new BodyMemory(1, size);
    memory.grow(size);
    memory.bytes.fill(1);
    const before = process.memoryUsage.rss();
    memory.free();
    expect(before - process.memoryUsage.rss()).toBeGreaterThan(size / 2);
    expect(memory.bytes).toHaveLength(0);
  });

  it("beyond 8,192 at a time it is plain memory that keeps its bytes; those that are freed leave their places", () => {
    const isMapped = ({ bytes }: BodyMemory): boolean => bytes.buffer.resizable;
    for (let round = 0; round < 2; round++) {
      const many = Array.from({ length: 8_193 }, () => new BodyMemory(1, 2));
      expect([isMapped(many[8_191]!), isMapped(many[8_192]!)]).toEqual([true, false]);
      many[8_192]!.bytes[0] = 7;
      many[8_192]!.grow(2);
      expect([...many[8_192]!.bytes]).toEqual([7, 0]);
      for (const memory of many) memory.free();
    }
  });
});
