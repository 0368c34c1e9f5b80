/** Makes a failing history short: drops ever smaller runs of steps as long as it still fails. */

/** @param fails whether a history still fails; asked at most `budget` times */
export async function shrink(
  seeds: readonly number[],
  fails: (seeds: readonly number[]) => Promise<boolean>,
  budget = 500,
): Promise<readonly number[]> {
  let best = seeds;
  let asked = 0;
  for (let run = Math.ceil(best.length / 2); run >= 1; run = run === 1 ? 0 : Math.ceil(run / 2)) {
    for (let from = 0; from < best.length && asked < budget;) {
      const shorter = [...best.slice(0, from), ...best.slice(from + run)];
      asked++;
      if (await fails(shorter)) best = shorter;
      else from += run;
    }
  }
  return best;
}
