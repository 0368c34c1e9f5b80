/** Random histories of the leased mode against what is obvious of it: the exact mode, and sums. */
import fc from "fast-check";
import { expect, describe, it } from "vitest";
import type { KeyRecord } from "../../src/contracts/store.js";
import { exactSpender } from "../../src/credits/exact-spender.js";
import { runs } from "../runs.js";
import { eagerSpender, account, accountOf, numbered, opened, setBalance, slow } from "./support.js";

describe("leasedSpender: against its obvious twin", () => {
  const options = fc.record({ size: fc.constantFrom(1, 3, 8, 100), keys: fc.integer({ min: 1, max: 3 }) });
  const step = fc.record({ kind: fc.nat({ max: 12 }), n: fc.integer({ min: 1, max: 3 }), cost: fc.nat({ max: 12 }) });
  const steps = fc.array(step, { maxLength: 60, size: "max" });

  it("one node, one call at a time: every answer is that of the exact mode, and so is the balance in the end", async () => {
    const numRuns = runs(200);
    const seen = { granted: 0, refused: 0 };
    const property = fc.asyncProperty(steps, options, fc.boolean(), async (history, limits, isNumbered) => {
      const beds = await Promise.all([opened(20, 3), opened(20, 3)]);
      const stores = beds.map(({ store }) => (isNumbered ? numbered(store) : store));
      const spenders = [exactSpender(stores[0]!), eagerSpender(stores[1]!, limits)];
      const accounts = await Promise.all(stores.map((store) => Promise.all([1, 2, 3].map((n) => accountOf(store, n)))));
      for (const { kind, n, cost } of history) {
        if (kind === 0) {
          for (const i of [0, 1]) {
            await setBalance(beds[i]!.store, cost === 12 ? null : 2 * cost, n);
            accounts[i]![n - 1] = await accountOf(stores[i]!, n);
          }
          continue;
        }
        const [right, answer] = await Promise.all([0, 1].map((i) => spenders[i]!.spend(accounts[i]![n - 1]!, cost, 0)));
        expect(answer).toEqual(right);
        seen[answer!.ok ? "granted" : "refused"]++;
      }
      await spenders[1]!.close();
      for (const n of [1, 2, 3]) expect(await beds[1].balance(n)).toBe(await beds[0].balance(n));
    });
    await fc.assert(property, { numRuns });
    expect(Math.min(seen.granted, seen.refused)).toBeGreaterThan(numRuns);
  });

  it("several nodes, many calls at once: no more is granted than was there, and all the rest comes back", async () => {
    const numRuns = runs(200);
    const seen = { granted: 0, refused: 0 };
    const calls = fc.array(fc.array(step, { maxLength: 20, size: "max" }), { maxLength: 8, size: "max" });
    const property = fc.asyncProperty(calls, options, fc.boolean(), async (batches, limits, isNumbered) => {
      const { store, balance } = await opened(60, 3);
      const watched = slow(isNumbered ? numbered(store) : store).store;
      const nodes = [eagerSpender(watched, limits), eagerSpender(watched, limits)];
      const accounts = await Promise.all(nodes.map(() => Promise.all([1, 2, 3].map((n) => accountOf(watched, n)))));
      const there = [60, 60, 60];
      const spend = async (node: number, n: number, cost: number): Promise<void> => {
        const { ok } = (await nodes[node]!.spend(accounts[node]![n - 1]!, cost, 0))!;
        if (ok) there[n - 1]! -= cost;
        seen[ok ? "granted" : "refused"]++;
      };
      for (const batch of batches) {
        await Promise.all(batch.map(({ kind, n, cost }) => spend(kind % 2, n, cost)));
        expect(Math.min(...there)).toBeGreaterThanOrEqual(0);
        const [first] = batch;
        if (first === undefined || first.kind > 3) continue;
        await setBalance(store, first.cost, first.n);
        there[first.n - 1] = first.cost;
        for (const known of accounts) known[first.n - 1] = await accountOf(watched, first.n);
      }
      await Promise.all(nodes.map((node) => node.close()));
      expect([await balance(1), await balance(2), await balance(3)]).toEqual(there);
    });
    await fc.assert(property, { numRuns });
    expect(Math.min(seen.granted, seen.refused)).toBeGreaterThan(2 * numRuns);
  });

  it("A153: whatever is under way when a balance is set, who knows of it is granted no more than that", async () => {
    const calls = fc.array(step, { maxLength: 20, size: "max" });
    const property = fc.asyncProperty(
      calls,
      calls,
      calls,
      options,
      fc.nat({ max: 30 }),
      async (before, during, after, limits, set) => {
        const { store, record, balance } = await opened(60);
        const watched = slow(store).store;
        const nodes = [eagerSpender(watched, limits), eagerSpender(watched, limits)];
        const spendAll = (steps: typeof before, one: KeyRecord) => {
          const accounts = nodes.map(() => account(one));
          return Promise.all(
            steps.map(async ({ kind, cost }) =>
              (await nodes[kind % 2]!.spend(accounts[kind % 2]!, cost, 0))!.ok ? cost : 0,
            ),
          );
        };
        const sum = (costs: readonly number[]) => costs.reduce((total, cost) => total + cost, 0);
        await spendAll(before, record);
        const underWay = spendAll(during, record);
        const granted = sum(await spendAll(after, await setBalance(store, set)));
        const unaware = sum(await underWay);
        await Promise.all(nodes.map((node) => node.close()));
        const left = (await balance())!;
        expect(granted + left).toBeLessThanOrEqual(set);
        expect(granted + unaware + left).toBeGreaterThanOrEqual(set);
      },
    );
    await fc.assert(property, { numRuns: runs(300) });
  });
});
