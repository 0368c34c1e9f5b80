/** What a store says that it can do, and what it does: clause 21. */
import type { KeystileError } from "../../contracts/errors.js";
import type { Change, Power, Store } from "../../contracts/store.js";
import { expect, faultOf } from "../expect.js";
import { ONCE_BOUNDS } from "./account.js";
import type { Clause } from "./bed.js";
import { accountWith, insert, keyRow, readBalance, WS } from "./rows.js";
import { dropsMiss, type SharedClause } from "./shared-steps.js";

const REQUEST = { holder: "h", spent: 0, cost: 1, step: 10, size: 40, period: 0, now: 0, until: 1_000 };

export function powersClauses(clause: Clause): void {
  clause("clause 21: the powers are of their types, and stay as they are", async ({ powers }, open) => {
    for (const name of ["leases", "reserves", "idempotency", "usage"] as const)
      expect(typeof powers[name]).toBe("boolean");
    for (const name of ["audit", "reservations", "analytics", "search", "alerts", "wallets", "refusals"] as const)
      expect(typeof (powers[name] ?? false)).toBe("boolean");
    expect(powers.reserves && !powers.leases, "reserves without leases").toBe(false);
    expect(["own", "polled", "pushed"].includes(powers.changes), "changes").toBe(true);
    expect(["none", "process", "power"].includes(powers.durability), "durability").toBe(true);
    expect((await open()).powers).toStrictEqual(powers);
  });

  clause("clause 21: what needs idempotency works, or fails by the name of the power", async (store) => {
    const ref = await accountWith(store, 100);
    const record = { workspaceId: WS, id: "id", body: "body", until: 1_000 };
    const spendOnce = () => store.spendOnce(ref, 0, { cost: 1, now: 0, once: { record, bounds: ONCE_BOUNDS } });
    if (store.powers.idempotency) {
      for (const outcome of ["done", "repeated"])
        expect(await spendOnce()).toEqual({ outcome, spend: { ok: true, remaining: 99 } });
      return;
    }
    for (const call of [spendOnce, () => store.findOnce("id", 0), () => store.readSecret("idempotency")])
      await expectLacking(call, "idempotency");
    expect(await store.spendCredits(ref, 0, 0, 0)).toEqual({ ok: true, remaining: 100 });
  });

  clause("clause 21: what needs reservations works, or fails by the name of the power", async (store) => {
    const ref = await accountWith(store, 100);
    const reserve = () =>
      store.reserveCredits(ref, 0, { cost: 10, now: 0, reservation: { id: "res_a", until: 1_000 } });
    const settle = () => store.settleCredits(ref, { id: "res_a", spent: 4, now: 0 });
    if (store.powers.reservations === true) {
      expect(await reserve()).toEqual({ ok: true, remaining: 90 });
      expect(await settle()).toEqual({ settled: true });
    } else for (const call of [reserve, settle]) await expectLacking(call, "reservations");
    const left = store.powers.reservations === true ? 96 : 100;
    expect(await store.spendCredits(ref, 0, 0, 0)).toEqual({ ok: true, remaining: left });
  });

  clause("clause 21: what needs usage works, or fails by the name of the power", async (store) => {
    if (!store.powers.usage) await expectLacking(() => store.recordUses([]), "usage");
    else await store.recordUses([]);
  });

  clause("clause 21: what needs analytics works, or fails by the name of the power", async (store) => {
    const days = { workspaceId: WS, from: 0, to: 0 };
    const calls = [
      () => store.countOutcomes({ source: "p", seq: 1, at: 0, maxTagSets: 1, cells: [] }),
      () => store.readOutcomes({ ...days, level: "day", by: [], maxRows: 1 }),
      () => store.readCreditDays(days),
      () => store.pruneOutcomes("day", 0, 1),
    ];
    for (const call of calls) {
      if (store.powers.analytics === true) await call();
      else await expectLacking(call, "analytics");
    }
  });

  clause("clause 21: what needs the audit trail works, or fails by the name of the power", async (store) => {
    const read = () => store.readAudit({ workspaceId: WS, among: 1, limit: 1 });
    if (store.powers.audit === true) expect(await read()).toEqual({ entries: [] });
    else await expectLacking(read, "audit");
  });

  clause("clause 21: what needs leases works, or fails by the name of the power", async (store) => {
    const ref = await accountWith(store, 100);
    if (!store.powers.leases) {
      await expectLacking(() => store.drawCredits(ref, REQUEST), "leases");
      await expectLacking(() => store.returnCredits(ref, { holder: "h", spent: 0 }), "leases");
      expect(await store.spendCredits(ref, 0, 0, 0)).toEqual({ ok: true, remaining: 100 });
      return;
    }
    const drawn = (await store.drawCredits(ref, REQUEST))!.drawn;
    expect(drawn).toBeGreaterThan(0);
    const { remaining, reserved } = (await readBalance(store, keyRow(1).id, 0, 0))!;
    // A store that keeps no account of leases reserves nothing.
    expect(remaining! + (reserved === 0 ? drawn : reserved)).toBe(100);
    if (store.powers.reserves) return;
    expect(drawn).toBeLessThanOrEqual(REQUEST.step);
    expect(reserved <= drawn, "reserved beyond what was drawn, without the power for it").toBe(true);
    expect((await store.drawCredits(ref, { ...REQUEST, cost: 20 }))?.drawn).toBe(20);
    await store.returnCredits(ref, { holder: "h", spent: 0 });
    expect(await store.spendCredits(ref, 100, 0, 0)).toEqual({ ok: true, remaining: 0 });
  });
}

/** Longest wait for a change that a store pushes, and between two looks, milliseconds. */
const PUSHED_WITHIN = 5_000;
const LOOK_EVERY = 10;

export function sharedPowersClauses(clause: SharedClause): void {
  clause(
    "clause 21: both handles say that the other's changes arrive, and those that push them do",
    async ({ here, there }) => {
      for (const { powers } of [here, there]) expect(powers.changes === "own", "changes are its own alone").toBe(false);
      if (there.powers.changes !== "pushed") return;
      const notified: Change[] = [];
      there.subscribe((change) => notified.push(change));
      await insert(here, keyRow(1));
      for (let waited = 0; waited < PUSHED_WITHIN && notified.length === 0; waited += LOOK_EVERY)
        await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY));
      expect(dropsMiss(notified, "digest-1"), "notified without a poll").toBe(true);
    },
  );
}

/** Adds a test for stores that have the power; of others it is {@link powersClauses} that tests that they lack it. */
export function withPower<O, More extends unknown[]>(
  clause: (title: string, body: (opened: O, ...more: More) => Promise<void>) => void,
  power: Power,
  storeOf: (opened: O) => Store,
): typeof clause {
  return (title, body) =>
    clause(title, async (opened, ...more) => {
      if (storeOf(opened).powers[power] === true) await body(opened, ...more);
    });
}

async function expectLacking(call: () => unknown, power: Power | "audit" | "analytics"): Promise<void> {
  const error = (await faultOf(call)) as KeystileError | undefined;
  expect(error?.code).toBe("STORE_POWER_MISSING");
  expect(error?.detail.includes(`"${power}"`), "the error names the power").toBe(true);
}
