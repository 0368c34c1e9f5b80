/**
 * Changes many keys: the operation `keys.changeKeys`, a batch of at most 100 keys a call. A batch is one step, with one
 * entry of the audit trail that names its keys; the cursor goes on with those after it, whatever became of the others.
 */
import { badRequest } from "../../contracts/errors.js";
import type { KeyRow } from "../../contracts/store.js";
import type { Mutable } from "../../lib/mutable.js";
import { type Context, updateWithRetry } from "../context.js";
import { operation } from "../operation.js";
import { repeatPasses } from "../passes.js";
import { readApisOf, readRows } from "../rows.js";
import { changedKeys } from "../schemas/search-keys.js";
import type { ChangeKeysRequestBody, SearchKeysRequestBody } from "../schemas/requests.js";
import type { KeyChange, SearchPage } from "../schemas/responses.js";
import { writeRows } from "../write.js";
import { searchKeys, stillFound } from "./search-keys.js";
import { hide } from "./update-key.js";

const SELECTING = ["keyIds", "apiId", "externalId", "search", "state", "expiresBefore", "creditsBelow"] as const;

type Action = ChangeKeysRequestBody["action"];

/** What a caller needs for each action, on each key. */
const ACTIONS: Readonly<Record<Action, string>> = {
  disable: "update_key",
  enable: "update_key",
  delete: "delete_key",
};

/**
 * Disables, enables or deletes keys: the keys that `keyIds` names, or one page of the keys that a filter finds.
 * @throws KeystileError BAD_REQUEST: nothing selects keys, or both ids and a filter do · NOT_FOUND: no such API ·
 *   STORE_POWER_MISSING: the store cannot search
 */
export const changeKeys = operation("changeKeys", changedKeys, async (context, request) => {
  requireSelection(request);
  const { keyIds, action, dryRun = false, reason: _, ...filter } = request;
  const { ids, pagination } = await select(context, keyIds, filter);
  const data = await updateWithRetry(context, `changeKeys ${action}`, async () => {
    const rows = await readChangeable(context, action, ids);
    const there = rows.filter((row) => row !== undefined);
    const fitting = keyIds === undefined ? await stillFound(context, filter, there) : there;
    const changed = fitting.flatMap((row) => edited(context, row, action) ?? []);
    if (!dryRun && changed.length > 0) {
      const writes = changed.map((row) => ({ table: "keys", row }) as const);
      if ((await writeRows(context, writes)) === undefined) return undefined;
    }
    const done = new Set(changed.map(({ id }) => id));
    return ids.map((keyId, i): KeyChange => ({
      keyId,
      outcome: rows[i] === undefined ? "notFound" : done.has(keyId) ? "changed" : "unchanged",
    }));
  });
  return { data, pagination };
});

function requireSelection(request: ChangeKeysRequestBody): void {
  // A blank text finds every key: the program lost what was to be looked for, also beside other filters.
  if (request.search?.trim() === "")
    throw badRequest([
      { location: "body.search", message: "must not be blank", fix: "leave it out, or say what to find" },
    ]);
  const given = SELECTING.filter((name) => request[name] !== undefined);
  if (given.length > 0 && (request.keyIds === undefined || given.length === 1)) return;
  const message = "must select keys: by keyIds alone, or by at least one of the filters of searchKeys";
  throw badRequest([{ location: "body", message, fix: `give one of ${SELECTING.join(", ")}` }]);
}

async function select(
  context: Context,
  keyIds: ChangeKeysRequestBody["keyIds"],
  filter: SearchKeysRequestBody,
): Promise<{ readonly ids: readonly string[]; readonly pagination: SearchPage<KeyChange>["pagination"] }> {
  if (keyIds !== undefined) {
    const ids = [...new Set(keyIds)];
    return { ids, pagination: { hasMore: false, searched: ids.length } };
  }
  const { data, pagination } = await searchKeys.act(context, { limit: 100, ...filter });
  return { ids: data.map(({ keyId }) => keyId), pagination };
}

/** The key of each id; `undefined`: it is not there, or not for this caller. */
async function readChangeable(
  context: Context,
  action: Action,
  ids: readonly string[],
): Promise<readonly (KeyRow | undefined)[]> {
  const { workspaceId, caller } = context;
  const keys = await readRows(context, "keys", ids);
  const apis = await readApisOf(context, [...keys.values()]);
  return ids.map((keyId) => {
    const row = keys.get(keyId);
    if (row === undefined || row.workspaceId !== workspaceId || row.deleted) return undefined;
    const mayChange = caller?.may(ACTIONS[action], { type: "api", id: row.apiId, keyId }) ?? true;
    return mayChange && apis.get(row.apiId)?.deleted === false ? row : undefined;
  });
}

/** The row as it will be; `undefined`: it is so already. */
function edited(context: Context, before: KeyRow, action: Action): KeyRow | undefined {
  const row: Mutable<KeyRow> = { ...before, updatedAt: context.now };
  if (action === "delete") hide(context, row);
  else if (before.enabled === (action === "enable")) return undefined;
  else row.enabled = action === "enable";
  return row;
}

const isChanged = ({ outcome }: KeyChange): boolean => outcome === "changed";

/**
 * Changes all keys that a request of `changeKeys` selects, batch after batch. Each batch is made once it is asked for,
 * and has the cursor with which a later call goes on. Keys that a filter selects are looked for again until none is
 * left to change, since one that is rotated meanwhile has a replacement: the later batches name only what they changed.
 * @throws (rejects) as `changeKeys` · KeystileError STORE_BUSY: others kept making keys that fit, and some may be left
 * @example
 * let done = 0;
 * for await (const { data } of changeAllKeys(keyring, { externalId: "acme", action: "disable" })) done += data.length;
 */
export async function* changeAllKeys(
  keyring: { changeKeys(body: ChangeKeysRequestBody): Promise<SearchPage<KeyChange>> },
  body: ChangeKeysRequestBody,
): AsyncGenerator<SearchPage<KeyChange>> {
  if (body.dryRun === true || body.keyIds !== undefined) {
    yield* batches(keyring, body);
    return;
  }
  const { cursor, ...whole } = body;
  async function* pass(n: number): AsyncGenerator<SearchPage<KeyChange>> {
    for await (const page of batches(keyring, n === 0 ? body : whole))
      if (n === 0) yield page;
      else if (page.data.some(isChanged)) yield { ...page, data: page.data.filter(isChanged) };
  }
  // What is before the cursor was not looked at.
  yield* repeatPasses(pass, ({ data }, n) => (n === 0 && cursor !== undefined) || data.some(isChanged));
}

async function* batches(
  keyring: Parameters<typeof changeAllKeys>[0],
  body: ChangeKeysRequestBody,
): AsyncGenerator<SearchPage<KeyChange>> {
  for (let next: Pick<ChangeKeysRequestBody, "cursor"> = {}; ;) {
    const page = await keyring.changeKeys({ ...body, ...next });
    yield page;
    const { cursor } = page.pagination;
    if (cursor === undefined) return;
    next = { cursor };
  }
}
