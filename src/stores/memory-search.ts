/** Searches and counts the keys of a store in memory, a slice at a time. Store clause 29. */
import type { IdentityRow, KeyCount, KeyCounts, KeyPosition, KeyRow, KeySearch, KeySlice } from "../contracts/store.js";
import type { SortedIds } from "./sorted-ids.js";

/** @param ids of the keys of a workspace */
export function searchKeys(ids: SortedIds, rows: ReadonlyMap<string, KeyRow>, search: KeySearch): KeySlice {
  const most = Math.min(search.among, search.limit);
  // One more, to know whether there is one.
  const keys = (search.order === "expires" ? expiring : newest)(ids, rows, { ...search, limit: most + 1 });
  const shown = keys.slice(0, most);
  return { keys: shown, looked: shown.length, ...(keys.length > most && { last: positionOf(shown, search.order) }) };
}

/** Whether a search looks at a row. */
function looksAt({ apiIds, identityId, deleted }: KeySearch): (row: KeyRow) => boolean {
  const apis = new Set(apiIds);
  return (row) =>
    row.deleted === (deleted === true) &&
    apis.has(row.apiId) &&
    (identityId === undefined || row.identityId === identityId);
}

/** The next rows of a walk. */
type Walk = (ids: SortedIds, rows: ReadonlyMap<string, KeyRow>, search: KeySearch) => KeyRow[];

const newest: Walk = (sorted, rows, search) => {
  const { after, limit } = search;
  const [{ ids }, isLooked] = [sorted, looksAt(search)];
  const found: KeyRow[] = [];
  for (let i = after === undefined ? ids.length : sorted.after(after.id); i-- > 0 && found.length < limit;) {
    const row = rows.get(ids[i] as string) as KeyRow;
    if (row.id !== after?.id && isLooked(row)) found.push(row);
  }
  return found;
};

const expiring: Walk = ({ ids }, rows, search) => {
  const { after, limit } = search;
  const isLooked = looksAt(search);
  const from = { expires: after?.expires ?? -Infinity, id: after?.id ?? "" };
  const found = ids.flatMap((id) => {
    const row = rows.get(id) as KeyRow;
    return row.expires !== undefined && isLooked(row) && byExpiry(row, from) > 0 ? [row] : [];
  });
  return found.sort(byExpiry).slice(0, limit);
};

function byExpiry(a: Pick<KeyRow, "id" | "expires">, b: Pick<KeyRow, "id" | "expires">): number {
  return Number(a.expires) - Number(b.expires) || (a.id < b.id ? -1 : Number(a.id > b.id));
}

function positionOf(keys: readonly KeyRow[], order: KeySearch["order"]): KeyPosition {
  const { id, expires } = keys.at(-1) as KeyRow;
  return order === "expires" && expires !== undefined ? { id, expires } : { id };
}

/** @param ids of the keys of a workspace */
export function countKeys(
  ids: SortedIds,
  rows: { readonly keys: ReadonlyMap<string, KeyRow>; readonly identities: ReadonlyMap<string, IdentityRow> },
  count: KeyCount,
): KeyCounts {
  const { apiId, after = "", among, now } = count;
  let [total, disabled, expired] = [0, 0, 0];
  for (let i = ids.after(after); i < ids.ids.length; i++) {
    const row = rows.keys.get(ids.ids[i] as string) as KeyRow;
    if (row.apiId !== apiId || row.deleted) continue;
    total++;
    const owner = rows.identities.get(row.identityId ?? "");
    if (!row.enabled) disabled++;
    else if (Math.min(row.expires ?? Infinity, owner?.expires ?? Infinity) < now) expired++;
    if (total === among) return { total, disabled, expired, last: row.id };
  }
  return { total, disabled, expired };
}
