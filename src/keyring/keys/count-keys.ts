/** Counts keys: the operation `keys.countKeys`. */
import type { KeyCounts } from "../../contracts/store.js";
import { lacking } from "../../lib/guards/powers.js";
import type { Context } from "../context.js";
import { operation } from "../operation.js";
import { countedKeys } from "../schemas/search-keys.js";
import type { CountKeysResponseData } from "../schemas/responses.js";
import { readableApis } from "./readable-apis.js";
import { createSlicing } from "./slicing.js";

/**
 * Counts every key of one API, or of all APIs that the caller may read, a slice of keys at a time. SQLite counts from
 * indexes alone, in about 0.2 µs a key.
 * @throws KeystileError NOT_FOUND: no such API · BAD_REQUEST: an API has to be named · STORE_POWER_MISSING
 */
export const countKeys = operation(
  "countKeys",
  countedKeys,
  (context, { apiId, maxAge = 0 }): Promise<CountKeysResponseData> =>
    context.turns.run(async () => {
      const apis = (await readableApis(context, apiId)).map(({ id }) => id);
      const { asOf, value } = await context.kept.read(JSON.stringify(["count", apis]), maxAge, async () => {
        const counts = { total: 0, disabled: 0, expired: 0 };
        // What is kept others wait for too.
        const counting = { ...context, now: context.clock(), ...(maxAge > 0 && { isGone: undefined }) };
        for (const id of apis) await countApi(counting, id, counts);
        return counts;
      });
      return { ...value, asOf };
    }),
);

async function countApi(
  context: Context,
  apiId: string,
  counts: { -readonly [K in Exclude<keyof KeyCounts, "last">]: number },
): Promise<void> {
  const { store, workspaceId, now } = context;
  if (store.powers.search !== true || store.countKeys === undefined) throw lacking("search", "countKeys");
  const slicing = createSlicing(context);
  for (let after: string | undefined; ;) {
    const query = { workspaceId, apiId, among: slicing.among(), now, ...(after !== undefined && { after }) };
    const { total, disabled, expired, last } = await slicing.timed(() => store.countKeys!(query));
    counts.total += total;
    counts.disabled += disabled;
    counts.expired += expired;
    if (last === undefined) return;
    after = last;
    await slicing.yield();
  }
}
