/**
 * What of the tests of the contract cannot run in an object in workerd, and why: the project `workerd` leaves it out.
 * Every other file of test/spec and test/http, and every other test, runs there.
 */

const OWN_STORE = "makes its store, and calls what is made on it, in this process";
const FUNCTION = "gives an option that is a function of this process";
const CALLS = "counts the calls of a store in this process";
const NODE = "asks a server of Node, or what only that has";
const NO_WORLD = "calls a module, and no service";

/** Files, by their path below test. */
export const FILES: Readonly<Record<string, string>> = {
  "http/analytics.test.ts": "counts by a verifier beside the service; test/edge/workerd.test.ts counts in an object",
  "http/arriving-body.test.ts": NO_WORLD,
  "http/audit.test.ts": FUNCTION,
  "http/early.test.ts": NODE,
  "http/envelope.test.ts": NO_WORLD,
  "http/external-ids.test.ts": OWN_STORE,
  "http/given-up.test.ts": OWN_STORE,
  "http/hosts.test.ts": NODE,
  "http/long-json.test.ts": NO_WORLD,
  "http/readiness.test.ts": OWN_STORE,
  "http/respond.test.ts": NO_WORLD,
  "spec/callers.test.ts": "gives callers, whose grants are functions of this process",
  "spec/fair-shares.test.ts": OWN_STORE,
  "spec/foreign.test.ts": OWN_STORE,
  "spec/foreign-promises.test.ts": OWN_STORE,
  "spec/overlaps.test.ts": "lets a call happen between two steps of a store in this process",
  "spec/polluted.test.ts": "pollutes prototypes of this process",
};

/** Tests, by how their titles begin, of files that run there otherwise. */
export const TESTS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "http/callers.test.ts": {
    "the root key was deleted: 401": OWN_STORE,
    "its permission was taken: 403": OWN_STORE,
    "nothing was: 200": OWN_STORE,
    "a proxy token that ends while the body is on its way": OWN_STORE,
    "over a socket as well": NODE,
    "nothing of another workspace is seen": "has two workspaces in one store; an object has one",
    "with options.workspaceId a store serves that workspace": "has two workspaces in one store; an object has one",
  },
  "http/idempotency.test.ts": {
    "another body is a 422": FUNCTION,
    "two at once: one is told": "needs two requests at once; an object may answer one before it gets the next",
    "a store without the power": OWN_STORE,
  },
  "http/observe.test.ts": {
    "one line of JSON a request": FUNCTION,
    "a line warns of a time in seconds": FUNCTION,
    "counts of the limiter of namespaces": "has a service with a limiter of its own; an object has one for all",
    "S12: a line names the root key": FUNCTION,
    "canaries in every place of a request": FUNCTION,
    "STORE_BUSY is a 503": FUNCTION,
    "STORE_FAILED is a 500": FUNCTION,
    "LIMITER_UNAVAILABLE is a 503": FUNCTION,
    "anything else that is thrown": FUNCTION,
    "async listeners that reject": FUNCTION,
  },
  "http/tokens.test.ts": {
    "a configured key that is no point of its curve": FUNCTION,
  },
  "spec/credits.test.ts": {
    "each answer has it, whatever the cost": "has a second node on one store; an object is alone",
    "a decrement reaches what is shown": "has a second node on one store; an object is alone",
  },
  "spec/limits.test.ts": {
    "ruling C6: whoever names a flood": FUNCTION,
    "local: each node enforces its share": FUNCTION,
    "deny: a 500-class KeystileError": FUNCTION,
    "allow: passes, and says degraded": FUNCTION,
    "a limiter of the program's own": FUNCTION,
  },
  "spec/migration.test.ts": {
    "sha512: pending until it comes by": CALLS,
    "A179: an unknown migrationId": "has two workspaces in one store; an object has one",
    "ruling E3: an algorithm of the program's": FUNCTION,
    "A185: in a store that cannot be written": OWN_STORE,
    "a deleted key gains nothing": CALLS,
  },
  "spec/order.test.ts": {
    "A001, ruling A1: a bad body is a 400": CALLS,
    "contract 4.1-5, A049: a malformed query": CALLS,
    "an answer belongs to its receiver": "wants frozen metadata; a remote result is a copy for each call",
    "is NOT_FOUND, never VALID": OWN_STORE,
    "one that became unlimited since": OWN_STORE,
    "ruling A7: the clock is read once": FUNCTION,
    "A041, ruling A8: tags change nothing": FUNCTION,
  },
};
