import { describe, expect, it } from "vitest";
import { STRANGERS, UNPROVEN } from "../../../src/http/admission/fair-pool.js";
import { ADMISSION_BOUNDS, createAdmission, MIB } from "../../../src/http/admission/admission.js";

const admission = () => createAdmission({ ...ADMISSION_BOUNDS, budget: MIB, wait: 60_000 });

/** One whose workspace holds nearly all. */
async function greedy({ arrive }: ReturnType<typeof admission>) {
  const hold = arrive("Bearer greedy");
  hold.belongsTo("greedy");
  await hold.growValues(900_000);
  return hold;
}

describe("createAdmission: what is held ends with its request", () => {
  it("what a request waited for as it ended is given back, and others get it", async () => {
    const all = admission();
    const first = await greedy(all);
    const gone = all.arrive(undefined);
    gone.belongsTo("gone");
    const waiting = gone.growBody(400_000);
    // Granted, and ended before it could go on.
    first.release();
    gone.release();
    await expect(waiting).rejects.toMatchObject({ code: "OVERLOADED" });
    expect(all.held()).toBe(0);
  });

  it("whoever has no connection any more waits for nothing, and is not waited for", async () => {
    const all = admission();
    await greedy(all);
    const [gone, later] = [all.arrive(undefined), all.arrive(undefined)];
    for (const hold of [gone, later]) hold.belongsTo("one");
    const waiting = gone.growValues(400_000);
    const behind = later.growValues(1_000);
    gone.abandon();
    await expect(waiting).rejects.toMatchObject({ code: "OVERLOADED" });
    await behind;
    await expect(gone.growValues(400_000)).rejects.toMatchObject({ code: "OVERLOADED" });
    // What fits at once is what ends the work that was begun.
    await gone.growValues(1_000);
  });

  it("a credential that was withdrawn is nobody's from then on, however it is written", async () => {
    const all = admission();
    all.arrive("Bearer token").belongsTo("one");
    const later = ["Bearer token", "bearer  token", "BEARER token"].map((text) => all.arrive(text));
    expect(later.map(({ account }) => account)).toEqual(["one", "one", "one"]);
    later[1]!.refused();
    expect(later.map(({ account }) => account)).toEqual(["one", UNPROVEN, "one"]);
    expect(all.arrive("Bearer token").account).toBe(UNPROVEN);
    // What it held has moved, too: the workspace may hold all but what others do.
    for (const hold of later) hold.release();
    const one = all.arrive("Bearer other");
    one.belongsTo("one");
    await one.growValues(MIB / 2);
    // Without a credential nothing was withdrawn.
    const stranger = all.arrive(undefined);
    stranger.refused();
    expect(stranger.account).toBe(STRANGERS);
  });

  it("whose page must wait for space has no place meanwhile: others make theirs", async () => {
    const all = createAdmission({ ...ADMISSION_BOUNDS, wait: 1_000 });
    const of = (workspace: string) => {
      const hold = all.arrive(`Bearer ${workspace}`);
      hold.belongsTo(workspace);
      return hold;
    };
    // Two hold nearly all that they may, and ask for more pages than there are places.
    for (const name of ["a", "b"]) for (let i = 0; i < 10; i++) of(name).answered(8 * MIB);
    let ended = 0;
    const stuck = ["a", "b", "a", "b"].map((name) =>
      of(name)
        .makePage(async () => "made")
        .finally(() => ended++),
    );
    for (let i = 0; i < 3; i++) {
      const hold = of("c");
      expect(await hold.makePage(async () => "made")).toBe("made");
      hold.release();
    }
    expect(ended).toBe(0);
    for (const { status } of await Promise.allSettled(stuck)) expect(status).toBe("rejected");
  });

  it("what was granted while the caller was authenticated is held by its workspace", async () => {
    const all = admission();
    const first = await greedy(all);
    const hold = all.arrive("Bearer new");
    const waiting = hold.growBody(50_000);
    hold.belongsTo("new");
    first.release();
    await waiting;
    hold.release();
    expect(all.held()).toBe(0);
    // A sixteenth: had anything stayed with callers that are not known, it would not fit.
    await all.arrive(undefined).growBody(MIB / 16);
  });

  it("what arrives for a request that has ended is freed, and what it waits for when it is answered is given up", async () => {
    const all = admission();
    const first = await greedy(all);
    const hold = all.arrive(undefined);
    const waiting = hold.growBody(400_000);
    hold.answered(0);
    await expect(waiting).rejects.toMatchObject({ code: "OVERLOADED" });
    hold.release();
    let freed = 0;
    hold.keepBody({ free: () => freed++ });
    expect(freed).toBe(1);
    first.release();
    expect(all.held()).toBe(0);
  });

  it("an arrival holds its head, whatever it announces; a bound on requests ends the oldest of whoever has the most", async () => {
    const all = createAdmission({ ...ADMISSION_BOUNDS, requests: 4 });
    const ended: string[] = [];
    const of = (workspace: string, name: string) => {
      const hold = all.arrive(`Bearer ${workspace}`, () => ended.push(name));
      hold.belongsTo(workspace);
      return hold;
    };
    const first = of("one", "first");
    for (const name of ["a", "b", "c"]) of("many", name);
    expect([all.held(), ended]).toEqual([4 * 8_192, []]);
    const last = of("one", "last");
    expect(ended).toEqual(["a"]);
    all.makeSpace();
    expect([all.held(), ended]).toEqual([3 * 8_192, ["a", "first"]]);
    // What was ended is not counted any more, whoever its caller turns out to be.
    first.belongsTo("another");
    expect(all.held()).toBe(3 * 8_192);
    first.release();
    last.release();
    expect(all.held()).toBe(2 * 8_192);
  });

  it("an answer above the share of its workspace ends older requests whose answers are not read, and no others", () => {
    const all = admission();
    const ended: string[] = [];
    const of = (workspace: string, name: string) => {
      const hold = all.arrive(`Bearer ${workspace}`, () => ended.push(name));
      hold.belongsTo(workspace);
      return hold;
    };
    of("many", "performs");
    for (const name of ["a", "b", "c", "d"]) of("many", name).answered(150_000);
    of("other", "other").answered(150_000);
    expect(ended).toEqual(["a"]);
    for (const name of ["e", "f"]) of("many", name).answered(150_000);
    expect(ended).toEqual(["a", "b", "c", "d"]);
    expect(all.held()).toBeLessThan(MIB);
  });

  it.each(["parse", "makePage"] as const)("%s: one of each workspace at a time", async (name) => {
    const all = createAdmission({ ...ADMISSION_BOUNDS, wait: 60_000 });
    const begun: string[] = [];
    for (const workspaceId of ["one", "one", "one", "other"]) {
      const hold = all.arrive(`Bearer ${workspaceId}`);
      hold.belongsTo(workspaceId);
      const act = () => (begun.push(workspaceId), new Promise<never>(() => undefined));
      // Those that wait are refused after a minute.
      hold[name](act).catch(() => undefined);
    }
    await new Promise((resolve) => setTimeout(resolve));
    expect(begun).toEqual(["one", "other"]);
  });

  it("more requests than take some milliseconds are not begun in one tick", async () => {
    const all = createAdmission(ADMISSION_BOUNDS);
    let begun = 0;
    const begin = async () => {
      await all.arrive(undefined).turn(false);
      begun++;
      for (const began = performance.now(); performance.now() - began < 1;);
    };
    const beginning = Array.from({ length: 200 }, begin);
    await new Promise((resolve) => setTimeout(resolve));
    expect(begun).toBeLessThan(200);
    await Promise.all(beginning);
  });

  it("requests that are refused at once are told in turns, not all in one tick", async () => {
    const all = createAdmission({ ...ADMISSION_BOUNDS, budget: MIB, wait: 100, turnMs: 0 });
    await greedy(all);
    let tick = 0;
    const ticking = setInterval(() => tick++, 0);
    const refused = async (_: unknown, n: number) => {
      const hold = all.arrive(`Bearer ${n}`);
      hold.belongsTo("one");
      await expect(hold.growValues(400_000)).rejects.toMatchObject({ code: "OVERLOADED" });
      for (const began = performance.now(); performance.now() - began < 1;);
      return tick;
    };
    const ticks = await Promise.all(Array.from({ length: 64 }, refused));
    clearInterval(ticking);
    expect(new Set(ticks).size).toBeGreaterThan(3);
  });

  it("10,000 credentials are remembered, and the oldest is forgotten for another", () => {
    const all = createAdmission(ADMISSION_BOUNDS);
    for (let n = 0; n <= 10_000; n++) {
      const hold = all.arrive(`Bearer ${n}`);
      hold.belongsTo("one");
      hold.release();
    }
    expect([0, 1, 10_000].map((n) => all.arrive(`Bearer ${n}`).account)).toEqual([UNPROVEN, "one", "one"]);
  });

  it("bodies that arrive leave space for the values of those that have come", () => {
    const all = admission();
    const holdOfOne = () => {
      const hold = all.arrive("Bearer one");
      hold.belongsTo("one");
      return hold;
    };
    const first = holdOfOne();
    let last = first;
    let waiting = first.growBody(10_000);
    while (waiting === undefined) waiting = (last = holdOfOne()).growBody(10_000);
    waiting.catch(() => undefined);
    last.abandon();
    expect(first.growValues(300_000)).toBeUndefined();
  });

  it("a workspace that holds next to nothing is served at once, whatever others hold", async () => {
    const all = createAdmission({ ...ADMISSION_BOUNDS, wait: 60_000 });
    // So many that they take the whole budget, if they may. What does not fit waits for ever.
    for (const amount of [44 * MIB, MIB, 16_384])
      for (let i = 0; i < 70; i++) {
        const hold = all.arrive(`Bearer ${amount} ${i}`);
        hold.belongsTo(`${amount} ${i}`);
        Promise.resolve(hold.growValues(amount)).catch(() => {});
      }
    for (let i = 0; i < 100; i++) {
      const small = all.arrive("Bearer small");
      small.belongsTo("small");
      expect(small.withinShare()).toBeUndefined();
      small.release();
    }
  });

  it.each(["answered", "release", "freeBody"] as const)("%s frees the body, and what it held", async (end) => {
    const all = admission();
    const hold = all.arrive(undefined);
    hold.belongsTo("one");
    const before = all.held();
    let freed = 0;
    await hold.growBody(100_000);
    await hold.growBody(50_000);
    hold.keepBody({ free: () => (freed++ === 0 ? 150_000 : 0) });
    expect(all.held()).toBe(before + 150_000);
    hold[end](0);
    expect(freed).toBe(1);
    expect(all.held()).toBe(end === "release" ? 0 : before);
    hold.release();
    expect(all.held()).toBe(0);
  });
});
