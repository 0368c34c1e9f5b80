/**
 * Options for a store whose file several processes of a rig write to. A disk may stall for seconds, longer than a store
 * waits by default; what a call does that has waited too long is tried in test/stores/sqlite/waiting.test.ts.
 */
export const PATIENT = { busyTimeout: 60_000 } as const;
