/**
 * The one way for an operation to change rows: each change that was written makes an entry of the audit trail.
 *
 * Why here and not in the operations: none can forget it, and a store that keeps the trail gets the entry with the
 * change, to write both in one step.
 */
import type { AuditChange, AuditEntry } from "../contracts/audit.js";
import { KeystileError } from "../contracts/errors.js";
import { fieldsThat } from "../contracts/key-fields.js";
import { withCredits } from "../contracts/row-changes.js";
import type {
  CreditChange,
  NewKey,
  OnceRefusal,
  Rows,
  Table,
  Store,
  Write,
  WriteOutcome,
  WrittenBalance,
} from "../contracts/store.js";
import type { Json, MaybePromise } from "../contracts/types.js";
import { ownOnly } from "../lib/check-options.js";
import { requirePower } from "../lib/guards/powers.js";
import { full, mismatch } from "../lib/once.js";
import { NAME_OF } from "../lib/row-name.js";
import { isThenable } from "../lib/thenable.js";
import { type Context, updateWithRetry } from "./context.js";

/** A row to insert: its version is 0. */
type NewRow = Extract<Write, { readonly row: unknown }>;

/**
 * @param what the row in words, for the message
 * @throws KeystileError CONFLICT: its name is taken
 */
export async function insertNamed(context: Context, row: NewRow, what: string): Promise<void> {
  await updateWithRetry(context, row.row.id, async () => ((await writeRows(context, [row], what)) ? row : undefined));
}

/**
 * Writes rows that were read for it. `undefined`: another writer came between, so read them again (store clause 13).
 * @param what whose name may be taken, in words, for the message
 * @returns the balances that it left, of each row with `credits`
 * @throws KeystileError CONFLICT: a name is taken; reading again would not help
 */
export async function writeRows(
  context: Context,
  writes: readonly Write[],
  what = NAME,
): Promise<readonly WrittenBalance[] | undefined> {
  const outcome = await write(context, writes);
  if (outcome === "taken") throw taken(what);
  return outcome === "conflict" ? undefined : outcome === "written" ? [] : outcome;
}

const NAME = "Another with this name or digest";

/** CONFLICT: the name exists. @param what the row in words, for the message */
export function taken(what: string): KeystileError {
  return new KeystileError("CONFLICT", `${what} exists already`);
}

/** Outcome of {@link write}. */
export type Written = Exclude<WriteOutcome, OnceRefusal>;

/**
 * `write` of the store (store clause 13), and the entry of what was written. Writes that change nothing are neither
 * made nor recorded, unless they are under an idempotency key: the answer is `written`. Notes in the context that
 * something was written, or that it was before: then the answer is `written` too.
 * @throws KeystileError IDEMPOTENCY_MISMATCH · IDEMPOTENCY_FULL
 */
export async function write(context: Context, writes: readonly Write[]): Promise<Written> {
  const { unaudited, audit, once } = context;
  requireRollover(context, writes);
  const changed: Changed = { fields: new Set(), changes: new Map() };
  const changing: Write[] = [];
  for (const write of writes) if (await addChanges(unaudited, write, changed)) changing.push(write);
  // A change of credits by 0 counts due refills and returns expired reserves.
  if (changing.length === 0 && once === undefined && !writes.some((write) => "credits" in write)) return "written";
  const isKept = unaudited.powers.audit === true;
  const isTold = changing.length > 0 && (audit.queue !== undefined || isKept);
  const entry =
    isTold && describe(context, { ...touched(changing), ...(await tellChanges(unaudited, changed, changing)) });
  // All of them, where one changes something: the others guard the versions of their rows.
  const entries = isKept && entry ? [[entry]] : [];
  const outcome = await (once ? unaudited.write(writes, entries[0], once) : unaudited.write(writes, ...entries));
  if (outcome === "conflict" || outcome === "taken") return outcome;
  if (outcome === "mismatch") throw mismatch();
  if (outcome === "full") throw full();
  if (outcome === "repeated") {
    context.progress.isRepeated = true;
    return "written";
  }
  context.progress.hasWritten = true;
  if (entry) audit.queue?.emit(outcome === "written" ? entry : withCredits(entry, writes, outcome));
  return outcome;
}

/** @throws KeystileError STORE_POWER_MISSING: credits are to expire, and the store would let them stay */
function requireRollover({ unaudited }: Context, writes: readonly object[]): void {
  const rollsOver = (given: { row?: { refill?: { rollover?: number } } }) => given.row?.refill?.rollover !== undefined;
  if (unaudited.powers.rollover !== true && writes.some(rollsOver))
    requirePower(unaudited, "rollover", "a refill with a rollover");
}

/** `insertKeys` of the store, and one entry for all that were inserted. */
export function insertKeys(context: Context, keys: readonly NewKey[]): MaybePromise<boolean[]> {
  const { unaudited, audit } = context;
  requireRollover(context, keys);
  const isKept = unaudited.powers.audit === true;
  const isTold = audit.queue !== undefined || isKept;
  const entry =
    isTold && describe(context, { ids: idsOfNew(keys), fields: [], count: keys.length, ...creditsOfNew(keys) });
  const emit = (inserted: boolean[]): boolean[] => {
    const count = inserted.filter(Boolean).length;
    if (count > 0) context.progress.hasWritten = true;
    if (count > 0 && entry) audit.queue?.emit({ ...entry, count });
    return inserted;
  };
  const answer = isKept && entry ? unaudited.insertKeys(keys, entry) : unaudited.insertKeys(keys);
  return isThenable(answer) ? Promise.resolve(answer).then(emit) : emit(answer);
}

function describe(
  { clock, workspaceId, operation, audit, reason }: Context,
  what: Pick<AuditEntry, "ids" | "fields" | "changes" | "count" | "credits">,
): AuditEntry {
  return {
    ...{ time: clock(), workspaceId, ...audit.actor, operation, ...what },
    ...(reason !== undefined && { reason }),
  };
}

/** Of one key its first balance, which nobody can have changed before. */
function creditsOfNew([first, second]: readonly NewKey[]): Pick<AuditEntry, "credits"> {
  if (first?.balance === undefined || second !== undefined) return {};
  const { remaining } = first.balance;
  return { credits: { added: remaining, remaining } };
}

/** Ids per entry, so that an entry is bounded; `count` tells how many there were. */
const MAX_IDS = 100;

function touched(writes: readonly Write[]): Pick<AuditEntry, "ids" | "count"> {
  const ids = new Set(
    writes.flatMap((write) => ("remove" in write ? write.remove : [...ownerOf(write), write.row.id])),
  );
  return { ids: [...ids].slice(0, MAX_IDS), count: Math.max(writes.length, ids.size) };
}

/** Whose a grant is: the entry is of its owner too, also where the owner's row stays as it is. */
function ownerOf(write: Extract<Write, { readonly row: unknown }>): readonly string[] {
  if (write.table !== "grants") return [];
  const { identityId, accountId } = write.row;
  return [identityId, accountId].filter((id) => id !== undefined);
}

/** Of an import the migration and the API: a row for each of its keys would be as large as the import. */
function idsOfNew(keys: readonly NewKey[]): readonly string[] {
  const { id, apiId, migrationId } = (keys[0] as NewKey).row;
  return migrationId === undefined ? [id] : [migrationId, apiId];
}

/** Fields that follow from others. Those of other rows that have such a name do too. */
const INTERNAL: ReadonlySet<string> = new Set(fieldsThat({ audit: "never" }));
const CREDITS: ReadonlySet<string> = new Set(fieldsThat({ audit: "credits" }));
/** Fields whose values an entry says. Of all others, new ones too, it says that they changed. */
const TOLD: ReadonlySet<string> = new Set([
  ...["name", "description", "enabled", "expires", "ipAllowlist", "ratelimits", "limit", "duration", "refill"],
  ...["identityId", "permissions", "roles", "rerolledTo"],
]);
/** Fields whose values are ids of rows that have names. */
const NAMED = { identityId: "identities", permissions: "permissions", roles: "roles" } as const;
/** Characters of JSON of the values of one entry. */
const MAX_CHANGES = 2_000;
/** Fields that differ in a row that was read, written back and not changed. */
const TOUCHED: ReadonlySet<string> = new Set(["version", "updatedAt", "lastUsedAt"]);

/** What writes change. */
interface Changed {
  readonly fields: Set<string>;
  /** By table and field, with how many rows changed so; undefined: too long, or not the same in all of them. */
  readonly changes: Map<string, { readonly change: AuditChange | undefined; readonly rows: number }>;
}

/** The names of the changed fields; of fields in {@link TOLD} also the old and the new value. */
async function tellChanges(
  store: Pick<Store, "readMany">,
  { fields, changes }: Changed,
  writes: readonly Write[],
): Promise<Pick<AuditEntry, "fields" | "changes">> {
  const told: AuditChange[] = [];
  for (const [of, { change, rows }] of [...changes].sort(([a], [b]) => (a < b ? -1 : 1))) {
    // Of a row that was made, or changed in other fields, it would not be true.
    if (rows < writes.filter((write) => "row" in write && of.startsWith(`${write.table} `)).length) continue;
    const named = change && (await withNames(store, change));
    if (named !== undefined && isShort([...told, named])) told.push(named);
  }
  return { fields: [...fields].sort(), ...(told.length > 0 && { changes: told }) };
}

const isShort = (told: unknown): boolean => JSON.stringify(told).length <= MAX_CHANGES;

/** With names in place of ids, where the rows are still there. */
async function withNames(store: Pick<Store, "readMany">, change: AuditChange): Promise<AuditChange> {
  const { field, ...values } = change;
  if (!Object.hasOwn(NAMED, field)) return change;
  const table = NAMED[field as keyof typeof NAMED];
  const rows: readonly (Rows[typeof table] | undefined)[] = await store.readMany(
    table,
    Object.values(values).flat() as string[],
  );
  const names = new Map(rows.flatMap((row) => (row === undefined ? [] : [[row.id, NAME_OF[table](row as never)]])));
  const nameOf = (id: Json): Json => names.get(id as string) ?? id;
  const named = Object.entries(values).map(([which, value]): [string, Json] => [
    which,
    Array.isArray(value) ? (value as Json[]).map(nameOf) : nameOf(value),
  ]);
  return { field, ...(Object.fromEntries(named) as Omit<AuditChange, "field">) };
}

/**
 * Adds what a write changes. Compared with the row that the store has: the write is made only
 * if the row still has the version that was read for it, so that this is the row that it changes.
 * @returns false: the write changes nothing
 */
async function addChanges(store: Pick<Store, "readMany">, write: Write, changed: Changed): Promise<boolean> {
  if ("remove" in write || write.row.version === 0) return true;
  const { table, row, credits } = write;
  const [before] = await store.readMany(table, [row.id]);
  const changesCredits = credits !== undefined && !addsNothing(credits);
  if (changesCredits) changed.fields.add("credits");
  // The store will refuse the write.
  if (before?.version !== row.version) return true;
  return addChanged(changed, table, before, row) || changesCredits;
}

function addsNothing({ add, remaining, refill }: CreditChange): boolean {
  return add === 0 && remaining === undefined && refill === undefined;
}

function addChanged({ fields, changes }: Changed, table: Table, before: object, after: object): boolean {
  const [old, now] = [before, after].map((row) => ownOnly(row) as Record<string, unknown>) as [
    Record<string, unknown>,
    Record<string, unknown>,
  ];
  let isChanged = false;
  for (const name of new Set([...Object.keys(old), ...Object.keys(now)])) {
    if (TOUCHED.has(name) || JSON.stringify(old[name]) === JSON.stringify(now[name])) continue;
    isChanged = true;
    if (!INTERNAL.has(name)) fields.add(CREDITS.has(name) ? "credits" : name);
    if (!TOLD.has(name)) continue;
    const change = changeOf(name, old[name], now[name]);
    const of = `${table} ${name}`;
    const { change: other, rows } = changes.get(of) ?? { change, rows: 0 };
    const isSame = JSON.stringify(other) === JSON.stringify(change);
    changes.set(of, { change: isSame && isShort(change) ? change : undefined, rows: rows + 1 });
  }
  return isChanged;
}

/** Of a list what it lost and gained, without the ids of limits; of all else what it was and is. */
function changeOf(field: string, old: unknown, now: unknown): AuditChange {
  // An identity that is enabled lacks the field.
  const [from, to] = field === "enabled" ? [old ?? true, now ?? true] : [old, now];
  if (!Array.isArray(from) && !Array.isArray(to))
    return { field, ...(from !== undefined && { from }), ...(to !== undefined && { to }) } as AuditChange;
  const items = (list: unknown) =>
    ((list ?? []) as unknown[]).map((item) =>
      JSON.stringify(item, (name, value: unknown) => (name === "id" ? undefined : value)),
    );
  const [had, has] = [new Set(items(from)), new Set(items(to))];
  const only = (some: ReadonlySet<string>, others: ReadonlySet<string>) =>
    [...some].filter((item) => !others.has(item)).map((item) => JSON.parse(item) as Json);
  const [removed, added] = [only(had, has), only(has, had)];
  return { field, ...(removed.length > 0 && { removed }), ...(added.length > 0 && { added }) };
}
