/**
 * Changes of credits that may come twice, as a payment's webhook does: under an idempotency key each is made once.
 *
 * Why the record is looked for before the change: a repeat is answered even where the change could not be made again,
 * such as an increment of a balance that became unlimited meanwhile. The write looks for it again, in its own step,
 * which decides between processes.
 */
import type { OnceBounds, WriteOnce } from "../contracts/store.js";
import { checkOptions, narrowing } from "../lib/check-options.js";
import { isObject } from "../lib/copy-json.js";
import { createSigner, mismatch, scopeOf } from "../lib/once.js";
import type { Context, OfCall, Shared } from "./context.js";
import { type Act, type Operation, operation, runRequest } from "./operation.js";
import { parse, type Schema } from "./schemas/parse.js";

/** Options of changes of credits. */
export interface AdjustmentOptions {
  /**
   * 1–255 characters of printable ASCII that name this change, such as the id of a webhook's event. For 30 days a
   * repeat of the same caller changes nothing. Absent: every call is a change; `undefined` is a mistake.
   */
  readonly idempotencyKey?: string;
}

/** Added to the answer of a change that was made before. */
export interface Repeated {
  /** True: the idempotency key was used before, nothing was changed, and the answer is as things stand now. */
  readonly repeated?: true;
}

const OPTIONS = { idempotencyKey: narrowing(() => {}) };
/** Milliseconds for which a change is known: 30 days. */
const KEPT = 30 * 86_400_000;
/** The most that verifiers may be set to: no number of verifications keeps an administrator from a change. */
const BOUNDS: OnceBounds = { maxRecords: 100_000_000, maxPerWorkspace: 100_000_000 };

/** An operation that honours an idempotency key. */
export interface Adjustment<C extends Context, B, T> extends Operation<C, B, T, Schema<B>> {
  readonly takesIdempotencyKey: true;
}

/**
 * Declares an operation that makes one write.
 * @param read the answer as things stand, for a repeat
 */
export function adjustment<C extends Context, B, T extends object>(
  name: string,
  schema: Schema<B>,
  act: Act<C, B, T>,
  read: Act<C, B, T>,
): Adjustment<C, B, T & Repeated> {
  const actOnce = async (context: C, request: B): Promise<T & Repeated> => {
    if (context.idempotencyKey === undefined) return act(context, request);
    const once = await onceOf(context, request);
    const { id, body } = once.record;
    const known = await context.store.findOnce(id, once.now);
    if (known !== undefined && known !== body) throw mismatch();
    if (known === undefined) {
      const made = await act({ ...context, once }, request);
      if (context.progress.isRepeated !== true) return made;
    }
    return { ...(await read({ ...context, once }, request)), repeated: true };
  };
  return { ...operation(name, schema, actOnce), takesIdempotencyKey: true };
}

/** What the write records. The workspace's id is a word, so that no verification has the same text. */
async function onceOf(context: Context, request: unknown): Promise<WriteOnce> {
  const { workspaceId, idempotencyKey, caller, store, operation, now } = context;
  const scope = scopeOf(store, idempotencyKey, caller, "options.idempotencyKey");
  const digest = await createSigner(store)();
  const id = await digest(`${workspaceId} adjust ${scope}`);
  const body = await digest(`${id} ${operation} ${JSON.stringify(request, sorted)}`);
  return { record: { workspaceId, id, body, until: now + KEPT }, bounds: BOUNDS, now };
}

/** Names in one order: clients of some languages write an object in another one each time. */
const sorted = (_: string, value: unknown): unknown =>
  isObject(value) ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))) : value;

/** The method of an {@link adjustment}: it parses, and acts as the program. */
export function adjustmentMethod<S extends Shared, B, T>(
  shared: S,
  { name, schema, act }: Adjustment<S & OfCall, B, T>,
): (body: B, options?: AdjustmentOptions) => Promise<T> {
  return async (body, options = {}) => {
    const { idempotencyKey } = checkOptions(options, OPTIONS);
    return runRequest({ context: shared, operation: name, idempotencyKey }, () => parse(schema, body), act);
  };
}
