/**
 * The suite of stores that several processes share: what one of them does, as seen by another.
 *
 * Why two handles and no second process: what separates two processes is that they share no memory, and neither do two
 * handles that were opened apart. A store that does not notify other processes passes all of `storeSuite`, and fails
 * here.
 */
import { expect } from "../expect.js";
import type { TestFunctions } from "../test-functions.js";
import { sharedAlertsClauses } from "./alerts.js";
import { sharedIdempotencyClauses } from "./idempotency.js";
import { sharedIdentityCreditsClauses } from "./identity-credits.js";
import { sharedPowersClauses } from "./powers.js";
import { api } from "./rows.js";
import { sharedChangesClauses } from "./shared-changes.js";
import { sharedReservationsClauses } from "./reservations.js";
import { sharedCreditsClauses } from "./shared-credits.js";
import type { OpenShared, SharedClause } from "./shared-steps.js";
import { sharedWalletsClauses } from "./wallets.js";
import { sharedWritingClauses } from "./shared-writing.js";

const PARTS = [
  sharedChangesClauses,
  sharedWritingClauses,
  sharedCreditsClauses,
  sharedReservationsClauses,
  sharedIdentityCreditsClauses,
  sharedIdempotencyClauses,
  sharedPowersClauses,
  sharedAlertsClauses,
  sharedWalletsClauses,
];

/**
 * Adds a test for each clause of the `Store` contract that only two processes can break: duplicates and conflicts
 * between them (4, 13), credits that both spend and draw (5, 14, 26, 31) or spend once (23), changes of one that the
 * other must see and notify (8, 15, 19), what both find and raise (30), and that their powers say so (21).
 * @param functions of your test runner: `sharedStoreSuite({ describe, it }, "mine", () => [myStore(url),
 *   myStore(url)])`
 * @param title names the store in the titles of the tests
 * @param open creates a new, empty store and opens it twice; each test calls it once, and closes both handles
 */
export function sharedStoreSuite(functions: TestFunctions, title: string, open: OpenShared): void {
  const clause: SharedClause = (name, body) =>
    void functions.it(name, async () => {
      const [here, there] = await open();
      try {
        expect(await here.write([{ table: "apis", row: api() }])).toBe("written");
        await there.pollChanges("anew");
        await body({ here, there });
      } finally {
        for (const store of [here, there]) await store.close();
      }
    });
  functions.describe(`shared store: ${title}`, () => {
    for (const addTo of PARTS) addTo(clause);
  });
}
