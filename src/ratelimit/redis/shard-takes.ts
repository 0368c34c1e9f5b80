/** Takes from several shards at once: all of them grant, or none keeps what it took. */
import type { LimitVerdict } from "../../contracts/limiter.js";
import type { Refusals } from "./refusals.js";
import type { Mode } from "./script.js";
import { isRefused, type ShardCall, type ShardReply } from "./shard-call.js";

/** What a take granted or refused, as far as undoing it needs that. */
export type Taken = Pick<ShardReply, "verdicts" | "receipts">;

/** How the script is run for one shard. */
export interface Ask {
  ask(call: ShardCall, mode: Exclude<Mode, "undo">): Promise<Taken>;
  /** Returns what a call was granted. */
  undo(call: ShardCall, granted: Taken): Promise<Taken>;
  /** The deadline of a call. */
  within<T>(call: Promise<T>): Promise<T>;
}

export function createShardTakes(
  { ask, undo, within }: Ask,
  refusals: Refusals,
): (calls: readonly ShardCall[], onFailure: (call: ShardCall) => void) => Promise<readonly LimitVerdict[]> {
  return async (calls, onFailure) => {
    const inTime = <T>(reply: Promise<T>, i: number): Promise<T> =>
      within(reply).catch((cause: unknown) => {
        onFailure(calls[i] as ShardCall);
        throw cause;
      });
    const refused = calls.map((call) => {
      const known = refusals.find(call);
      return known && refusals.refuse(call, known);
    });
    const mode = refused.some((verdicts) => verdicts !== undefined) ? "look" : "take";
    const asked = calls.map(async (call, i): Promise<Taken> => {
      const verdicts = refused[i];
      return verdicts === undefined ? ask(call, mode) : { verdicts, receipts: undefined };
    });
    let replies: Taken[];
    try {
      replies = await Promise.all(asked.map(inTime));
    } catch (error) {
      // Whatever was granted, or is granted too late.
      if (mode === "take")
        for (const [i, reply] of asked.entries())
          void reply
            .then((taken) => (isRefused(taken) ? undefined : undo(calls[i] as ShardCall, taken)))
            .catch(() => undefined);
      throw error;
    }
    const isReturned = mode === "take" && replies.some(isRefused);
    const final = await Promise.all(
      replies.map((taken, i) =>
        isReturned && !isRefused(taken) ? inTime(undo(calls[i] as ShardCall, taken), i) : taken,
      ),
    );
    const verdicts: LimitVerdict[] = [];
    for (const [i, { checks }] of calls.entries())
      checks.forEach(({ index }, n) => (verdicts[index] = final[i]?.verdicts[n] as LimitVerdict));
    return verdicts;
  };
}
