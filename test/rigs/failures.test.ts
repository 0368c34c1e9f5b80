import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { isKeystileError } from "../../src/contracts/errors.js";
import type { Store } from "../../src/contracts/store.js";
import { createKeyring } from "../../src/keyring/keyring.js";
import { memoryStore } from "../../src/stores/memory.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { createVerifier } from "../../src/verify/verifier.js";
import type { CreditsOptions } from "../../src/verify/verifier-options.js";
import { dice } from "../model/dice.js";
import { failingStore } from "./failing-store.js";
import { rehearseFailures } from "./failures.js";

const folder = mkdtempSync(join(tmpdir(), "keystile-failing-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let files = 0;
const STORES: Readonly<Record<string, () => Store>> = {
  memory: memoryStore,
  SQLite: () => sqliteStore(join(folder, `${files++}.db`), { durability: "process" }),
};
const MODES: readonly CreditsOptions[] = [{ mode: "exact" }, { mode: "leased", size: 20 }];

describe("a store that fails one call in five", () => {
  for (const [name, open] of Object.entries(STORES)) {
    for (const credits of MODES) {
      it(`${name}, ${credits.mode}: no credit vanishes unanswered, no failure becomes VALID or is remembered (A113)`, async () => {
        let failures = 0;
        let acknowledged = 0;
        for (let seed = 1; seed <= 12; seed++) {
          const store = open();
          const report = await rehearseFailures(store, credits, seed);
          await store.close();
          expect(report.problems, `seed ${seed}`).toEqual([]);
          failures += report.failures;
          acknowledged += report.acknowledged;
        }
        expect(failures).toBeGreaterThan(500);
        expect(acknowledged).toBeGreaterThan(500);
      });
    }
  }

  it("administration: what was acknowledged is there, what failed is at most as much more, and every failure is typed", async () => {
    for (const [name, open] of Object.entries(STORES)) {
      const real = open();
      const failing = failingStore(real, dice(7));
      const { apiId } = await createKeyring(real).createApi({ name: "failing" });
      const keyring = createKeyring(failing.store);
      const made: string[] = [];
      let failures = 0;
      for (let i = 0; i < 200; i++) {
        try {
          const { key, keyId } = await keyring.createKey({
            apiId,
            permissions: [`p.${i % 7}`],
            externalId: `user_${i % 5}`,
            credits: { remaining: 3 },
          });
          made.push(key);
          await keyring.addPermissions({ keyId, permissions: ["more"] });
        } catch (error) {
          failures++;
          expect(["STORE_FAILED", "STORE_BUSY"], `${name}: ${String(error)}`).toContain(
            isKeystileError(error) && error.code,
          );
        }
      }
      const verifier = createVerifier(real);
      for (const key of made) expect((await verifier.verify({ key })).code).toBe("VALID");
      const kept: string[] = [];
      for (let after: string | undefined; ;) {
        const page = await createKeyring(real).listKeys({ apiId, ...(after !== undefined && { cursor: after }) });
        kept.push(...page.data.map(({ keyId }) => keyId));
        after = page.pagination.cursor;
        if (after === undefined) break;
      }
      expect(kept.length).toBeGreaterThanOrEqual(made.length);
      expect(kept.length).toBeLessThanOrEqual(made.length + failures);
      expect(failures).toBeGreaterThan(30);
      await real.close();
    }
  });

  const FAULTS: Readonly<Record<string, (store: Store) => Store>> = {
    "takes a failed spend for a good one": (store) => ({
      ...store,
      spendCredits: async (ref, cost, period, now) =>
        attempt(() => store.spendCredits(ref, cost, period, now), { ok: true, remaining: 0 }),
    }),
    "takes a failed find for none": (store) => ({
      ...store,
      findKey: (digest) => attempt(() => store.findKey(digest), undefined),
    }),
    "answers a spend before it is done": (store) => ({
      ...store,
      spendCredits(ref, cost, period, now) {
        if (cost === 0) return store.spendCredits(ref, cost, period, now);
        void attempt(() => store.spendCredits(ref, cost, period, now), undefined);
        return { ok: true, remaining: 0 };
      },
    }),
    "says what failed in its own words": (store) => ({
      ...store,
      findKey: async (digest) => {
        try {
          return await store.findKey(digest);
        } catch {
          throw new Error("something went wrong");
        }
      },
    }),
  };
  it.each(Object.entries(FAULTS))("control: a decorator that %s is found out", async (_name, between) => {
    const reports = [];
    for (let seed = 1; seed <= 5; seed++)
      reports.push(await rehearseFailures(memoryStore(), { mode: "exact" }, seed, between));
    expect(reports.flatMap(({ problems }) => problems)).not.toEqual([]);
  });
});

async function attempt<T>(act: () => T | Promise<T>, otherwise: T): Promise<T> {
  try {
    return await act();
  } catch {
    return otherwise;
  }
}
