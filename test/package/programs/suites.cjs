const { describe, it } = require("node:test");
const { memoryLimiter, memoryStore } = require("keystile");
const { periodOf } = require("keystile/store-kit");
const { limiterSuite, storeSuite } = require("keystile/testing");

if (periodOf({ interval: "daily", amount: 1 }, 86_400_000) !== 32_000_000_001) throw new Error("not the period");
storeSuite({ describe, it }, "memory", memoryStore);
limiterSuite({ describe, it }, "memory", () => memoryLimiter());
