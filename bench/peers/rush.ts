/** What is granted when calls come all at once to two nodes with one key, and little is left. */
import type { Row } from "../harness.js";
import type { Contestant, Terms } from "./contestant.js";

const CALLS = 300;
const GRANTS = 100;

/** So many credits, and a limit that is out of reach: the credits decide. */
export const SCARCE_CREDITS: Terms = { credits: GRANTS, limit: 1_000_000, duration: 86_400_000 };
/** A limit of as many in a window that nothing ends and nothing refills. */
export const SCARCE_LIMIT: Terms = { credits: GRANTS, limit: GRANTS, duration: 9_000_000_000_000_000 };

/** Sends {@link CALLS} at once, every second one to another node. @returns what came of it, by column of the table */
async function rush({ open }: Contestant, terms: Terms): Promise<Record<string, string>> {
  const gate = await open(1, terms);
  const other = (await gate.join?.()) ?? gate;
  const answers = await Promise.all(Array.from({ length: CALLS }, (_, i) => (i % 2 === 0 ? gate : other).verify(0)));
  const granted = answers.filter((answer) => gate.passes(answer)).length;
  // First, so that it returns what it holds.
  if (other !== gate) await other.close();
  const left = await gate.balance?.(0);
  await gate.close();
  return {
    [`granted of ${GRANTS}, two nodes`]: String(granted),
    left: left === undefined ? "none: it deleted the key" : String(left),
    "over-granted": String(Math.max(0, granted - GRANTS)),
  };
}

/** Adds to each contestant's first row what came of a rush on it. */
export async function withRush(rows: readonly Row[], contestants: readonly Contestant[], terms: Terms): Promise<Row[]> {
  const results = new Map<string, Record<string, string>>();
  for (const contestant of contestants) results.set(contestant.name, await rush(contestant, terms));
  return rows.map((row) => {
    const result = results.get(row.name);
    results.delete(row.name);
    return result === undefined ? row : { ...row, notes: { ...row.notes, ...result } };
  });
}
