/**
 * Calls with an idempotency key: a repeat takes no credits or tokens again. Store clause 23.
 *
 * A repeat is recognised in three places. This verifier refuses a repeat while the first call is in flight (409).
 * Before the checks, the verifier reads the call's record from the store, so that a repeat takes no rate-limit tokens
 * either. The spend looks for the record again, in its own transaction, which decides between processes too. If two
 * processes get the same call at the same moment, both may take tokens, each from its own limiter, but credits are
 * taken once.
 */
import type { Caller } from "../contracts/caller.js";
import { KeystileError } from "../contracts/errors.js";
import type { OnceBounds, OnceRecord, Spend, Store } from "../contracts/store.js";
import { RESERVATION } from "../credits/account.js";
import type { Spender, SpendTarget } from "../credits/spender.js";
import { type Check, checkOptions, integer } from "../lib/check-options.js";
import { createSigner, full, mismatch, scopeOf } from "../lib/once.js";
import { requestOf, type VerificationRequest } from "./request.js";

/** Options of calls with an idempotency key. */
export interface IdempotencyOptions {
  /** Milliseconds for which a repeat is recognised, 1_000…2_592_000_000; default 86_400_000, a day. */
  readonly ttl?: number | undefined;
  /**
   * Records in the store, 1…100_000_000; default 1_000_000, about 200 bytes each in an SQLite file. Once there are so
   * many, a workspace that holds an equal share gets IDEMPOTENCY_FULL for new idempotency keys. A workspace below its
   * share may still add records: ten workspaces together hold at most 2.9 times this number, a thousand 7.5 times. No
   * record is removed before it expires. Verifiers of one store should use the same number.
   */
  readonly records?: number | undefined;
  /** Most records of one workspace, even while the store has space, 1…records; default `records`. */
  readonly recordsPerWorkspace?: number | undefined;
}

const DAY = 86_400_000;
const RECORDS = 1_000_000;

/** The check of {@link IdempotencyOptions}. */
export const IDEMPOTENCY_OPTIONS: Check = (value, path) => {
  const count = integer(1, 100_000_000);
  const checks = { ttl: integer(1_000, 30 * DAY), records: count, recordsPerWorkspace: count } satisfies Record<
    keyof IdempotencyOptions,
    Check
  >;
  const { records = RECORDS, recordsPerWorkspace = 1 } = checkOptions(value as IdempotencyOptions, checks, path);
  if (recordsPerWorkspace > records)
    throw new RangeError(`${path}.recordsPerWorkspace must be at most ${path}.records`);
};

/** The parts of a call that identify a repeat, and its time. */
export interface BegunCall extends VerificationRequest {
  readonly now: number;
  readonly context: {
    /** Milliseconds for which the cost is reserved; `undefined`: the cost is spent at once. */
    readonly timeout: number | undefined;
  };
  /** Of a spend by id: whose credits. */
  readonly owner?: string;
}

/** A call with an idempotency key, in flight. */
export interface IdempotentCall {
  readonly record: OnceRecord;
  /** Whether the store already has a record of this call: then it takes nothing. */
  isRepeat: boolean;
}

/** @param options validated with {@link IDEMPOTENCY_OPTIONS} */
export function createIdempotency(store: Store, spender: Spender, options: IdempotencyOptions) {
  const { ttl = DAY, records = RECORDS, recordsPerWorkspace = records } = options;
  const bounds: OnceBounds = Object.freeze({ maxRecords: records, maxPerWorkspace: recordsPerWorkspace });
  /** Digests of the bodies of calls in flight, by the id of their record. */
  const inFlight = new Map<string, string>();
  const signer = createSigner(store);
  const digest = async (text: string): Promise<string> => (await signer())(text);

  return {
    /** Reads the store's secret once. @returns makes keyed digests of texts with it. @throws STORE_POWER_MISSING */
    signer,
    /**
     * The idempotency key and its caller, as one text.
     * @throws KeystileError BAD_REQUEST: the key is not 1 to 255 characters of printable ASCII · STORE_POWER_MISSING;
     *   TypeError: the key is no string, or the caller has no id
     */
    scopeOf: (idempotencyKey: unknown, caller: Caller | undefined): string =>
      scopeOf(store, idempotencyKey, caller, "context.idempotencyKey"),
    /**
     * Begins a call. It is in flight until {@link Idempotency.end}.
     * @param workspaceId of the key to verify
     * @throws KeystileError IDEMPOTENCY_IN_FLIGHT · IDEMPOTENCY_MISMATCH
     */
    async begin(scope: string, workspaceId: string, call: BegunCall): Promise<IdempotentCall> {
      const { now, context, owner } = call;
      const { timeout } = context;
      const kind = owner === undefined ? (timeout === undefined ? "" : "reserve ") : `spend ${owner} `;
      const id = await digest(`${workspaceId} ${scope}`);
      // One reader validated and copied the request, so equal bodies have equal texts.
      const body = await digest(`${id} ${kind}${JSON.stringify(requestOf(call))}`);
      const other = inFlight.get(id);
      if (other !== undefined) throw other === body ? stillInFlight() : mismatch();
      inFlight.set(id, body);
      try {
        const known = await store.findOnce(id, now);
        if (known !== undefined && known !== body) throw mismatch();
        const record = { workspaceId, id, body, until: now + ttl };
        // A repeat finds the same reservation.
        const reservation = timeout !== undefined && {
          reservation: { id: `${RESERVATION}${id}`, until: now + timeout },
        };
        return { record: { ...record, ...reservation }, isRepeat: known !== undefined };
      } catch (error) {
        inFlight.delete(id);
        throw error;
      }
    },
    /**
     * Spends, and records the call if that succeeds.
     * @param target `undefined`: the key has no balance
     * @returns as {@link Spender.spend}; if the call turns out to be a repeat, nothing is taken
     * @throws KeystileError IDEMPOTENCY_MISMATCH · IDEMPOTENCY_FULL
     */
    async spend(
      call: IdempotentCall,
      target: SpendTarget | undefined,
      { cost, now }: Pick<BegunCall, "cost" | "now">,
    ): Promise<Spend | undefined> {
      const { outcome, spend } = await spender.spendOnce(target, { cost, now, once: { record: call.record, bounds } });
      if (outcome === "mismatch") throw mismatch();
      if (outcome === "full") throw full();
      call.isRepeat = outcome === "repeated";
      return spend;
    },
    end: ({ record }: IdempotentCall): void => void inFlight.delete(record.id),
  };
}

export type Idempotency = ReturnType<typeof createIdempotency>;

const stillInFlight = (): KeystileError =>
  new KeystileError(
    "IDEMPOTENCY_IN_FLIGHT",
    "a call with this idempotency key has not ended yet; repeat yours once it has",
  );
