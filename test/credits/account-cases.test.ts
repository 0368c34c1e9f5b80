/** What each operation on an account does, case by case: the numbers, and which leases it leaves behind. */
import { describe, expect, it } from "vitest";
import type { CreditChange, DrawRequest } from "../../src/contracts/store.js";
import {
  type Account,
  applyChange,
  assertDraw,
  assertReservation,
  assertReturn,
  assertSettle,
  assertSpend,
  countedBalance,
  draw,
  ENDING_KEPT,
  endLease,
  type Ending,
  forfeitedRefills,
  isConserved,
  isCurrent,
  type Lease,
  type LeaseChanges,
  MAX_BALANCE,
  MAX_RESERVATIONS,
  openAccount,
  reserve,
  settle,
  spend,
  spendRemaining,
  sweep,
} from "../../src/credits/account.js";

const DAY = 86_400_000;
/** The tenth day of a daily calendar, and a month of another one. */
const TENTH = 32_000_000_010;
const MONTHLY = 5_000_000_003;
const NOW = 5_000_000_000;

/** An account in balance: what is not said of where its credits came from was its first balance. */
function accountOf(over: Partial<Account>): Account {
  const account = { ...openAccount(0, { amount: 0, period: TENTH, generation: 1 }), ...over };
  const { remaining, reserved, forfeited, expired, spent, refilled, adjusted } = account;
  const credited = over.credited ?? remaining + reserved + forfeited + expired + spent - refilled - adjusted;
  return { ...account, credited };
}
/** A lease of generation 1 that expires a second from now. */
const leaseOf = (over: Partial<Lease>): Lease => ({
  generation: 1,
  rollovers: 0,
  expires: NOW + 1_000,
  reserved: 0,
  held: 0,
  spent: 0,
  isForfeited: false,
  ...over,
});
type LeaseChange = LeaseChanges[number];
const EXPIRED = { expires: NOW } as const;
const book = (leases: Readonly<Record<string, Partial<Lease>>>): Map<string, Lease> =>
  new Map(Object.entries(leases).map(([id, lease]) => [id, leaseOf(lease)]));
const NONE: ReadonlyMap<string, Lease> = new Map();
const requestOf = (over: Partial<DrawRequest>): DrawRequest => ({
  ...{ holder: "a", spent: 0, cost: 1, step: 1, size: 1, period: TENTH, now: NOW, until: NOW + 1_000 },
  ...over,
});

describe("isCurrent", () => {
  const account = accountOf({ remaining: 5 });
  const change = (over: Partial<CreditChange>): CreditChange => ({ period: TENTH, add: 1, ...over });

  it.each<[string, Account | undefined, CreditChange | undefined, boolean]>([
    ["a change of a key that never had an account", undefined, change({ refillsCounted: 0 }), true],
    ["no change", account, undefined, true],
    ["a change of the calendar that it read", account, change({}), true],
    ["nothing was counted since", account, change({ refillsCounted: TENTH }), true],
    ["less was counted than its author saw", account, change({ refillsCounted: TENTH + 1 }), true],
    ["a period was counted since", account, change({ refillsCounted: TENTH - 1 }), false],
    ["a change that read another calendar", account, change({ period: MONTHLY }), false],
    ["one that sets the balance all the same", account, change({ period: MONTHLY, remaining: 7 }), true],
    ["one that makes it unlimited all the same", account, change({ period: MONTHLY, remaining: null }), true],
    ["any calendar while unlimited", { ...account, unlimited: true }, change({ period: MONTHLY }), true],
  ])("%s", (_what, before, given, expected) => expect(isCurrent(before, given)).toBe(expected));
});

describe("applyChange", () => {
  const apply = (before: Account | undefined, change: Partial<CreditChange>, leases = NONE) =>
    applyChange(before, leases, { period: TENTH, ...change });

  it("the first balance counts as credited, and has a generation and a calendar of its own", () => {
    const { account, leases } = apply(undefined, { remaining: 7, refill: { amount: 2, period: TENTH + 1 } });
    const counts = { amount: 2, period: TENTH + 1, generation: 1 };
    expect([account, leases]).toEqual([openAccount(7, counts), []]);
  });

  it("a key that never had a balance stays unlimited, whatever is added", () => {
    const { account } = apply(undefined, { add: 5 });
    expect(account).toEqual({ ...openAccount(0, { amount: 0, period: TENTH, generation: 0 }), unlimited: true });
  });

  it.each<[string, Partial<Account>, number]>([
    ["of none left", { remaining: 0 }, 7],
    ["of an account that is limited and never had any", { remaining: 0, credited: 0 }, 7],
    ["of one that was unlimited in between, and was credited", { unlimited: true, credited: 4, adjusted: -4 }, 3],
    ["… and only refilled", { unlimited: true, refilled: 4, adjusted: -4 }, 3],
    ["… and spent what was refilled", { unlimited: true, refilled: 4, spent: 4 }, 7],
  ])("any later balance counts as adjusted: %s", (_what, given, adjusted) => {
    const before = accountOf(given);
    const { account } = apply(before, { remaining: 7 });
    expect(account).toEqual({ ...before, unlimited: false, remaining: 7, adjusted, generation: 2 });
    expect(isConserved(account)).toBe(true);
  });

  it("without a limit nothing remains, and the next limit is the balance that is set", () => {
    const before = accountOf({ remaining: 9 });
    const unlimited = { ...before, unlimited: true, remaining: 0, adjusted: -9, generation: 2 };
    expect(apply(before, { remaining: null }).account).toEqual(unlimited);
    expect(apply(before, { remaining: null, add: 5 }).account).toEqual(unlimited);
    expect(apply(unlimited, { remaining: 3 }).account).toMatchObject({ unlimited: false, remaining: 3, adjusted: -6 });
    expect(apply(before, { remaining: 3, add: 5 }).account).toMatchObject({ remaining: 8, adjusted: -1 });
  });

  it.each([
    [5, 14],
    [-4, 5],
    [-10, 0],
    [MAX_BALANCE, MAX_BALANCE],
  ])("adding %i to 9 makes %i", (add, remaining) => {
    const before = accountOf({ remaining: 9 });
    expect(apply(before, { add }).account).toEqual({ ...before, remaining, adjusted: remaining - 9 });
  });

  it("expired reserves are in the balance that is changed, at the time that the change says", () => {
    const before = accountOf({ remaining: 5, reserved: 70 });
    const leases = book({
      late: { ...EXPIRED, reserved: 20, held: 3 },
      void: { ...EXPIRED, held: 7, generation: 0 },
      live: { expires: NOW + 1, reserved: 40 },
    });
    const swept = { remaining: 25, reserved: 40, forfeited: 10 };
    const forfeited = { ...EXPIRED, isForfeited: true };
    expect(apply(before, { add: -24, now: NOW }, leases)).toEqual({
      result: -24,
      account: { ...before, ...swept, remaining: 1, adjusted: -24 },
      leases: [
        ["late", leaseOf({ ...forfeited, held: 3 })],
        ["void", leaseOf({ ...forfeited, held: 7, generation: 0 })],
      ],
    });
    for (const now of [NOW - 1, undefined])
      expect(apply(before, { add: -24, ...(now !== undefined && { now }) }, leases)).toEqual({
        result: -5,
        account: { ...before, remaining: 0, adjusted: -5 },
        leases: [],
      });
    // Nothing is written of leases that have nothing to give back.
    const { void: held } = Object.fromEntries(leases);
    const other = accountOf({ remaining: 5, reserved: 7 });
    expect(apply(other, { add: 1, now: NOW }, book({ held: held! })).leases).toEqual([]);
  });

  it("refills that are due are counted by the old amount, and another amount keeps what was counted", () => {
    const before = accountOf({ remaining: 1, amount: 10 });
    const { account } = apply(before, { period: TENTH + 2, add: 5, refill: { amount: 3 } });
    const counted = { remaining: 26, refilled: 20, adjusted: 5, period: TENTH + 2, amount: 3 };
    expect(account).toEqual({ ...before, ...counted });
  });

  it("under another calendar a balance is set, and nothing is counted as refilled", () => {
    const before = accountOf({ remaining: 1, amount: 10 });
    const set = { remaining: 4, adjusted: 3, period: MONTHLY, generation: 2 };
    expect(apply(before, { period: MONTHLY, remaining: 4 }).account).toEqual({ ...before, ...set });
  });

  it("setting a balance voids reserves; leases stay whose nodes hold credits", () => {
    const leases = book({
      empty: {},
      reserve: { reserved: 20 },
      both: { reserved: 3, held: 4, spent: 1 },
      inHand: { held: 5 },
    });
    const before = accountOf({ remaining: 1, reserved: 32 });
    const { account, leases: changes } = apply(before, { remaining: 10 }, leases);
    expect(changes).toEqual([
      ["empty", undefined],
      ["reserve", undefined],
      ["both", leaseOf({ held: 4, spent: 1 })],
    ]);
    const set = { remaining: 10, adjusted: 9, reserved: 9, forfeited: 23, generation: 2 };
    expect(account).toEqual({ ...before, ...set });
    expect(apply(before, { add: 1 }, leases).leases).toEqual([]);
  });
});

describe("countedBalance", () => {
  it("a key that never had an account, and one without a limit, have no number", () => {
    expect(countedBalance(undefined, NONE, { period: TENTH, now: NOW })).toEqual({
      remaining: null,
      period: TENTH,
      reserved: 0,
    });
    const unlimited = accountOf({ unlimited: true, reserved: 3 });
    const nothing = { remaining: null, period: TENTH + 2, reserved: 0 };
    expect(countedBalance(unlimited, book({ a: { held: 3 } }), { period: TENTH + 2, now: NOW })).toEqual(nothing);
  });

  it("counts due refills and expired reserves, and says where all credits went", () => {
    const account = accountOf({ remaining: 5, amount: 10, reserved: 60, spent: 2, forfeited: 1 });
    const leases = book({ late: { ...EXPIRED, reserved: 20, held: 7 }, live: { reserved: 30, held: 3 } });
    expect(countedBalance(account, leases, { period: TENTH + 1, now: NOW })).toEqual({
      remaining: 35,
      period: TENTH + 1,
      reserved: 33,
      totals: { credited: 68, refilled: 10, adjusted: 0, spent: 2, forfeited: 8, expired: 0 },
    });
  });
});

describe("spend", () => {
  const take = (account: Account, leases: ReadonlyMap<string, Lease>, cost: number, period = TENTH) =>
    spend(account, () => leases, { cost, period, now: NOW });
  const unread = (): never => expect.fail("leases do not matter here");

  it("looks at no leases where the balance covers the cost and nothing is leased, or does not matter", () => {
    const account = accountOf({ remaining: 5, reserved: 9 });
    expect(spend(accountOf({ remaining: 5 }), unread, { cost: 5, period: TENTH, now: NOW }).result).toEqual({
      ok: true,
      remaining: 0,
    });
    expect(spend(account, unread, { cost: 5, period: MONTHLY, now: NOW }).result).toEqual({
      ok: false,
      remaining: 0,
      stale: true,
    });
    const unlimited = accountOf({ unlimited: true });
    for (const cost of [0, 5])
      expect(spend(unlimited, unread, { cost, period: TENTH, now: NOW })).toEqual({
        account: unlimited,
        leases: [],
        result: { ok: true, remaining: null },
      });
  });

  it("a cost of 0 shows reserves that have expired under this balance, and takes nothing back", () => {
    const account = accountOf({ remaining: 5, reserved: 70, amount: 10 });
    const leases = book({
      late: { ...EXPIRED, reserved: 20, held: 1 },
      void: { ...EXPIRED, reserved: 9, generation: 0 },
      live: { expires: NOW + 1, reserved: 40 },
    });
    expect(take(account, leases, 0, TENTH + 1)).toEqual({ account, leases: [], result: { ok: true, remaining: 35 } });
    const full = accountOf({ remaining: MAX_BALANCE - 1, reserved: 21, refilled: 20 });
    expect(take(full, leases, 0).result.remaining).toBe(MAX_BALANCE);
  });

  it("takes expired reserves back also where the cost is covered, so that all results agree", () => {
    const account = accountOf({ remaining: 5, reserved: 63 });
    const leases = book({ late: { ...EXPIRED, reserved: 20, held: 3 }, live: { expires: NOW + 1, reserved: 40 } });
    expect(take(account, leases, 5)).toEqual({
      account: { ...account, remaining: 20, reserved: 40, spent: 5, forfeited: 3 },
      leases: [["late", leaseOf({ ...EXPIRED, held: 3, isForfeited: true })]],
      result: { ok: true, remaining: 20 },
    });
    // Leases without a reserve are left as they are: nothing but the spend is written.
    const held = book({ late: { ...EXPIRED, held: 3 }, live: { expires: NOW + 1, reserved: 60 } });
    expect(take(account, held, 5)).toMatchObject({ leases: [], result: { ok: true, remaining: 0 } });
  });

  it("takes expired reserves back where the cost is not covered without them", () => {
    const account = accountOf({ remaining: 5, reserved: 63, amount: 10 });
    const leases = book({ late: { ...EXPIRED, reserved: 20, held: 3 }, live: { expires: NOW + 1, reserved: 40 } });
    const forfeited = leaseOf({ ...EXPIRED, held: 3, isForfeited: true });
    expect(take(account, leases, 30, TENTH + 1)).toEqual({
      account: {
        ...account,
        ...{ remaining: 5, reserved: 40, spent: 30, forfeited: 3, refilled: 10, period: TENTH + 1 },
      },
      leases: [["late", forfeited]],
      result: { ok: true, remaining: 5 },
    });
    // Also where that is not enough: they are free for others.
    expect(take(account, leases, 99, TENTH + 1)).toEqual({
      account: { ...account, remaining: 25, reserved: 40, forfeited: 3 },
      leases: [["late", forfeited]],
      result: { ok: false, remaining: 35 },
    });
    const live = book({ live: { reserved: 40 } });
    expect(take(account, live, 6)).toEqual({ account, leases: [], result: { ok: false, remaining: 5 } });
  });

  it("without leases, a cost of 0 changes nothing and shows the refills that are due", () => {
    const account = accountOf({ remaining: 5, amount: 10 });
    expect(spendRemaining(account, 0, TENTH + 1)).toEqual({
      account,
      leases: [],
      result: { ok: true, remaining: 15 },
    });
  });

  it("says how many refills it left out, and nothing of it where there are none", () => {
    const account = accountOf({ remaining: 5, amount: 1 });
    expect(take(account, NONE, 5, TENTH + 402).result).toEqual({ ok: true, remaining: 400, forfeited: 2 });
    expect(take(account, NONE, 5, TENTH + 400).result).toEqual({ ok: true, remaining: 400 });
    expect(forfeitedRefills(account, TENTH + 401)).toBe(1);
    expect(forfeitedRefills(account, MONTHLY + 99)).toBe(0);
  });
});

describe("reserve", () => {
  const UNTIL = NOW + 9;
  const take = (account: Account, leases: Readonly<Record<string, Partial<Lease>>>, cost: number, count?: number) => {
    const known = () => ({ count: count ?? Object.keys(leases).length, hasId: "res_1" in leases });
    const reservation = { id: "res_1", until: UNTIL };
    return reserve(account, { leases: () => book(leases), known }, { cost, period: TENTH, now: NOW, reservation });
  };
  const made = (reserved: number): LeaseChange => ["res_1", leaseOf({ expires: UNTIL, reserved })];

  it("takes the cost from the balance into a lease of the reservation's own", () => {
    const account = accountOf({ remaining: 5 });
    expect(take(account, {}, 5)).toEqual({
      account: { ...account, remaining: 0, reserved: 5 },
      leases: [made(5)],
      result: { ok: true, remaining: 0 },
    });
  });

  it("what takes nothing makes none: a cost of 0, no limit, a balance too small", () => {
    const account = accountOf({ remaining: 5 });
    const unlimited = accountOf({ unlimited: true });
    expect(take(account, {}, 0)).toEqual({ account, leases: [], result: { ok: true, remaining: 5 } });
    expect(take(unlimited, {}, 5)).toEqual({ account: unlimited, leases: [], result: { ok: true, remaining: null } });
    expect(take(account, {}, 6)).toEqual({ account, leases: [], result: { ok: false, remaining: 5 } });
  });

  it("an id that is open is refused, and nothing is taken; one that has expired is free again", () => {
    const account = accountOf({ remaining: 7, reserved: 4 });
    expect(take(account, { res_1: { expires: NOW + 1, reserved: 4 } }, 5)).toEqual({
      account,
      leases: [],
      result: { ok: false, remaining: 7, refused: "open" },
    });
    // Another's that has expired makes this one no freer.
    const two = { res_0: { ...EXPIRED, reserved: 1 }, res_1: { expires: NOW + 1, reserved: 3 } };
    expect(take(account, two, 5).result).toEqual({ ok: false, remaining: 8, refused: "open" });
    expect(take(account, { res_1: { ...EXPIRED, reserved: 4 } }, 5)).toEqual({
      account: { ...account, remaining: 6, reserved: 5 },
      leases: [["res_1", undefined, { how: "expired", until: NOW + ENDING_KEPT }], made(5)],
      result: { ok: true, remaining: 6 },
    });
  });

  it("the account holds so many and no more; those that have expired make space", () => {
    const account = accountOf({ remaining: 7, reserved: 4 });
    expect(take(account, {}, 5, MAX_RESERVATIONS - 1).result).toEqual({ ok: true, remaining: 2 });
    expect(take(account, {}, 5, MAX_RESERVATIONS)).toEqual({
      account,
      leases: [],
      result: { ok: false, remaining: 7, refused: "full" },
    });
    const late = { res_0: { ...EXPIRED, reserved: 4 } };
    expect(take(account, late, 5, MAX_RESERVATIONS).result).toEqual({ ok: true, remaining: 6 });
    expect(take(account, late, 5, MAX_RESERVATIONS + 1).result).toEqual({ ok: false, remaining: 11, refused: "full" });
  });

  it("no more is reserved than can be counted", () => {
    const most = { credited: MAX_BALANCE, adjusted: 7, remaining: 7, reserved: MAX_BALANCE - 5 };
    const account = accountOf({ ...most, spent: 5 });
    expect(take(account, {}, 5).account.reserved).toBe(MAX_BALANCE);
    expect(take(account, {}, 6)).toEqual({ account, leases: [], result: { ok: false, remaining: 7, refused: "full" } });
  });
});

describe("settle", () => {
  const end = (account: Account, leases: Readonly<Record<string, Partial<Lease>>>, spent: number) =>
    settle(account, book(leases), { id: "res_1", spent, now: NOW });
  const removed = (id: string, how: Ending, expires: number): LeaseChange => [
    id,
    undefined,
    { how, until: expires + ENDING_KEPT },
  ];
  const account = accountOf({ remaining: 2, reserved: 5 });
  const open = { res_1: { expires: NOW + 1, reserved: 5 } };

  it.each([0, 3, 5])("counts %i of 5 as spent, and the rest returns", (spent) => {
    expect(end(account, open, spent)).toEqual({
      account: { ...account, remaining: 7 - spent, reserved: 0, spent },
      leases: [removed("res_1", "settled", NOW + 1)],
      result: { settled: true },
    });
  });

  it("more than is reserved changes nothing", () => {
    expect(end(account, open, 6)).toMatchObject({ account, leases: [], result: { settled: false, reason: "exceeds" } });
  });

  it("one that has expired returns whole; one that is not open is what the store remembers", () => {
    expect(end(account, { res_1: { ...EXPIRED, reserved: 5 } }, 3)).toEqual({
      account: { ...account, remaining: 7, reserved: 0 },
      leases: [removed("res_1", "expired", NOW)],
      result: { settled: false, reason: "expired" },
    });
    expect(end(account, {}, 3)).toEqual({ account, leases: [], result: undefined });
  });

  it("takes back others that have expired; a node's lease leaves no ending", () => {
    const leases = { ...open, res_0: { ...EXPIRED, reserved: 3 }, a: { ...EXPIRED, reserved: 1 } };
    const all = accountOf({ remaining: 2, reserved: 9 });
    expect(end(all, leases, 3)).toEqual({
      account: { ...all, remaining: 8, reserved: 0, spent: 3 },
      leases: [removed("res_0", "expired", NOW), ["a", undefined], removed("res_1", "settled", NOW + 1)],
      result: { settled: true },
    });
    expect(end(all, leases, 6)).toMatchObject({ account: { remaining: 6, reserved: 5 } });
  });
});

describe("draw", () => {
  const take = (account: Account, leases: ReadonlyMap<string, Lease>, over: Partial<DrawRequest>) =>
    draw(account, leases, requestOf(over));

  it("without a limit, under another calendar, and after the balance was set, it changes nothing", () => {
    const account = accountOf({ remaining: 50, reserved: 4 });
    const unlimited = accountOf({ unlimited: true });
    expect(take(unlimited, NONE, { cost: 7, period: MONTHLY })).toEqual({
      account: unlimited,
      leases: [],
      result: { drawn: 7, generation: 1, remaining: null },
    });
    expect(take(account, NONE, { period: MONTHLY })).toEqual({
      account,
      leases: [],
      result: { drawn: 0, generation: 1, remaining: 0, stale: true },
    });
    expect(take(account, book({ a: { held: 4, generation: 0 } }), {})).toEqual({
      account,
      leases: [],
      result: { drawn: 0, generation: 1, remaining: 50 },
    });
  });

  it.each<[string, Partial<DrawRequest>, { drawn: number; reserved: number }]>([
    ["a step, and the rest of the size in reserve", { step: 20, size: 30 }, { drawn: 20, reserved: 10 }],
    ["of the step a quarter of what is free", { step: 50, size: 30 }, { drawn: 25, reserved: 5 }],
    ["of the size a quarter of what is left", { step: 20, size: 500 }, { drawn: 20, reserved: 20 }],
    ["more than a quarter where one call needs it", { cost: 40, size: 30 }, { drawn: 40, reserved: 0 }],
    ["all where one call needs it", { cost: 100, step: 20, size: 500 }, { drawn: 100, reserved: 0 }],
  ])("of 100 it takes %s", (_what, given, { drawn, reserved }) => {
    const account = accountOf({ remaining: 100 });
    const { account: after, leases, result } = take(account, NONE, given);
    const remaining = 100 - drawn - reserved;
    expect(result).toEqual({ drawn, generation: 1, remaining: 100 - drawn });
    expect(leases).toEqual([["a", leaseOf({ held: drawn, reserved })]]);
    expect(after).toEqual({ ...account, remaining, reserved: drawn + reserved });
  });

  it("what it cannot cover leaves no lease, and keeps the reserve of one that is there", () => {
    const account = accountOf({ remaining: 40, reserved: 19 });
    expect(take(account, NONE, { cost: 41 })).toEqual({
      account,
      leases: [],
      result: { drawn: 0, generation: 1, remaining: 40 },
    });
    const leases = book({ a: { held: 9, reserved: 10, spent: 6, expires: NOW - 1 } });
    const refused = take(account, leases, { cost: 51, spent: 8, size: 500 });
    expect(refused).toEqual({
      account: { ...account, reserved: 17, spent: 2 },
      leases: [["a", leaseOf({ held: 7, reserved: 10, spent: 8 })]],
      result: { drawn: 0, generation: 1, remaining: 50 },
    });
    const granted = take(account, leases, { cost: 50, spent: 8, size: 500 });
    expect(granted).toEqual({
      account: { ...account, remaining: 0, reserved: 57, spent: 2 },
      leases: [["a", leaseOf({ held: 57, spent: 8 })]],
      result: { drawn: 50, generation: 1, remaining: 0 },
    });
  });

  it("an empty lease that is known is kept, with what it has spent", () => {
    const account = accountOf({ remaining: 0, reserved: 2 });
    const { leases } = take(account, book({ a: { held: 2, spent: 5 } }), { spent: 7 });
    expect(leases).toEqual([["a", leaseOf({ spent: 7 })]]);
  });

  it("takes back what other leases reserved until now, and counts refills", () => {
    const account = accountOf({ remaining: 0, reserved: 25, amount: 1 });
    const leases = book({ b: { ...EXPIRED, reserved: 20, held: 5 } });
    const { account: after, leases: changes, result } = take(account, leases, { cost: 420, period: TENTH + 402 });
    expect(result).toEqual({ drawn: 420, generation: 1, remaining: 0, forfeited: 2 });
    expect(changes).toEqual([
      ["b", leaseOf({ ...EXPIRED, held: 5, isForfeited: true })],
      ["a", leaseOf({ held: 420 })],
    ]);
    const counted = { remaining: 0, refilled: 400, reserved: 420, forfeited: 5, period: TENTH + 402 };
    expect(after).toEqual({ ...account, ...counted });
    const refused = take(account, leases, { cost: 421, period: TENTH + 402 });
    expect(refused.leases.map(([id]) => id)).toEqual(["b"]);
    expect(refused.result).toMatchObject({ drawn: 0, remaining: 420 });
  });
});

describe("endLease", () => {
  it("counts what was spent, returns the rest, and forgets the lease", () => {
    const account = accountOf({ remaining: 5, reserved: 30, spent: 4 });
    const ended = endLease(account, book({ a: { held: 10, reserved: 20, spent: 4 } }), { holder: "a", spent: 7 });
    const counted = { remaining: 32, reserved: 0, spent: 7 };
    expect(ended).toEqual({ account: { ...account, ...counted }, leases: [["a", undefined]], result: undefined });
  });

  it.each<[string, Partial<Account>, Partial<Lease>]>([
    ["under a balance that was set since", { remaining: 5 }, { generation: 0 }],
    ["of a key without a limit by now", { unlimited: true }, {}],
  ])("%s nothing returns", (_what, given, lease) => {
    const account = accountOf({ reserved: 30, ...given });
    const ended = endLease(account, book({ a: { held: 10, reserved: 20, ...lease } }), { holder: "a", spent: 3 });
    expect(ended.account).toEqual({ ...account, reserved: 0, spent: 3, forfeited: 27 });
  });

  it("a lease never reports more than it held, nor less than before", () => {
    const account = accountOf({ remaining: 5, reserved: 10, spent: 4 });
    const leases = book({ a: { held: 10, spent: 4 } });
    for (const [reported, spent] of [
      [99, 14],
      [14, 14],
      [3, 4],
      [0, 4],
    ] as const)
      expect(endLease(account, leases, { holder: "a", spent: reported }).account).toEqual({
        ...account,
        remaining: 15 - (spent - 4),
        reserved: 0,
        spent,
      });
  });

  it("a late end takes back what was forfeited when the lease expired", () => {
    const account = accountOf({ remaining: 5, forfeited: 12 });
    const leases = book({ a: { ...EXPIRED, held: 10, isForfeited: true } });
    const ended = endLease(account, leases, { holder: "a", spent: 3 });
    expect(ended.account).toEqual({ ...account, remaining: 12, spent: 3, forfeited: 2 });
    // Less is there if totals started anew meanwhile.
    const { account: after } = endLease(accountOf({ remaining: 5, forfeited: 4 }), leases, { holder: "a", spent: 3 });
    expect(after).toMatchObject({ remaining: 6, spent: 3, forfeited: 0, reserved: 0 });
  });
});

describe("sweep", () => {
  it("takes back what has expired of others, and keeps a lease whose node may still report for a day", () => {
    const account = accountOf({ remaining: 100, reserved: 150 });
    const leases = book({
      self: { ...EXPIRED, reserved: 10 },
      live: { expires: NOW + 1, reserved: 10 },
      late: { ...EXPIRED, reserved: 10, held: 4, spent: 2 },
      reserve: { ...EXPIRED, reserved: 20 },
      void: { ...EXPIRED, reserved: 8, held: 2, generation: 0 },
      almostOld: { expires: NOW - DAY + 1, reserved: 1, held: 1 },
      old: { expires: NOW - DAY, reserved: 2, held: 3 },
      known: { expires: NOW - DAY + 1, held: 9, isForfeited: true },
      gone: { expires: NOW - DAY, held: 9, isForfeited: true },
    });
    const kept = (over: Partial<Lease>) => leaseOf({ isForfeited: true, ...over });
    const { account: after, leases: changes } = sweep(account, leases, { now: NOW, self: "self" });
    expect(changes).toEqual([
      ["late", kept({ ...EXPIRED, held: 4, spent: 2 })],
      ["reserve", undefined],
      ["void", kept({ ...EXPIRED, held: 2, generation: 0 })],
      ["almostOld", kept({ expires: NOW - DAY + 1, held: 1 })],
      ["old", undefined],
      ["gone", undefined],
    ]);
    expect(after).toEqual({ ...account, remaining: 133, reserved: 99, forfeited: 18 });
    expect(sweep(account, book({ live: { reserved: 9 } }), { now: NOW })).toEqual({ account, leases: [] });
  });

  it("returns nothing to a key without a limit, and to a full balance only what fits", () => {
    const leases = book({ late: { ...EXPIRED, reserved: 10, held: 4 } });
    const unlimited = accountOf({ unlimited: true, reserved: 14 });
    expect(sweep(unlimited, leases, { now: NOW }).account).toEqual({ ...unlimited, reserved: 0, forfeited: 14 });
    const full = accountOf({ remaining: MAX_BALANCE - 3, reserved: 14, refilled: 11, credited: MAX_BALANCE });
    const { account } = sweep(full, leases, { now: NOW });
    expect(account).toEqual({ ...full, remaining: MAX_BALANCE, reserved: 0, forfeited: 11 });
  });
});

describe("numbers that are none", () => {
  const BAD = [NaN, 0.5, MAX_BALANCE + 1, Infinity];
  const refused = (what: () => unknown, message: string) => {
    expect(what).toThrow(RangeError);
    expect(what).toThrow(message);
  };

  it.each(BAD)("%s is refused as any number of a spend, a draw or an end", (bad) => {
    refused(() => assertSpend(bad, 0, 0), "cost must be an integer from 0 to 2^53 - 1");
    refused(() => assertSpend(0, bad, 0), "period must be an integer of at most 2^53 - 1");
    refused(() => assertSpend(0, 0, bad), "now must be an integer of at most 2^53 - 1");
    for (const name of ["cost", "step", "size", "spent"] as const)
      refused(() => assertDraw(requestOf({ [name]: bad })), `request.${name} must be an integer from 0 to 2^53 - 1`);
    for (const name of ["period", "now", "until"] as const)
      refused(() => assertDraw(requestOf({ [name]: bad })), `request.${name} must be an integer of at most 2^53 - 1`);
    refused(() => assertReturn({ holder: "a", spent: bad }), "lease.spent must be an integer from 0 to 2^53 - 1");
  });

  it("a reservation and its end have numbers, and an id that is no node's lease", () => {
    for (const bad of [NaN, 1.5, "1" as unknown as number]) {
      const whole = "must be an integer of at most 2^53 - 1";
      refused(() => assertReservation({ id: "res_1", until: bad }), `reservation.until ${whole}`);
      refused(() => assertSettle({ id: "res_1", spent: 0, now: bad }), `request.now ${whole}`);
      refused(() => assertSettle({ id: "res_1", spent: bad, now: 0 }), "request.spent must be an integer from 0");
    }
    for (const id of ["res_", "a", " res_1", "res_1 ", "res_é", `res_${"a".repeat(61)}`]) {
      const rule = "must be res_ and 1 to 60 of [a-zA-Z0-9_-]";
      refused(() => assertReservation({ id, until: 0 }), `reservation.id ${rule}`);
      refused(() => assertSettle({ id, spent: 0, now: 0 }), `request.id ${rule}`);
    }
    expect(() => assertSettle({ id: `res_${"a".repeat(60)}`, spent: MAX_BALANCE, now: -1 })).not.toThrow();
  });

  it("a number below 0 is refused where it would add credits, and is a time or a period before 1970", () => {
    refused(() => assertSpend(-1, 0, 0), "cost must be an integer from 0 to 2^53 - 1");
    for (const name of ["cost", "step", "size", "spent"] as const)
      refused(() => assertDraw(requestOf({ [name]: -1 })), `request.${name} must be`);
    refused(() => assertReturn({ holder: "a", spent: -1 }), "lease.spent must be");
    expect(() => assertSpend(0, -1, -1)).not.toThrow();
    expect(() => assertDraw(requestOf({ period: -1, now: -1, until: -1 }))).not.toThrow();
  });

  it("0 and the largest are counts like others", () => {
    for (const count of [0, MAX_BALANCE]) {
      expect(() => assertSpend(count, 0, 0)).not.toThrow();
      expect(() => assertDraw(requestOf({ cost: count, step: count, size: count, spent: count }))).not.toThrow();
      expect(() => assertReturn({ holder: "a", spent: count })).not.toThrow();
    }
  });

  it("operations refuse them before anything changes, also without a limit", () => {
    const account = accountOf({ remaining: 5 });
    for (const one of [account, accountOf({ unlimited: true })]) {
      refused(() => spendRemaining(one, -1, TENTH), "cost must be");
      refused(() => draw(one, NONE, requestOf({ cost: -1 })), "request.cost must be");
      refused(() => endLease(one, NONE, { holder: "a", spent: NaN }), "lease.spent must be");
    }
  });
});
