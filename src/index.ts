/** The front door: the public names of keystile, nothing else. */
export type { MigrationAlgorithms } from "./algorithms.js";
export { isVerifierError, type ValidationProblem, VerifierError, type VerifierErrorCode } from "./errors.js";
export { hasKeyChecksum } from "./hash.js";
export { createKeyring, type Keyring, type KeyringOptions } from "./keyring.js";
export type * from "./keyring/answers.js";
export type * from "./keyring/requests.js";
export type { LeaseOptions } from "./leases.js";
export type { LimitCheck, Limiter, LimitVerdict } from "./limiter.js";
export { memoryLimiter } from "./limiters/memory.js";
export type { OutcomeEvent } from "./outcomes.js";
export type { Store } from "./store.js";
export { cachedStore, type CacheOptions } from "./stores/cached.js";
export { memoryStore } from "./stores/memory.js";
export type * from "./types.js";
export { createVerifier, type CreditsOptions, type Verifier, type VerifierCounters, type VerifierOptions } from "./verifier.js";
export type { VerifyContext } from "./verify-key.js";
