/** The event that a verifier gives `onOutcome` for each verification. */
import type { VerificationCode } from "../contracts/types.js";
import type { QueueOptions } from "../lib/event-queue.js";

/** One verification, for analytics. Contains no key, hash or address. */
export interface OutcomeEvent {
  /** Time of the call, Unix milliseconds. */
  readonly time: number;
  readonly code: VerificationCode;
  /** A spend by id, of a key or an identity. Absent: a verification. */
  readonly kind?: "spend";
  /** The request's tags; occurrences of the presented key in them read `[key]`. */
  readonly tags: readonly string[];
  /**
   * Absent with NOT_FOUND, as are `apiId`, `workspaceId` and `identityId`; `identityId` also for a key without
   * identity, `keyId` and `apiId` for a spend of an identity.
   */
  readonly keyId?: string;
  readonly apiId?: string;
  readonly workspaceId?: string;
  readonly identityId?: string;
  /** Your own id of the identity. Absent where `identityId` is. */
  readonly externalId?: string;
  /** Credits taken; 0 unless the outcome is VALID and the key has a balance. */
  readonly spent: number;
  /** Credits that `reserve` took; the settlement decides how many of them are spent. Absent: none. */
  readonly reserved?: number | undefined;
  /**
   * Credits left after the call; in `leased` mode as this process knows it. Absent: unlimited, or no key was found.
   */
  readonly remaining?: number | undefined;
  /** Whose credits those are, where the key's own and its identity's both pay: who has the least. Absent: one pays. */
  readonly decidedBy?: "key" | "identity" | undefined;
  /** How long the call took, milliseconds, with fractions where the runtime has them. */
  readonly duration: number;
  /** Whether the limiter failed and its fallback decided. */
  readonly degraded: boolean;
  /**
   * Refusing buckets that were dropped to make space for new buckets of this key. They belonged to the workspace that
   * held most of the limiter's memory. Absent: none.
   */
  readonly displacedBuckets?: number | undefined;
  /**
   * Refill boundaries that this call skipped without a refill: more than 9,600 hourly, 400 daily, 60 weekly or 24
   * monthly ones were due at once, because the clock jumped ahead or the key was idle for that long. Absent: none.
   */
  readonly forfeitedRefills?: number | undefined;
}

/** How outcome events are queued; dropped events are counted in `outcomesDropped`. */
export type OutcomeOptions = QueueOptions;

/** Tags with the presented key replaced. */
export function redact(tags: readonly string[], key: string): readonly string[] {
  return key !== "" && tags.some((tag) => tag.includes(key)) ? tags.map((tag) => tag.replaceAll(key, "[key]")) : tags;
}
