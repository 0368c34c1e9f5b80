/**
 * The ports with yield points: each call becomes a promise that settles when the scheduler picks it. A call waits
 * twice, before it reaches the store and before its result reaches the caller; it may fail, arrive late, or never.
 */
import { KeystileError } from "../../src/contracts/errors.js";
import type { LimitCheck, Limiter, LimitVerdict } from "../../src/contracts/limiter.js";
import type { Change, KeyRecord, LeaseReturn, Store } from "../../src/contracts/store.js";
import { trust } from "../../src/lib/guards/trusted.js";
import type { Client } from "./client.js";

/**
 * How a call goes wrong. `busy`, `full`: nothing is done, and the error says so. `failed`: nothing is done, and the
 * error does not say. `lost`: done, and the caller is told of a failure. `late`: the caller is told of a timeout, and
 * it is done afterwards.
 */
export const FATES = ["busy", "full", "failed", "lost", "late"] as const;
export type Fate = (typeof FATES)[number];

/** The error that a caller of the store gets. */
function errorOf(fate: Fate): KeystileError {
  const code = ({ busy: "STORE_BUSY", full: "STORE_FULL", late: "STORE_TIMEOUT" } as const)[fate as "busy"];
  return new KeystileError(code ?? "STORE_FAILED", `made by the simulator: ${fate}`);
}

/** A call that waits. */
export interface PendingCall {
  readonly client: Client;
  readonly method: string;
  readonly given: readonly unknown[];
  /** Before or after the real call. */
  phase: "before" | "after";
  /** Whether the caller was or will be told of a failure although the call is made. */
  isLost: boolean;
  /** Settles the caller's promise; set once the call was made. */
  deliver: (() => void) | undefined;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
  /** The error that the caller gets. */
  readonly errorOf: (fate: Fate) => Error;
}

/** Methods of the port that a client waits for. `subscribe` and `close` are handled apart. */
const METHODS = [
  "findKey",
  "findKeys",
  "findForeignKey",
  "findRootKey",
  "findOnce",
  "readSecret",
  "recordUses",
  "countOutcomes",
  "readOutcomes",
  "readCreditDays",
  "pruneOutcomes",
  "readAudit",
  "adoptDigest",
  "spendCredits",
  "spendOnce",
  "drawCredits",
  "returnCredits",
  "reserveCredits",
  "settleCredits",
  "readBalances",
  "readMany",
  "readNames",
  "list",
  "insertKeys",
  "write",
  "pollChanges",
] as const satisfies readonly (keyof Store)[];

/** Makes a call of this client wait. What a dead client asks for never comes. */
export function suspend(
  client: Client,
  method: string,
  given: readonly unknown[],
  toError: (fate: Fate) => Error = errorOf,
): Promise<unknown> {
  return new Promise((resolve, reject) => {
    if (client.isDead) return;
    const settle = { deliver: undefined, resolve, reject, errorOf: toError };
    client.calls.push({ client, method, given, phase: "before", isLost: false, ...settle });
  });
}

/**
 * Records as of a store without the power `wallets`: a key with credits of its own draws on them alone. The ledger adds
 * up one account a call; what takes from several is held against a list of credits (`test/credits/wallet.test.ts`).
 */
export function ofOneAccount<T>(found: T): T;
export function ofOneAccount(found: unknown): unknown {
  if (Array.isArray(found)) return found.map((one) => ofOneAccount(one) as unknown);
  if (found === undefined) return found;
  const { wallets: _, ...record } = found as KeyRecord;
  return record;
}

/**
 * A client's view of the store.
 * @param isPollSync whether polling yields no point: cached finds are then synchronous, as with the memory store
 */
export function yieldingStore(client: Client, store: Store, isPollSync: boolean): Store {
  const methods = METHODS.map(
    (name) =>
      [
        name,
        (...given: unknown[]) => {
          if (name === "returnCredits") client.ends(given[1] as LeaseReturn);
          const answer = suspend(client, name, given);
          return name.startsWith("findKey") || name === "findForeignKey" ? answer.then(ofOneAccount) : answer;
        },
      ] as const,
  );
  return trust({
    ...(Object.fromEntries(methods) as unknown as Store),
    powers: store.powers,
    ...(isPollSync && {
      pollChanges(now?: number) {
        const polling = store.pollChanges(now);
        client.hear();
        return polling;
      },
    }),
    subscribe: (listener: (change: Change) => void) => client.subscribe(store, listener),
    close: () => undefined,
  });
}

/** A client's view of a limiter that it shares with others. */
export function yieldingLimiter(client: Client): Limiter {
  return {
    take: (checks: readonly LimitCheck[], now: number) =>
      suspend(client, "take", [checks, now]) as Promise<readonly LimitVerdict[]>,
  };
}
