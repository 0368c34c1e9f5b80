// The suites of stores and limiters, with the functions of node:test.
import { describe, it } from "node:test";
import { memoryLimiter, memoryStore } from "keystile";
import { periodOf } from "keystile/store-kit";
import { limiterSuite, storeSuite } from "keystile/testing";

if (periodOf({ interval: "daily", amount: 1 }, 86_400_000) !== 32_000_000_001) throw new Error("not the period");
storeSuite({ describe, it }, "memory", memoryStore);
limiterSuite({ describe, it }, "memory", () => memoryLimiter());
