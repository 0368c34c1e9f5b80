/** Counts keys: the operation `keys.countKeys`. */
import type { KeyCounts } from "../../contracts/store.js";
import { lacking } from "../../lib/guards/powers.js";
import type { Context } from "../context.js";
import { operation } from "../operation.js";
import { body, nameGiven, optional } from "../schemas/primitives.js";
import type { CountKeysRequestBody } from "../schemas/requests.js";
import type { CountKeysResponseData } from "../schemas/responses.js";
import { readableApis } from "./readable-apis.js";
import { createSlicing } from "./slicing.js";

/**
 * Every key of one API, or of those that the caller may read, a slice at a time: about 1 µs a key in SQLite.
 * @throws KeystileError NOT_FOUND: no such API · BAD_REQUEST: an API has to be named · STORE_POWER_MISSING
 */
export const countKeys = operation(
  "countKeys",
  body<CountKeysRequestBody>()({ apiId: optional(nameGiven) }),
  (context, { apiId }): Promise<CountKeysResponseData> =>
    context.turns.run(async () => {
      const now = context.clock();
      const counts = { total: 0, disabled: 0, expired: 0 };
      for (const { id } of await readableApis(context, apiId)) await countApi(context, id, now, counts);
      return { ...counts, asOf: now };
    }),
);

async function countApi(
  { store, workspaceId, turns }: Context,
  apiId: string,
  now: number,
  counts: { -readonly [K in Exclude<keyof KeyCounts, "last">]: number },
): Promise<void> {
  if (store.powers.search !== true || store.countKeys === undefined) throw lacking("search", "countKeys");
  const slicing = createSlicing(turns);
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
