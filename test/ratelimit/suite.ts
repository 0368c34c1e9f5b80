/** The suite that keystile ships, on vitest. */
import { describe, it } from "vitest";
import type { Limiter } from "../../src/contracts/limiter.js";
import * as testing from "../../src/testing/index.js";

/** @see src/testing/limiter/suite.ts */
export function limiterSuite(title: string, make: () => Limiter | Promise<Limiter>): void {
  testing.limiterSuite({ describe, it }, title, make);
}
