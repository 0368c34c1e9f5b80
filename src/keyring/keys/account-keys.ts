/**
 * The keys of one account: a key and all that replaced it, and each other, in the order in which they were made. Each
 * row points to its two neighbours, so that all are found from any, whichever of them was rerolled or removed.
 *
 * A key that was replaced keeps `rerolledTo` for good, also if nothing is there any more: it must not count as the
 * newest again.
 */
import type { KeyRow, Write } from "../../contracts/store.js";
import type { Context, Reading } from "../context.js";
import { setField } from "../rows.js";
import type { Mutable } from "../../lib/mutable.js";

const LINKS = ["rerolledFrom", "rerolledTo"] as const;

/** Keys between which others get their turn: a key may have been rotated any number of times. */
const KEYS_PER_TURN = 64;

/** All other keys of its account, deleted ones included. */
export async function othersOfAccount(context: Reading, row: KeyRow): Promise<KeyRow[]> {
  return [...(await follow(context, row, "rerolledFrom")), ...(await follow(context, row, "rerolledTo"))];
}

/** The latest key of its account: the key itself, if none replaced it. */
export async function lastOfAccount(context: Context, row: KeyRow): Promise<KeyRow> {
  return (await follow(context, row, "rerolledTo")).at(-1) ?? row;
}

/**
 * What is written with the removal of a key: its neighbours become neighbours of each other. The one before the newest
 * stays as it is.
 */
export async function unlink(context: Context, row: KeyRow): Promise<Write[]> {
  const writes: Write[] = [];
  for (const link of LINKS) {
    const back = link === "rerolledFrom" ? "rerolledTo" : "rerolledFrom";
    const [neighbour] = row[link] === undefined ? [] : await context.store.readMany("keys", [row[link]]);
    if (neighbour === undefined || (back === "rerolledTo" && row.rerolledTo === undefined)) continue;
    const relinked: Mutable<KeyRow> = { ...neighbour };
    setField(relinked, back, row[back] ?? null);
    writes.push({ table: "keys", row: relinked });
  }
  return writes;
}

async function follow({ store, turns }: Reading, row: KeyRow, link: (typeof LINKS)[number]): Promise<KeyRow[]> {
  const found: KeyRow[] = [];
  for (let id = row[link]; id !== undefined;) {
    const [next] = await store.readMany("keys", [id]);
    if (next !== undefined) found.push(next);
    id = next?.[link];
    if (found.length % KEYS_PER_TURN === 0) await turns.next();
  }
  return found;
}
