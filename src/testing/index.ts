/**
 * The entry point `keystile/testing`: the suites that every store and every limiter passes, for your own
 * implementations; a clock to turn, ids that repeat and `expectOutcome`, for the tests of programs.
 * @module keystile/testing
 */
export { limiterSuite } from "./limiter/suite.js";
export type { OpenShared } from "./store/shared-steps.js";
export { sharedStoreSuite } from "./store/shared-suite.js";
export { storeSuite } from "./store/suite.js";
export type { TestFunctions } from "./test-functions.js";
export { expectOutcome, type TestClock, testClock, testIds } from "./world.js";
