/**
 * The main entry point: the public names of keystile, nothing else.
 * @module keystile
 */
export {
  type AlertPage,
  type AlertRun,
  type Alerts,
  type AlertBounds,
  type AlertRule,
  type AlertsOptions,
  type CreditsShare,
  createAlerts,
  type ListedAlert,
} from "./alerts/alerts.js";
export type { AlertWebhook } from "./alerts/deliver.js";
export {
  type Analytics,
  type AnalyticsPage,
  type AnalyticsReaderOptions,
  createAnalytics,
} from "./analytics/analytics.js";
export type { AnalyticsDimension, AnalyticsPeriod, AnalyticsQuery } from "./analytics/query.js";
export { changeAllKeys } from "./keyring/keys/change-keys.js";
export type { RefusedHour, Refusals, RefusalsOf, RefusalsRange } from "./analytics/refusals.js";
export type { AnalyticsRow } from "./analytics/rows.js";
export type { Statement, StatementAccount, StatementLine, StatementOf, StatementSums } from "./analytics/statement.js";
export type { CacheOptions } from "./cache/key-cache.js";
export type { AuditChange, AuditCredits, AuditEntry, AuditQuery, AuditSlice } from "./contracts/audit.js";
export type * from "./contracts/alerts.js";
export type { Caller, Resource } from "./contracts/caller.js";
export { isKeystileError, KeystileError, type KeystileErrorCode, type ValidationProblem } from "./contracts/errors.js";
export type { LimitCheck, Limiter, LimiterCounters, LimitSize, LimitVerdict } from "./contracts/limiter.js";
export type * from "./contracts/outcomes.js";
export type * from "./contracts/standard-schema.js";
export type * from "./contracts/store.js";
export type * from "./contracts/types.js";
export type { LeaseOptions } from "./credits/leased-spender.js";
export type { AdjustmentOptions } from "./keyring/adjustment.js";
export type { AuditCounters, Audited, AuditOptions } from "./keyring/audit.js";
export { createKeyring, type Keyring, type KeyringOptions, type WithMeta } from "./keyring/keyring.js";
export type { OwnerCeiling } from "./keyring/owner/ceiling.js";
export { forOwner, type OwnerKeys, type OwnerOptions, type OwnerUsageQuery } from "./keyring/owner/owner-keys.js";
export type {
  OwnerKeyRequestBody,
  OwnerListRequestBody,
  OwnerGetRequestBody,
  OwnerRenameRequestBody,
  OwnerRevokeRequestBody,
  OwnerRotateRequestBody,
} from "./keyring/schemas/owner.js";
export type { CreditsSource } from "./lib/credits-source.js";
export type { DisabledParent, KeyState, ListedState } from "./lib/key-state.js";
export {
  createRatelimits,
  type RatelimitContext,
  type Ratelimits,
  type RatelimitsOptions,
} from "./keyring/ratelimits/create-ratelimits.js";
export type * from "./keyring/schemas/migration-requests.js";
export type * from "./keyring/schemas/requests.js";
export type * from "./keyring/schemas/responses.js";
export type * from "./keyring/schemas/service-requests.js";
export type { QueueOptions } from "./lib/event-queue.js";
export type { StoreGuardOptions } from "./lib/guards/guard-store.js";
export type { MigrationAlgorithms } from "./lib/migration-hashes.js";
export { memoryLimiter, type MemoryLimiter, type MemoryLimiterOptions } from "./ratelimit/memory/limiter.js";
export { memoryStore } from "./stores/memory.js";
export { explain, type ExplainContext, type Explanation, type ExplainRequest } from "./verify/explain.js";
export { metricsText } from "./verify/metrics-text.js";
export type { IdempotencyOptions } from "./verify/idempotency.js";
export type { AnalyticsOptions, KeptDays } from "./verify/outcome-flush.js";
export type { OutcomeEvent, OutcomeOptions } from "./verify/outcome-events.js";
export {
  parsePermissionQuery,
  type PermissionQuery,
  type PermissionQueryNode,
} from "./verify/parse-permission-query.js";
export type { Reservation, ReservationResult, ReservationSettlement, ReserveContext } from "./verify/reserve.js";
export { retryAfter } from "./verify/result-retry-after.js";
export type { SpendOptions, SpendOwner, SpendRequest, SpendResult } from "./verify/spend-by-id.js";
export { createVerifier, type PreparedVerification, type Verifier, type VerifierCounters } from "./verify/verifier.js";
export type { CreditsOptions, VerifierOptions } from "./verify/verifier-options.js";
export type { VerifyContext } from "./verify/context.js";
export type { ExplainedAccount, ExplainedCheck, ExplainedLimit } from "./verify/explained-check.js";
export { type HeadersLike, verifyHeaders, type VerifyHeadersOptions } from "./verify/verify-headers.js";
