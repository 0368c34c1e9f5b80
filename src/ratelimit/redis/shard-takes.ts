/** Takes from several shards at once: all of them grant, or none keeps what it took. */
import type { LimitVerdict } from "../../contracts/limiter.js";
import type { Refusals } from "./refusals.js";
import type { Mode } from "./script.js";
import type { ShardCall, ShardReply } from "./shard-call.js";

/**
 * Runs the script for one shard.
 * @param task what it is to do, and the receipts of a `hold` that it is to undo
 * @param read makes the result of its reply
 */
export type Ask = <T>(
  call: ShardCall,
  task: { readonly mode: Mode; readonly receipts?: readonly string[] },
  read: (reply: ShardReply) => T,
) => Promise<T>;

type Held = Pick<ShardReply, "verdicts" | "receipts">;

const isRefused = ({ verdicts }: Held): boolean => verdicts.some(({ exceeded }) => exceeded);

/** @param within the deadline of each call */
export function createShardTakes(
  ask: Ask,
  refusals: Refusals,
  within: <T>(call: Promise<T>) => Promise<T>,
): (calls: readonly ShardCall[], onFailure: (call: ShardCall) => void) => Promise<readonly LimitVerdict[]> {
  const undo = (call: ShardCall, { receipts }: Held) => ask<Held>(call, { mode: "undo", receipts }, (reply) => reply);

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
    const mode = refused.some((verdicts) => verdicts !== undefined) ? "look" : "hold";
    const asked = calls.map(async (call, i): Promise<Held> => {
      const verdicts = refused[i];
      return verdicts === undefined ? ask<Held>(call, { mode }, (reply) => reply) : { verdicts, receipts: [] };
    });
    let replies: Held[];
    try {
      replies = await Promise.all(asked.map(inTime));
    } catch (error) {
      // Whatever was granted, or is granted too late.
      if (mode === "hold")
        for (const [i, reply] of asked.entries())
          void reply
            .then((held) => (isRefused(held) ? undefined : undo(calls[i] as ShardCall, held)))
            .catch(() => undefined);
      throw error;
    }
    const isReturned = mode === "hold" && replies.some(isRefused);
    const final = await Promise.all(
      replies.map((held, i) => (isReturned && !isRefused(held) ? inTime(undo(calls[i] as ShardCall, held), i) : held)),
    );
    const verdicts: LimitVerdict[] = [];
    for (const [i, { checks }] of calls.entries())
      checks.forEach(({ index }, n) => (verdicts[index] = final[i]?.verdicts[n] as LimitVerdict));
    return verdicts;
  };
}
