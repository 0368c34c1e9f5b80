/** What `explain` reports about each check. */
import type { VerifyKeyRatelimitData } from "../contracts/types.js";
import type { CreditsSource } from "../lib/credits-source.js";

/** What one check of a key finds. Several checks may have one code. */
export type ExplainedCheck =
  | { readonly code: "DISABLED"; readonly passes: boolean }
  | {
      readonly code: "EXPIRED";
      readonly passes: boolean;
      /** The key's own: the last instant at which it is valid, Unix time in milliseconds; absent: never expires. */
      readonly expires?: number;
      /** The same of its owner. The earlier of the two decides. */
      readonly ownerExpires?: number;
    }
  | {
      readonly code: "FORBIDDEN";
      readonly passes: boolean;
      /** Whether the key's API or workspace is disabled. */
      readonly parentDisabled: boolean;
      /** Whether its owner is disabled. */
      readonly ownerDisabled: boolean;
      /** Whether the allow-lists of key and API let the client's address pass. */
      readonly addressAllowed: boolean;
    }
  | {
      readonly code: "INSUFFICIENT_PERMISSIONS";
      readonly passes: boolean;
      /** Permissions that the query names and the key has, in the query's order. */
      readonly has: readonly string[];
      /** Permissions that the query names and the key lacks; a query with `OR` may pass all the same. */
      readonly missing: readonly string[];
    }
  | {
      readonly code: "RATE_LIMITED";
      readonly passes: boolean;
      /** The limits that apply: `remaining` and `reset` are their state before the call. */
      readonly limits: readonly ExplainedLimit[];
      /** Milliseconds until the call could pass; absent if it passes, or if waiting does not help. */
      readonly retryAfter?: number;
      /** Whether the limiter failed and its fallback decided. */
      readonly degraded: boolean;
    }
  | {
      readonly code: "USAGE_EXCEEDED";
      readonly passes: boolean;
      /** Credits that the call would take. */
      readonly cost: number;
      /** Whose credits the call takes: the key's, its identity's, those of both, or none: unlimited. */
      readonly creditsFrom: CreditsSource;
      /** The balance now, due refills included; absent: unlimited. In `leased` mode as this process knows it. */
      readonly remaining?: number;
      /** Who has the least, so that `remaining` is of it. Absent unless `creditsFrom` is `both`. */
      readonly decidedBy?: "key" | "identity";
      /** Where there are several accounts: those of the key and then of its identity, in the order they are spent. */
      readonly accounts?: readonly ExplainedAccount[];
    };

/** An account that pays for a call. */
export interface ExplainedAccount {
  readonly owner: "key" | "identity";
  /** Absent: the main account. */
  readonly grantId?: string;
  /** What is left of it, without what is reserved or leased; null: unlimited. */
  readonly remaining: number | null;
  /** From when on nothing can be taken from it, Unix time in milliseconds. Absent: never. */
  readonly expires?: number;
}

/** One limit of a dry run. */
export interface ExplainedLimit extends VerifyKeyRatelimitData {
  /** Tokens that the call would take. */
  readonly cost: number;
}
