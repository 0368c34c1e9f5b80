/** The types that every entry point of the middleware exports. */
export type { ApiKeyOptions, KeyVerifier, RegisteredMeta, VerifiedKey } from "./guard.js";
export type { Refusal, RefusalBody, RefusalCode, RefusalOptions } from "./refusal.js";
export type { KeyRequirement, PerRequest } from "./requirement.js";
export type { NodeResponse, Unsettled } from "./reserved.js";
export type { ReservationSettlement } from "../verify/reserve.js";
