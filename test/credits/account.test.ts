/** The arithmetic of accounts, by its invariants and against naive book-keeping in bigints. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { CreditChange, DrawRequest } from "../../src/contracts/store.js";
import {
  type Account,
  applyChange,
  countedBalance,
  countRefills,
  draw,
  endLease,
  forfeitedRefills,
  forfeitLeases,
  isConserved,
  isOfCalendar,
  type Lease,
  type LeaseChanges,
  MAX_BALANCE,
  openAccount,
  spend,
  sweep,
} from "../../src/credits/account.js";

const IDS = ["a", "b", "c", "d"] as const;
const DAY = 86_400_000;
/** A daily calendar, and a monthly one. */
const CALENDARS = [32_000_000_000, 5_000_000_000] as const;
type Leases = Map<string, Lease>;

const amount = fc.oneof(
  { weight: 6, arbitrary: fc.nat({ max: 60 }) },
  { weight: 1, arbitrary: fc.nat({ max: 5 }).map((n) => MAX_BALANCE - n) },
  { weight: 1, arbitrary: fc.maxSafeNat() },
);
const step = fc.record({
  kind: fc.nat({ max: 19 }),
  id: fc.constantFrom(...IDS),
  amount,
  size: amount,
  reported: fc.oneof(fc.nat({ max: 60 }), fc.constantFrom(0, 1, MAX_BALANCE)),
  days: fc.constantFrom(0, 0, 0, 1, 2, -1, 500),
  ms: fc.constantFrom(0, 0, 1, 500, 1_000, -700, DAY),
  calendar: fc.constantFrom(0, 0, 0, 1),
});
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

/** One account with its leases, its clock and what nodes have told. */
class World {
  account: Account;
  leases: Leases = new Map();
  now = 0;
  days = 10;
  calendar: 0 | 1 = 0;
  isCarried = false;

  constructor(
    first: number,
    readonly refill: number,
    rollover: number | null,
  ) {
    this.account = openAccount(first, { amount: refill, period: this.period(), generation: 0, rollover });
  }
  period(calendar = this.calendar): number {
    return CALENDARS[calendar] + this.days;
  }
  asked(cost: number) {
    return { cost, period: this.period(), now: this.now };
  }
  keep(next: { account: Account; leases: LeaseChanges }): void {
    this.isCarried ||= isCarried(this.account, next.account);
    this.account = next.account;
    for (const [id, lease] of next.leases) {
      if (lease === undefined) this.leases.delete(id);
      else this.leases.set(id, lease);
    }
  }
  request({ id, amount: cost, size, reported: spent }: Step): DrawRequest {
    const [now, until] = [this.now, this.now + 1_000];
    return { holder: id, spent, cost, step: Math.min(size, 20), size, period: this.period(), now, until };
  }
  change(over: Partial<CreditChange>): void {
    this.keep(applyChange(this.account, this.leases, { period: this.period(), ...over }));
  }
  /** Does what a step says. @returns its name */
  take(given: Step): string {
    const { kind, id, amount, reported } = given;
    if (kind < 5) return (this.keep(spend(this.account, () => this.leases, this.asked(amount))), "spend");
    if (kind < 10) return (this.keep(draw(this.account, this.leases, this.request(given))), "draw");
    if (kind < 13) return (this.keep(endLease(this.account, this.leases, { holder: id, spent: reported })), "end");
    if (kind === 13) return (this.keep(sweep(this.account, this.leases, { now: this.now, self: id })), "sweep");
    if (kind === 14) return (this.change({ remaining: amount }), "set");
    if (kind === 15) return (this.change({ add: reported % 2 === 0 ? amount : -amount }), "add");
    if (kind === 16 || kind === 17) return (this.change({ remaining: reported === 0 ? null : amount }), "set");
    if (kind === 18 && given.calendar === 1) {
      const period = this.period((this.calendar = this.calendar === 0 ? 1 : 0));
      this.keep(
        applyChange(this.account, this.leases, {
          period: this.period(this.calendar === 0 ? 1 : 0),
          refill: { amount: given.size, period, ...(given.amount % 3 > 0 && { rollover: given.amount }) },
        }),
      );
      return "refill";
    }
    this.now = Math.max(0, this.now + given.ms);
    this.days = Math.max(0, this.days + given.days);
    return "clock";
  }
  /** What leases hold, as the account's `reserved` should say. */
  leased(): bigint {
    let sum = 0n;
    for (const { held, reserved, isForfeited } of this.leases.values())
      if (!isForfeited) sum += BigInt(held) + BigInt(reserved);
    return sum;
  }
}

/** What is wrong with an account or its leases, if anything. */
function faultOf(world: World): string | undefined {
  const { account, leases } = world;
  const { adjusted, amount: _amount, period: _period, unlimited, rollover, ...counts } = account;
  for (const [name, count] of Object.entries({ ...counts, rollover: rollover ?? 0 }))
    if (!isCount(count)) return `${name} is ${count}`;
  for (const { held, reserved, spent } of leases.values())
    if (![held, reserved, spent].every(isCount)) return `a lease says ${held}, ${reserved}, ${spent}`;
  if (!Number.isSafeInteger(adjusted)) return `adjusted is ${adjusted}`;
  if (!isConserved(account)) return "credits were made or lost";
  if (unlimited && account.remaining !== 0) return `an unlimited account has ${account.remaining}`;
  const leased = world.leased();
  return BigInt(account.reserved) === leased ? undefined : `${account.reserved} are reserved, leases hold ${leased}`;
}
const isCount = (n: number): boolean => Number.isSafeInteger(n) && n >= 0;

/** Whether totals started anew. */
function isCarried(from: Account, to: Account): boolean {
  return from.refilled > to.refilled || from.spent > to.spent || (from.credited > 0 && from.credited !== to.credited);
}

const rollovers = fc.option(fc.oneof(fc.constant(0), amount));
const histories = fc.tuple(amount, amount, rollovers, fc.array(step, { maxLength: 60, size: "max" }));

describe("countRefills: with a rollover", () => {
  it("leaves what a walk from boundary to boundary leaves, and names what expired (property)", () => {
    const seen = { expired: 0, full: 0, within: 0 };
    fc.assert(
      fc.property(amount, amount, amount, fc.integer({ min: 1, max: 500 }), (had, each, rollover, passed) => {
        const period = CALENDARS[0];
        const account = openAccount(had, { amount: each, period, generation: 0, rollover });
        const after = countRefills(account, period + passed);
        let [left, stayed] = [BigInt(had), 0n];
        for (let i = 0; i < Math.min(400, passed); i++) {
          stayed = left < BigInt(rollover) ? left : BigInt(rollover);
          left = stayed + BigInt(each);
        }
        const capped = left < BigInt(MAX_BALANCE) ? left : BigInt(MAX_BALANCE);
        expect(BigInt(after.remaining)).toBe(capped);
        expect([BigInt(after.returnable), after.rollovers]).toEqual([BigInt(rollover) - stayed, 1]);
        expect(isConserved(after)).toBe(true);
        expect(Object.values({ ...after, unlimited: 0, rollover: 0 }).every(isCount)).toBe(true);
        seen[after.remaining === MAX_BALANCE ? "full" : after.expired > 0 ? "expired" : "within"]++;
        // One after the other.
        let walked = account;
        for (let i = 1; i <= Math.min(400, passed); i++) walked = countRefills(walked, period + i);
        expect(walked.remaining).toBe(after.remaining);
      }),
      { numRuns: 2_000 },
    );
    expect(Math.min(...Object.values(seen)), JSON.stringify(seen)).toBeGreaterThan(20);
  });

  it("a lease that comes back just before or just after a boundary leaves the same (property)", () => {
    const small = fc.nat({ max: 100 });
    fc.assert(
      fc.property(small, small, small, small, small, (had, each, rollover, drawn, spent) => {
        const period = CALENDARS[0];
        const open = openAccount(had, { amount: each, period, generation: 0, rollover });
        const asked = { holder: "a", spent: 0, cost: drawn, step: drawn, size: drawn, period, now: 0, until: 10 };
        const { account, leases } = draw(open, new Map(), asked);
        const book = new Map(leases as [string, Lease][]);
        const ended = { holder: "a", spent };
        const first = countRefills(endLease(account, book, ended).account, period + 1);
        const last = endLease(countRefills(account, period + 1), book, ended).account;
        expect([last.remaining, last.expired, last.spent]).toEqual([first.remaining, first.expired, first.spent]);
      }),
      { numRuns: 1_000 },
    );
  });
});

describe("accounts: any history", () => {
  it("conserves credits, within bounds, and `reserved` is what leases hold", () => {
    const seen: Record<string, number> = { forfeited: 0, expired: 0, carried: 0, full: 0, held: 0, returnable: 0 };
    fc.assert(
      fc.property(histories, ([first, refill, rollover, steps]) => {
        const world = new World(first, refill, rollover);
        for (const given of steps) {
          const from = world.account;
          const name = world.take(given);
          seen[name] = (seen[name] ?? 0) + 1;
          const { account, leases } = world;
          expect(faultOf(world), name).toBeUndefined();
          if (isCarried(from, account)) seen["carried"]!++;
          if (account.forfeited > 0) seen["forfeited"]!++;
          if (account.expired > 0) seen["expired"]!++;
          if (account.returnable < from.returnable) seen["returnable"]!++;
          if (account.remaining === MAX_BALANCE) seen["full"]!++;
          if ([...leases.values()].some(({ isForfeited }) => isForfeited)) seen["held"]!++;
        }
      }),
      { numRuns: 2_000 },
    );
    expect(Math.min(...Object.values(seen)), JSON.stringify(seen)).toBeGreaterThan(50);
  });

  it("a refusal and a cost of 0 change nothing; a grant takes exactly its cost", () => {
    const seen = { ok: 0, refused: 0 };
    fc.assert(
      fc.property(histories, amount, ([first, refill, rollover, steps], cost) => {
        const world = new World(first, refill, rollover);
        for (const given of steps) world.take(given);
        const { account, leases } = world;
        if (account.unlimited) return;
        const there = countedBalance(account, leases, world.asked(0)).remaining!;
        const { result, account: after } = spend(account, () => leases, world.asked(cost));
        if (result.stale === true) return;
        expect(result.ok).toBe(cost <= there);
        seen[result.ok ? "ok" : "refused"]++;
        if (cost === 0) expect([after, result.remaining]).toEqual([account, there]);
        else if (result.ok) expect(result.remaining).toBe(after.remaining);
        // Reserves are taken back only where that is needed.
        const before = countedBalance(after, leases, { period: world.period(), now: -1 }).remaining!;
        if (!result.ok) expect(before).toBeLessThanOrEqual(there);
      }),
      { numRuns: 1_000 },
    );
    expect(Math.min(seen.ok, seen.refused)).toBeGreaterThan(100);
  });

  it("a draw hands out nothing or at least its cost, and no more than its size beyond that", () => {
    let drawnSome = 0;
    fc.assert(
      fc.property(histories, step, ([first, refill, rollover, steps], given) => {
        const world = new World(first, refill, rollover);
        for (const each of steps) world.take(each);
        const request = world.request(given);
        const { account } = world;
        const { result, account: after, leases } = draw(account, world.leases, request);
        const lease = new Map(leases.map(([id, kept]) => [id, kept])).get(request.holder);
        if (account.unlimited) expect(result).toMatchObject({ drawn: request.cost, remaining: null });
        else if (result.drawn > 0) {
          drawnSome++;
          expect(result.drawn).toBeGreaterThanOrEqual(request.cost);
          expect(result.drawn).toBeLessThanOrEqual(Math.max(request.cost, request.step));
          expect(lease).toMatchObject({ generation: account.generation, isForfeited: false, expires: request.until });
          if (after.remaining < MAX_BALANCE)
            expect(lease!.reserved).toBeLessThanOrEqual(Math.max(0, request.size - result.drawn));
          expect(result.remaining).toBe(Math.min(MAX_BALANCE, after.remaining + lease!.reserved));
        }
        expect(result.remaining === null || Number.isSafeInteger(result.remaining)).toBe(true);
      }),
      { numRuns: 1_000 },
    );
    expect(drawnSome).toBeGreaterThan(100);
  });

  it("an end twice changes nothing, and neither does an end of an unknown lease", () => {
    let ended = 0;
    fc.assert(
      fc.property(
        histories,
        fc.constantFrom(...IDS),
        fc.nat({ max: 60 }),
        ([first, refill, rollover, steps], holder, spent) => {
          const world = new World(first, refill, rollover);
          for (const given of steps) world.take(given);
          if (world.leases.has(holder)) ended++;
          world.keep(endLease(world.account, world.leases, { holder, spent }));
          expect(world.leases.has(holder)).toBe(false);
          const { account } = world;
          for (const again of [spent, spent + 7, 0]) {
            const { account: after, leases } = endLease(account, world.leases, { holder, spent: again });
            expect([after, leases]).toEqual([account, []]);
          }
        },
      ),
      { numRuns: 1_000 },
    );
    expect(ended).toBeGreaterThan(100);
  });
});

/**
 * Nodes that spend from their leases, by book-keeping in bigints: what was put in, less what was spent, is what is left
 * once all leases have ended.
 */
describe("accounts: against naive book-keeping", () => {
  interface Node {
    drawn: bigint;
    spent: bigint;
  }
  const act = fc.record({
    kind: fc.nat({ max: 11 }),
    id: fc.constantFrom(...IDS),
    cost: fc.oneof(fc.nat({ max: 30 }), fc.constantFrom(2 ** 50, 2 ** 52)),
    ms: fc.constantFrom(0, 0, 0, 1, 400, 1_000, 2_000),
    lost: fc.boolean(),
  });
  const acts = fc.tuple(
    fc.oneof(fc.nat({ max: 300 }), fc.constantFrom(2 ** 52, MAX_BALANCE)),
    fc.constantFrom(0, 7, 2 ** 51),
    fc.array(act, { maxLength: 80, size: "max" }),
  );

  it("every credit is spent once or is left, also where nodes were slow and reports arrive twice or not at all", () => {
    const seen = { granted: 0, late: 0, full: 0, carried: 0, whole: 0 };
    fc.assert(
      fc.property(acts, ([first, refill, all]) => {
        const world = new World(first, refill, null);
        let put = BigInt(first);
        let spent = 0n;
        /** What could not be returned, because the balance was full. */
        let lost = 0n;
        /** A late report found less than it asked for, since the credits that it counts left the totals. */
        let isCut = false;
        const nodes = new Map<string, Node>();
        const node = (id: string): Node => {
          const known = nodes.get(id) ?? { drawn: 0n, spent: 0n };
          nodes.set(id, known);
          return known;
        };
        /** Refills as the calendar says, only as far as they fit. */
        const refillDue = (from: Account, to: Account) => {
          const due = BigInt(Math.min(400, to.period - from.period)) * BigInt(refill);
          const space = BigInt(MAX_BALANCE) - BigInt(from.remaining);
          put += due < space ? due : space;
        };
        /** Returns to a balance as much as fits. @returns the balance then */
        const giveBack = (remaining: bigint, returned: bigint): bigint => {
          const fits = BigInt(MAX_BALANCE) - remaining;
          if (returned <= fits) return remaining + returned;
          lost += returned - fits;
          seen.full++;
          return remaining + fits;
        };
        const noteCut = (id: string): void => {
          const lease = world.leases.get(id);
          const most = Math.min(world.account.forfeited, MAX_BALANCE - world.account.reserved);
          if (lease?.isForfeited === true && lease.held > most) isCut = true;
        };
        const end = (id: string): void => {
          const { spent: by } = node(id);
          const lease = world.leases.get(id);
          noteCut(id);
          if (lease !== undefined) {
            const left = BigInt(lease.held) + BigInt(lease.reserved) + BigInt(lease.spent) - by;
            giveBack(BigInt(world.account.remaining), left);
          }
          world.keep(endLease(world.account, world.leases, { holder: id, spent: Number(by) }));
          nodes.delete(id);
        };
        for (const { kind, id, cost, ms, lost: isLost } of all) {
          const from = world.account;
          if (kind < 3) {
            world.keep(spend(from, () => world.leases, { cost, period: world.period(), now: -1 }));
            if (world.account.period > from.period) refillDue(from, world.account);
            const settled = put - spent - lost;
            expect(settled).toBeGreaterThanOrEqual(0n);
            if (world.account !== from && cost > 0) spent += BigInt(cost);
          } else if (kind < 7) {
            const { drawn, spent: by } = node(id);
            noteCut(id);
            const request = {
              holder: id,
              spent: Number(by),
              cost,
              step: 20,
              size: 60,
              period: world.period(),
              now: -1,
            };
            const next = draw(from, world.leases, { ...request, until: world.now + 1_000 });
            if (next.account.period > from.period) refillDue(from, next.account);
            world.keep(next);
            if (!isLost) nodes.set(id, { drawn: drawn + BigInt(next.result.drawn), spent: by });
          } else if (kind < 9) {
            const known = node(id);
            // A node ends its lease before its report would pass 2^53 − 1.
            const isReportable = known.spent + BigInt(cost) <= MAX_BALANCE;
            if (isReportable && known.drawn - known.spent >= BigInt(cost)) {
              known.spent += BigInt(cost);
              spent += BigInt(cost);
              seen.granted++;
            }
          } else if (kind === 9) {
            end(id);
          } else if (kind === 10) {
            // Nodes are slow: their leases expire, and are forfeited until they report.
            world.now += ms;
            let remaining = BigInt(from.remaining);
            for (const { expires, isForfeited, reserved } of world.leases.values())
              if (expires <= world.now && !isForfeited) remaining = giveBack(remaining, BigInt(reserved));
            const { account, leases } = sweep(world.account, world.leases, { now: world.now });
            if (leases.length > 0) seen.late++;
            world.keep({ account, leases });
          } else {
            world.days += 1;
          }
        }
        for (const id of IDS) end(id);
        const { remaining, reserved, forfeited, spent: counted } = world.account;
        expect(reserved).toBe(0);
        const isBeyond = spent > MAX_BALANCE || put - BigInt(first) > MAX_BALANCE;
        if (world.isCarried || isBeyond || isCut) {
          // What had been forfeited until the totals started anew stays so: only less can be left.
          seen.carried++;
          expect(BigInt(remaining)).toBeLessThanOrEqual(put - spent);
          return;
        }
        seen.whole++;
        expect(BigInt(counted)).toBe(spent);
        expect(BigInt(remaining) + BigInt(forfeited)).toBe(put - spent);
        expect(BigInt(forfeited)).toBe(lost);
      }),
      { numRuns: 2_000 },
    );
    expect(Math.min(...Object.values(seen)), JSON.stringify(seen)).toBeGreaterThan(50);
  });
});

describe("accounts: totals near 2^53 − 1", () => {
  const open = (remaining: number) => openAccount(remaining, { amount: 0, period: 0, generation: 0 });
  const request = { holder: "a", spent: 0, cost: 5, step: 1, size: 5, period: 0, now: 0, until: 1_000 };

  it("are carried forward while credits are leased, however large the change", () => {
    const drawn = draw(open(10), new Map(), request);
    const leases: Leases = new Map(drawn.leases as [string, Lease][]);
    const increased = applyChange(drawn.account, leases, { period: 0, add: 20 }).account;
    const used = spend(increased, () => leases, { cost: 20, period: 0, now: 0 }).account;
    const { account } = applyChange(used, leases, { period: 0, add: MAX_BALANCE });
    expect(account).toMatchObject({ remaining: MAX_BALANCE, reserved: 5, credited: 10, spent: 0 });
    expect(isConserved(account)).toBe(true);
    const ended = endLease(account, leases, { holder: "a", spent: 2 }).account;
    expect(ended).toMatchObject({ remaining: MAX_BALANCE, reserved: 0, spent: 2, forfeited: 3 });
  });

  it("an account whose sums are inexact on the way still adds up, and one that is off by 1 does not", () => {
    const totals = { credited: MAX_BALANCE, refilled: 2, adjusted: -MAX_BALANCE, reserved: 2, spent: 0, forfeited: 0 };
    const account = { ...open(0), ...totals };
    expect(isConserved(account)).toBe(true);
    for (const name of ["refilled", "adjusted", "reserved", "spent"] as const)
      expect(isConserved({ ...account, [name]: account[name] + 1 }), name).toBe(false);
    // 2^53 + 1 against 2^53, which as numbers are the same.
    const large = { ...open(MAX_BALANCE), adjusted: 2, reserved: 1 };
    expect([isConserved(large), isConserved({ ...large, reserved: 2 })]).toEqual([false, true]);
  });

  it("a total may reach 2^53 − 1: nothing is carried forward before it would pass that", () => {
    const account = { ...open(0), credited: MAX_BALANCE, reserved: 3, forfeited: MAX_BALANCE - 3 };
    const lease = { generation: 0, rollovers: 0, expires: 1, reserved: 3, held: 0, spent: 0, isForfeited: false };
    const full = { ...account, reserved: 0, forfeited: MAX_BALANCE };
    expect(forfeitLeases(account, new Map([["a", lease]])).account).toEqual(full);
  });

  it("a draw takes no more than `reserved` can count", () => {
    const full = open(MAX_BALANCE);
    const first = draw(full, new Map(), { ...request, cost: MAX_BALANCE });
    expect(first.result).toEqual({ drawn: MAX_BALANCE, generation: 0, remaining: 0 });
    const leases: Leases = new Map(first.leases as [string, Lease][]);
    const { account } = applyChange(first.account, leases, { period: 0, add: 8 });
    for (const holder of ["a", "b"]) {
      const next = draw(account, leases, { ...request, holder });
      expect(next.result).toMatchObject({ drawn: 0, remaining: 8 });
      expect(next.account).toMatchObject({ remaining: 8, reserved: MAX_BALANCE });
    }
  });

  it("a reserve that shrinks returns only what fits", () => {
    const drawn = draw(open(100), new Map(), { ...request, size: 50 });
    const leases: Leases = new Map(drawn.leases as [string, Lease][]);
    const { account } = applyChange(drawn.account, leases, { period: 0, add: MAX_BALANCE });
    const next = draw(account, leases, { ...request, cost: 1, size: 1 });
    expect(next.account).toMatchObject({ remaining: MAX_BALANCE, reserved: account.reserved });
  });

  it("what the store has for a lease is reported as at most 2^53 − 1", () => {
    const drawn = draw(open(100), new Map(), { ...request, size: 50 });
    const leases: Leases = new Map(drawn.leases as [string, Lease][]);
    const { account } = applyChange(drawn.account, leases, { period: 0, add: MAX_BALANCE });
    expect(draw(account, leases, { ...request, cost: 1, size: 50 }).result.remaining).toBe(MAX_BALANCE);
  });

  it("a lease that the store has dropped counts again from what it had spent", () => {
    const drawn = draw(open(100), new Map(), { ...request, cost: 10, step: 10, size: 10 });
    const leases: Leases = new Map(drawn.leases as [string, Lease][]);
    // All spent and reported: the lease is empty, and void when the balance is set.
    const empty = draw(drawn.account, leases, { ...request, spent: 10, cost: 1_000 });
    const set = applyChange(empty.account, new Map(empty.leases as [string, Lease][]), { period: 0, remaining: 50 });
    expect(set.leases).toEqual([["a", undefined]]);
    const again = draw(set.account, new Map(), { ...request, spent: 10, cost: 20 });
    const ended = endLease(again.account, new Map(again.leases as [string, Lease][]), { holder: "a", spent: 10 });
    expect(ended.account).toMatchObject({ remaining: 50, reserved: 0, spent: 10 });
  });
});

describe("forfeitLeases: the account of a copy", () => {
  const lease = (over: Partial<Lease>): Lease => ({
    generation: 0,
    rollovers: 0,
    expires: 1,
    reserved: 0,
    held: 0,
    spent: 0,
    isForfeited: false,
    ...over,
  });
  const counts = { amount: 0, period: 0, generation: 0 };

  it("forfeits what leases hold and reserve, and nothing that was forfeited before", () => {
    const account: Account = { ...openAccount(100, counts), remaining: 60, reserved: 30, forfeited: 10 };
    const leases = new Map([
      ["a", lease({ held: 12, reserved: 18 })],
      ["late", lease({ held: 10, isForfeited: true })],
    ]);
    const { account: copy, leases: changes } = forfeitLeases(account, leases);
    expect(copy).toEqual({ ...account, reserved: 0, forfeited: 40 });
    expect(changes).toEqual([...leases.keys()].map((id) => [id, undefined]));
    expect(isConserved(copy)).toBe(true);
    // Of an account that says more than its leases hold, the rest stays to be found.
    const { account: damaged } = forfeitLeases({ ...account, reserved: 37 }, leases);
    expect([damaged.reserved, damaged.forfeited, isConserved(damaged)]).toEqual([7, 40, false]);
    // Reservations stay.
    const held = new Map([...leases, ["res_1", lease({ reserved: 5 })]] as const);
    const some = forfeitLeases({ ...account, remaining: 55, reserved: 35 }, held);
    expect(some).toEqual({ account: { ...account, remaining: 55, reserved: 5, forfeited: 40 }, leases: changes });
  });
});

describe("refills of an account", () => {
  const [daily, monthly] = CALENDARS;
  const open = (amount: number, period: number = daily) => openAccount(5, { amount, period, generation: 0 });

  it("are of one calendar: with the period of another nothing is counted, and a spend is stale", () => {
    const account = open(10);
    expect([isOfCalendar(account, daily + 3), isOfCalendar(account, monthly + 3)]).toEqual([true, false]);
    expect(isOfCalendar({ ...account, unlimited: true }, monthly)).toBe(true);
    expect(countRefills({ ...account, period: monthly }, daily)).toMatchObject({ remaining: 5, period: monthly });
    expect(spend(account, () => new Map(), { cost: 1, period: monthly + 3, now: 0 }).result).toMatchObject({
      ok: false,
      stale: true,
    });
  });

  it("are counted once for each boundary: the account given comes back where none was passed", () => {
    const account = open(10, daily + 4);
    expect(countRefills(account, daily + 4)).toBe(account);
    expect(countRefills(account, daily + 3)).toBe(account);
    expect(countRefills(account, daily + 6)).toMatchObject({ remaining: 25, refilled: 20, period: daily + 6 });
  });

  it("that `refilled` cannot count start it anew", () => {
    let account = openAccount(0, { amount: MAX_BALANCE, period: daily, generation: 0 });
    for (const day of [1, 2, 3]) {
      account = countRefills(account, daily + day);
      expect(account).toMatchObject({ remaining: MAX_BALANCE, refilled: MAX_BALANCE });
      account = spend(account, () => new Map(), { cost: MAX_BALANCE, period: daily + day, now: 0 }).account;
      expect([account.remaining, account.spent, isConserved(account)]).toEqual([0, MAX_BALANCE, true]);
    }
  });

  it("of more than 400 days at once the rest is forfeited, unless there is nothing to refill", () => {
    const account = open(10);
    expect(forfeitedRefills(account, daily + 400)).toBe(0);
    expect(forfeitedRefills(account, daily + 500)).toBe(100);
    expect(forfeitedRefills(open(0), daily + 500)).toBe(0);
    expect(forfeitedRefills(account, monthly + 500)).toBe(0);
    expect(countRefills(account, daily + 500).remaining).toBe(4_005);
  });
});
