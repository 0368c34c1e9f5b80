/** In place of a comparison of each write with what is there: every write is made, and recorded. */
import type { Write, WrittenBalance } from "../../../../src/contracts/store.js";
import type { Context } from "../../../../src/keyring/context.js";
import { taken, type Written } from "../../../../src/keyring/write.js";

export * from "../../../../src/keyring/write.js";

export async function write(context: Context, writes: readonly Write[]): Promise<Written> {
  const { clock, workspaceId, operation, audit, unaudited, progress } = context;
  const ids = writes.map((one) => ("remove" in one ? one.remove : one.row.id));
  const what = { operation, ids, fields: [], count: writes.length };
  const entry = { time: clock(), workspaceId, ...audit.actor, ...what };
  // Without an idempotency key.
  const outcome = (await unaudited.write(writes, [entry])) as Written;
  if (outcome !== "conflict" && outcome !== "taken") progress.hasWritten = true;
  return outcome;
}

export async function writeRows(
  context: Context,
  writes: readonly Write[],
  what = "",
): Promise<readonly WrittenBalance[] | undefined> {
  const outcome = await write(context, writes);
  if (outcome === "taken") throw taken(what);
  return outcome === "conflict" ? undefined : outcome === "written" ? [] : outcome;
}
