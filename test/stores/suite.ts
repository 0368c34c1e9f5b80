/** The suites that keystile ships, on vitest. */
import { describe, it } from "vitest";
import type { Store } from "../../src/contracts/store.js";
import * as testing from "../../src/testing/index.js";

export { keyRow } from "../../src/testing/store/rows.js";

/** @see src/testing/store/suite.ts */
export function storeSuite(
  title: string,
  open: () => Store | Promise<Store>,
  options?: testing.StoreSuiteOptions,
): void {
  testing.storeSuite({ describe, it }, title, open, options);
}

/** @see src/testing/store/shared-suite.ts */
export function sharedStoreSuite(title: string, open: testing.OpenShared): void {
  testing.sharedStoreSuite({ describe, it }, title, open);
}
