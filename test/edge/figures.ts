/**
 * The figures of docs/edge.md: `npx tsx test/edge/figures.ts`. Requests go one after the other, in turns of 200 for
 * each route; spends are made inside one object.
 */
import { bundleWorker, gzipped, startWorker } from "./worker.js";

const TURNS = 9;
const REQUESTS = 200;

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1]!;

const running = await startWorker(await bundleWorker("test/edge/programs/guard.ts"), "Objects");
try {
  const { plain, paid } = await running.ask<{ plain: string; paid: string }>("/keys");
  const routes = [
    ["a route without a guard", "/bare", plain],
    ["guarded, from the cache", "/cached", plain],
    ["guarded, one hop", "/guarded", plain],
    ["guarded, one hop that takes a credit", "/guarded", paid],
  ] as const;
  const times = routes.map((): number[] => []);
  for (let turn = 0; turn <= TURNS; turn++)
    for (const [i, [, path, key]] of routes.entries()) {
      const began = performance.now();
      for (let n = 0; n < REQUESTS; n++) {
        const response = await running.fetch(path, { headers: { authorization: `Bearer ${key}` } });
        if (response.status !== 200) throw new Error(`${path}: ${response.status}`);
        await response.arrayBuffer();
      }
      // The first turn warms up.
      if (turn > 0) times[i]!.push((performance.now() - began) / REQUESTS);
    }
  const [bare = NaN] = times.map(median);
  for (const [i, [name]] of routes.entries())
    console.log(`${name}: ${median(times[i]!).toFixed(2)} ms, ${(median(times[i]!) / bare).toFixed(2)} times`);
  for (const atOnce of [1, 64]) {
    const spends: number[] = [];
    for (let turn = 0; turn < 5; turn++) {
      const { ms, left } = await running.ask<{ ms: number; left: number }>(`/spends?count=5000&atOnce=${atOnce}`);
      if (left !== 0) throw new Error(`${left} credits are left`);
      spends.push(5_000 / (ms / 1_000));
    }
    console.log(`spends in one object, ${atOnce} at once: ${Math.round(median(spends))} a second`);
  }
} finally {
  await running.stop();
}
for (const file of ["examples/worker/worker.ts", "test/edge/programs/guard.ts"])
  console.log(`${file}: ${Math.round(gzipped(await bundleWorker(file, true)) / 1_000)} kB, minified and gzipped`);
