import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { KeystileError } from "../../src/contracts/errors.js";
import type { OutcomeFlush } from "../../src/contracts/outcomes.js";
import type { Store } from "../../src/contracts/store.js";
import { createVerifier, memoryStore } from "../../src/index.js";
import { createKeyring } from "../../src/keyring/keyring.js";
import { trust } from "../../src/lib/guards/trusted.js";
import type { AnalyticsOptions } from "../../src/verify/outcome-flush.js";

const NOON = Date.UTC(2026, 2, 10, 12);
const busy = () => new KeystileError("STORE_BUSY", "made by the test");

/** A store whose `countOutcomes` goes wrong as the test says, before or after it has counted. */
async function world(
  options: AnalyticsOptions = {},
  fate: (n: number) => "before" | "after" | undefined = () => undefined,
  clock = () => NOON,
) {
  const store = memoryStore();
  const sent: OutcomeFlush[] = [];
  let calls = 0;
  const failing: Store = trust({
    ...store,
    pruneOutcomes: (...given) => store.pruneOutcomes(...given),
    async countOutcomes(flush) {
      sent.push(flush);
      const end = fate(calls++);
      if (end === "before") throw busy();
      const outcome = await store.countOutcomes(flush);
      if (end === "after") throw new Error("the connection was lost");
      return outcome;
    },
  });
  const keyring = createKeyring(store);
  const { apiId } = await keyring.createApi({ name: "documents" });
  const { key, keyId } = await keyring.createKey({ apiId, externalId: "customer", credits: { remaining: 10 } });
  const flushed: OutcomeFlush[] = [];
  const verifier = createVerifier(failing, {
    clock,
    analytics: { onFlush: (flush) => flushed.push(flush), ...options },
  });
  const counted = async () =>
    (
      await store.readOutcomes({
        ...{ level: "day", workspaceId: "ws_default", from: NOON - 43_200_000, to: NOON + 86_400_000 / 2 },
        ...{ by: ["keyId"], maxRows: 10_000 },
      })
    )
      .flatMap(({ keyId: id, counts }) => counts.flatMap((count, i) => (count > 0 ? [[id, i, count]] : [])))
      .sort();
  return { store, verifier, key, keyId, sent, flushed, counted };
}

/** Calls that are counted as others. */
async function othersOf(store: Store): Promise<number> {
  const period = { from: NOON - 43_200_000, to: NOON + 43_200_000 };
  const query = { ...period, workspaceId: "ws_default", level: "day", by: ["tags"], maxRows: 10_000 } as const;
  const rows = await store.readOutcomes(query);
  return rows.reduce((sum, { tags, counts }) => sum + (tags?.[0] === "(other)" ? (counts[0] ?? 0) : 0), 0);
}

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] }));
afterEach(() => void vi.useRealTimers());

describe("counting of verifications", () => {
  it("is off unless it is asked for, and needs the power", async () => {
    const { store, key } = await world();
    const count = vi.fn(store.countOutcomes);
    const off = createVerifier(trust({ ...store, countOutcomes: count }));
    await off.verify({ key });
    await off.close();
    expect(count).not.toHaveBeenCalled();
    const without = { ...store, powers: { ...store.powers, analytics: false } };
    expect(() => createVerifier(without, { analytics: true })).toThrow(
      expect.objectContaining({ code: "STORE_POWER_MISSING" }),
    );
    expect(() => createVerifier(store, { analytics: { interval: 10 } })).toThrow(/options\.analytics\.interval/);
    expect(() => createVerifier(store, { analytics: { keep: { day: 1 } } })).toThrow(/options\.analytics\.keep\.day/);
  });

  it("writes after an interval what was counted, with the credits that were taken, and nothing while idle", async () => {
    const { verifier, key, keyId, sent, flushed, counted } = await world({ interval: 1_000 });
    for (const cost of [3, 3, 9]) await verifier.verify({ key, credits: { cost }, tags: ["plan=pro", `k=${key}`] });
    await verifier.verify({ key: "unknown" });
    expect(sent).toEqual([]);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(await counted()).toEqual([
      ["", 1, 1],
      [keyId, 0, 2],
      [keyId, 7, 1],
    ]);
    const [cell] = flushed[0]!.cells;
    expect(cell).toMatchObject({ externalId: "customer", spent: 6, tags: ["k=[key]", "plan=pro"], minute: NOON });
    await vi.advanceTimersByTimeAsync(600_000);
    expect(sent).toHaveLength(1);
    await verifier.close();
    expect(sent).toHaveLength(1);
  });

  it("sends a piece again as it was until it is known to be counted, and none counts twice", async () => {
    const fates = ["before", "after", "before", undefined] as const;
    const { verifier, key, keyId, sent, flushed, counted } = await world({ interval: 250 }, (n) => fates[n]);
    await verifier.verify({ key });
    await vi.advanceTimersByTimeAsync(250);
    await verifier.verify({ key });
    await vi.advanceTimersByTimeAsync(20_000);
    expect(sent.map(({ seq }) => seq)).toEqual([1, 1, 1, 1, 2]);
    for (const again of sent.slice(1, 4)) expect(again).toBe(sent[0]);
    expect(flushed.map(({ seq }) => seq)).toEqual([1, 2]);
    expect(await counted()).toEqual([[keyId, 0, 2]]);
    await verifier.close();
  });

  it.each([
    [250, [250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]],
    [5_000, [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]],
  ])("with an interval of %d ms it waits longer each time, up to a minute", async (interval, pauses) => {
    const at: number[] = [];
    const { verifier, key, sent } = await world({ interval }, () => {
      at.push(performance.now());
      return at.length > pauses.length ? undefined : "before";
    });
    await verifier.verify({ key });
    await vi.advanceTimersByTimeAsync(300_000);
    expect(at.slice(1).map((time, i) => Math.round(time - at[i]!))).toEqual(pauses);
    expect(sent[0]!.source).toMatch(/^[\w-]{32}$/);
    expect(sent[0]).toMatchObject({ at: NOON, maxTagSets: 10_000 });
    await verifier.close();
  });

  it("its counters are of all that was counted, written or not; one timer waits for it", async () => {
    const { verifier, key, sent } = await world({ interval: 1_000, tags: false });
    for (let again = 1; again <= 3; again++) {
      await verifier.verify({ key: "unknown" });
      const timers = vi.getTimerCount();
      await verifier.verify({ key: "unknown" });
      expect(vi.getTimerCount()).toBe(timers);
      for (let n = 0; n < 5; n++) await verifier.verify({ key, credits: { cost: n < 2 ? 1 : 0 }, tags: ["a"] });
      const { verifications, creditsSpent, outcomesFolded, outcomesUncounted } = verifier.counters();
      expect([verifications?.VALID, verifications?.NOT_FOUND, creditsSpent]).toEqual([5 * again, 2 * again, 2 * again]);
      expect([outcomesFolded, outcomesUncounted]).toEqual([0, 0]);
      await vi.advanceTimersByTimeAsync(1_000);
    }
    expect(sent.map(({ seq, cells }) => [seq, cells.length])).toEqual([1, 2, 3].map((seq) => [seq, 2]));
    expect(sent.flatMap(({ cells }) => cells.flatMap(({ tags }) => tags))).toEqual([]);
    await verifier.close();
  });

  it("what is counted while a piece is written is written an interval after it", async () => {
    let isBusy = true;
    const { verifier, key, sent } = await world({ interval: 1_000 }, () => (isBusy ? "before" : undefined));
    await verifier.verify({ key });
    await vi.advanceTimersByTimeAsync(1_000);
    await verifier.verify({ key });
    isBusy = false;
    await vi.advanceTimersByTimeAsync(1_000);
    expect(sent.map(({ seq }) => seq)).toEqual([1, 1]);
    await vi.advanceTimersByTimeAsync(999);
    expect(sent).toHaveLength(2);
    await vi.advanceTimersByTimeAsync(1);
    expect(sent.map(({ seq }) => seq)).toEqual([1, 1, 2]);
    await verifier.close();
  });

  it("a store that forgot the process counts the piece under a new one", async () => {
    const { store, verifier, key, keyId, sent, counted } = await world({ interval: 250 });
    await verifier.verify({ key });
    await vi.advanceTimersByTimeAsync(250);
    // As a backup of before the first piece does.
    const count = store.countOutcomes;
    let isGap = true;
    vi.spyOn(store, "countOutcomes").mockImplementation((flush) => {
      if (!isGap) return count(flush);
      isGap = false;
      return { outcome: "gap", folded: [] };
    });
    await verifier.verify({ key });
    await vi.advanceTimersByTimeAsync(1_000);
    expect(sent.map(({ seq }) => seq)).toEqual([1, 2, 1]);
    expect(new Set(sent.map(({ source }) => source)).size).toBe(2);
    expect(await counted()).toEqual([[keyId, 0, 2]]);
    await verifier.close();
  });

  it("closing writes what is left; what the store does not take is counted as lost", async () => {
    const { verifier, key, counted, keyId } = await world();
    await verifier.verify({ key });
    await verifier.close();
    expect(await counted()).toEqual([[keyId, 0, 1]]);
    const failing = await world({}, () => "before");
    await failing.verifier.verify({ key: failing.key });
    const closing = failing.verifier.close();
    await vi.advanceTimersByTimeAsync(10_000);
    await closing;
    expect(failing.verifier.counters().outcomesUncounted).toBe(1);
    expect(failing.flushed).toEqual([]);
  });

  it("writes early when three quarters are used, in pieces of 50, and folds what does not fit meanwhile", async () => {
    let isBusy = true;
    const small = { memory: 2 ** 18 };
    const { store, verifier, key, sent, counted } = await world(small, () => (isBusy ? "before" : undefined));
    const send = async (from: number, to: number) => {
      for (let i = from; i < to; i++) await verifier.verify({ key, credits: { cost: 0 }, tags: [`t${i}`] });
    };
    // A third of the memory, of which a row and its set take some 390 bytes.
    await send(0, 180);
    expect(sent.map(({ cells }) => cells.length)).toEqual([50]);
    await send(180, 1_000);
    const { outcomesFolded } = verifier.counters();
    expect(outcomesFolded).toBeGreaterThan(550);
    expect(outcomesFolded).toBeLessThan(650);
    isBusy = false;
    await vi.advanceTimersByTimeAsync(120_000);
    expect((await counted()).reduce((sum, [, , count]) => sum + (count as number), 0)).toBe(1_000);
    expect(verifier.counters().outcomesFolded).toBe(outcomesFolded);
    expect(await othersOf(store)).toBe(outcomesFolded);
    await verifier.close();
  });

  it("verifiers of one store divide the memory until they are closed, and one that is above its part writes at once", async () => {
    const { store, verifier, key } = await world({ memory: 2 ** 18, interval: 60_000 }, () => "before");
    const counting = trust({ ...store, countOutcomes: () => Promise.reject(busy()) });
    const options = { clock: () => NOON, analytics: { memory: 2 ** 18, interval: 60_000 } };
    const send = async (by: typeof verifier, from: number, to: number) => {
      const before = by.counters().outcomesFolded;
      for (let i = from; i < to; i++) await by.verify({ key, credits: { cost: 0 }, tags: [`t${i}`] });
      return by.counters().outcomesFolded - before;
    };
    const one = createVerifier(counting, options);
    // A row and its set take some 390 bytes of a third of the memory.
    expect(await send(one, 0, 120)).toBe(0);
    const more = Array.from({ length: 3 }, () => createVerifier(counting, options));
    // A quarter of it is a part: 56 such rows, while as many again are on their way to the store.
    const others = await send(more[0]!, 0, 200);
    expect(others).toBeGreaterThan(80);
    expect(others).toBeLessThan(160);
    expect(await send(one, 120, 180)).toBe(5);
    const closing = more.map((verifier) => verifier.close());
    await vi.advanceTimersByTimeAsync(10_000);
    await Promise.all(closing);
    const alone = createVerifier(counting, options);
    // Two of them are open.
    expect(await send(alone, 0, 100)).toBe(0);
    // Of another store.
    expect(await send(verifier, 0, 120)).toBe(0);
    const ending = [one, alone, verifier].map((each) => each.close());
    await vi.advanceTimersByTimeAsync(20_000);
    await Promise.all(ending);
  });

  it("a piece has as few cells as long tags need, and fewer after one that took a thread for long", async () => {
    const busy = [0, 0, 5, 9, 40, 900, 900, 900, 0, 0];
    const { store, verifier, key, sent } = await world({ interval: 1_000 });
    const count = store.countOutcomes;
    vi.spyOn(store, "countOutcomes").mockImplementation(async (flush) => ({
      ...(await count(flush)),
      ...{ busy: busy.shift() ?? 0 },
    }));
    const long = (n: number) => Array.from({ length: 20 }, (_, i) => `${n}.${i}`.padEnd(512, "é"));
    for (let n = 0; n < 7; n++) await verifier.verify({ key, credits: { cost: 0 }, tags: long(n) });
    await vi.advanceTimersByTimeAsync(2_000);
    // 20 tags of 512 characters each: six sets are 61,440.
    expect(sent.map(({ cells }) => cells.length)).toEqual([6, 1]);
    for (let n = 0; n < 150; n++) await verifier.verify({ key, credits: { cost: 0 }, tags: [`t${n}`] });
    await vi.advanceTimersByTimeAsync(2_000);
    expect(sent.slice(2).map(({ cells }) => cells.length)).toEqual([50, 25, 12, 6, 3, 1, 1, 2, 4, 8, 16, 22]);
    await verifier.close();
  });

  it("sets of tags that the store refuses are counted as others, and it is asked for few more while it does", async () => {
    const { store, verifier, key, sent } = await world({ interval: 1_000, tagSets: 10 });
    const send = async (tags: readonly string[]) => {
      for (const tag of tags) await verifier.verify({ key, credits: { cost: 0 }, tags: [tag] });
      const before = sent.length;
      await vi.advanceTimersByTimeAsync(1_000);
      return sent.slice(before).flatMap(({ cells }) => cells.flatMap((cell) => cell.tags));
    };
    const known = Array.from({ length: 8 }, (_, n) => `known${n}`);
    const fresh = (n: number) => Array.from({ length: 300 }, (_, i) => `${n}.${i}`);
    await send(known);
    expect(verifier.counters().outcomesFolded).toBe(0);
    // The table of an interval keeps ten as well: two new ones, and then others.
    expect(await send([...known, ...fresh(1)])).toEqual([...known, "1.0", "1.1", "(other)"]);
    expect(verifier.counters().outcomesFolded).toBe(298);
    expect(await send(["2.0", "2.1", ...known])).toEqual(["2.0", "2.1", ...known]);
    expect(verifier.counters().outcomesFolded).toBe(300);
    expect(await othersOf(store)).toBe(300);
    await verifier.close();
  });

  it("of a workspace whose sets the store refused, those that it has are counted, and 64 others are asked for", async () => {
    const { store, verifier, key, sent } = await world({ interval: 1_000 });
    const count = store.countOutcomes;
    // As a store does in which other processes have filled the workspace.
    let isFull = true;
    vi.spyOn(store, "countOutcomes").mockImplementation(async (flush) => {
      const isNew = flush.cells.map(({ tags }) => isFull && tags[0]?.startsWith("new"));
      const cells = flush.cells.map((cell, i) => (isNew[i] === true ? { ...cell, tags: ["(other)"] } : cell));
      const result = await count({ ...flush, cells });
      return { ...result, folded: isNew.flatMap((is, place) => (is === true ? [place] : [])) };
    });
    const send = async (n: number) => {
      const before = sent.length;
      for (let i = 0; i < 300; i++)
        for (const tag of [`new${n}.${i}`, `known${i}`])
          await verifier.verify({ key, credits: { cost: 0 }, tags: [tag] });
      await vi.advanceTimersByTimeAsync(1_000);
      const tags = sent.slice(before).flatMap(({ cells }) => cells.flatMap((cell) => cell.tags));
      return [tags.filter((tag) => tag.startsWith("new")).length, tags.filter((tag) => tag.startsWith("known")).length];
    };
    expect(await send(1)).toEqual([300, 300]);
    for (const n of [2, 3]) expect(await send(n)).toEqual([64, 300]);
    expect(verifier.counters().outcomesFolded).toBe(900);
    isFull = false;
    expect(await send(4)).toEqual([64, 300]);
    expect(verifier.counters().outcomesFolded).toBe(900 + 300 - 64);
    expect(await send(5)).toEqual([300, 300]);
    expect(await othersOf(store)).toBe(verifier.counters().outcomesFolded);
    await verifier.close();
  });

  it("keys that are not found are counted by the caller's workspace, however many there are", async () => {
    const { store, verifier } = await world({ memory: 2 ** 18, interval: 1_000 });
    const caller = (n: number) => ({ workspaceId: `ws_${n}`, may: () => true, mayAny: () => true });
    for (let again = 0; again < 2; again++)
      for (let n = 0; n < 500; n++) await verifier.verify({ key: "unknown" }, { caller: caller(n) });
    await verifier.close();
    let count = 0;
    for (const workspaceId of [...Array.from({ length: 500 }, (_, n) => `ws_${n}`), "(other)"]) {
      const period = { from: NOON - 43_200_000, to: NOON + 43_200_000 };
      const rows = await store.readOutcomes({ ...period, level: "day", workspaceId, by: [], maxRows: 10 });
      for (const { counts } of rows) count += counts[1] ?? 0;
    }
    expect(count).toBe(1_000);
  });

  it("of calls with unknown keys, workspaces beyond 10,000 share one row", async () => {
    const { store, verifier } = await world({ interval: 60_000 });
    const flushed = vi.spyOn(store, "countOutcomes");
    const caller = (n: number) => ({ workspaceId: `ws_${n}`, may: () => true, mayAny: () => true });
    for (let n = 0; n < 10_100; n++)
      for (let again = 0; again < 2; again++) await verifier.verify({ key: "unknown" }, { caller: caller(n) });
    await verifier.close();
    const cells = flushed.mock.calls.flatMap(([{ cells }]) => cells);
    expect(cells).toHaveLength(10_001);
    expect(cells.find(({ workspaceId }) => workspaceId === "(other)")?.counts[1]).toBe(200);
    vi.restoreAllMocks();
  });

  it("a store that was closed is not asked again", async () => {
    const { store, verifier, key, sent } = await world({ interval: 250 });
    vi.spyOn(store, "countOutcomes").mockImplementation(() => {
      throw new KeystileError("STORE_CLOSED", "made by the test");
    });
    await verifier.verify({ key });
    await vi.advanceTimersByTimeAsync(60_000);
    expect(sent).toHaveLength(1);
    expect(verifier.counters().outcomesUncounted).toBe(1);
    await verifier.close();
  });

  it("closing ends the pause before a repeat, and gives up after 5 s", async () => {
    const { store, verifier, key, sent } = await world({ interval: 250 }, () => "before");
    const prune = vi.spyOn(store, "pruneOutcomes");
    await verifier.verify({ key });
    // In the pause of 32 s.
    await vi.advanceTimersByTimeAsync(40_000);
    const before = sent.length;
    let isClosed = false;
    const closing = verifier.close().then(() => void (isClosed = true));
    await vi.advanceTimersByTimeAsync(0);
    expect(sent).toHaveLength(before + 1);
    await vi.advanceTimersByTimeAsync(4_900);
    expect(isClosed).toBe(false);
    await vi.advanceTimersByTimeAsync(200);
    await closing;
    expect(verifier.counters().outcomesUncounted).toBe(1);
    expect(prune).not.toHaveBeenCalled();
  });

  it("removes a thousand old counts at a time, until there are none, every ten minutes", async () => {
    let now = NOON;
    const { store, verifier, key } = await world({ interval: 250, keep: { hour: 3 } }, undefined, () => now);
    const left = { minute: [1_000, 1_000, 7], hour: [999], day: [] as number[] };
    const prune = vi.spyOn(store, "pruneOutcomes").mockImplementation((level) => left[level].shift() ?? 0);
    const pass = async (ms: number) => {
      now += ms;
      await verifier.verify({ key });
      await vi.advanceTimersByTimeAsync(1_000);
    };
    await pass(0);
    const seen = () => prune.mock.calls.map(([level, , count]) => [level, count]);
    expect(seen()).toEqual([...["minute", "minute", "minute", "hour", "day"].map((level) => [level, 1_000])]);
    expect((now - prune.mock.calls[3]![1]) / 86_400_000).toBe(3);
    await pass(599_999);
    expect(seen()).toHaveLength(5);
    await pass(1);
    expect(seen()).toHaveLength(8);
    await verifier.close();
  });

  it("a process that closes at once removes old counts too, a thousand of each length, if it counted any", async () => {
    const { store, verifier, key } = await world();
    const prune = vi.spyOn(store, "pruneOutcomes").mockImplementation(() => 1_000);
    const idle = createVerifier(store, { clock: () => NOON, analytics: true });
    await idle.close();
    expect(prune).not.toHaveBeenCalled();
    await verifier.verify({ key });
    await verifier.close();
    expect(prune.mock.calls.map(([level]) => level)).toEqual(["minute", "hour", "day"]);
  });

  it("removes old counts now and then", async () => {
    const { store, verifier, key } = await world({ interval: 250 });
    const prune = vi.spyOn(store, "pruneOutcomes");
    await verifier.verify({ key });
    await vi.advanceTimersByTimeAsync(250);
    await verifier.verify({ key });
    await vi.advanceTimersByTimeAsync(250);
    expect(prune.mock.calls.map(([level, before]) => [level, (NOON - before) / 86_400_000])).toEqual([
      ["minute", 1],
      ["hour", 14],
      ["day", 400],
    ]);
    await verifier.close();
  });
});
