/**
 * The judge of the store: every call that reached it, with its result, must move credits as the equation allows. It
 * knows each account's next balance from the call alone and compares it with the balance in the store, read beside the
 * calls.
 */
import type {
  BalanceQuery,
  CountedBalance,
  CreditChange,
  CreditRow,
  Draw,
  DrawRequest,
  IdentityRow,
  KeyRecord,
  KeyRef,
  KeyRow,
  LeaseReturn,
  NewKey,
  ReservationRequest,
  Reserve,
  Settlement,
  SettleRequest,
  Spend,
  Store,
  WalletSpend,
  Write,
} from "../../src/contracts/store.js";
import { boundaryOf } from "../../src/credits/refill-calendar.js";
import { Account, assertEquation, MAX } from "./account.js";
import { type Clause, must } from "./violation.js";

/** The client that made a call: it answers for what it took. */
export interface Taker {
  /** A spend took credits. @param isLost the client was told of a failure */
  took(accountId: string, credits: number, isLost: boolean): void;
  /** A draw took credits for a lease. */
  drew(accountId: string, holder: string, credits: number, isLost: boolean): void;
  /** A lease has ended, with so much spent since it began. */
  ended(accountId: string, lease: LeaseReturn): void;
}

/** A call that reached the store, and its result. */
export interface Note {
  readonly method: string;
  readonly given: readonly unknown[];
  readonly result: unknown;
  /** The client was told of a failure. */
  readonly isLost: boolean;
}

/** Calls that credits move by. */
export const JUDGED = new Set([
  "spendCredits",
  "reserveCredits",
  "settleCredits",
  "drawCredits",
  "returnCredits",
  "readBalances",
  "write",
  "insertKeys",
]);

export class Ledger {
  readonly accounts = new Map<string, Account>();
  readonly #accountIds = new Map<string, string>();
  readonly #byRef = new Map<KeyRef, Account>();

  /** The latest time of a call that reserves: the store may have forgotten what ended an hour before. */
  #latest = 0;

  /** Accounts to compare once all the calls of one statement are judged. */
  #deferred: Map<Account, Clause> | undefined;

  /** @param probe reads the store beside the calls that are judged */
  constructor(readonly probe: Store) {}

  /** Judges calls that reached the store as one: it shows what all of them left. */
  noteAll(taker: Taker, notes: readonly Note[]): void {
    const deferred = new Map<Account, Clause>();
    this.#deferred = deferred;
    try {
      for (const { method, given, result, isLost } of notes)
        if (JUDGED.has(method)) this.note(taker, method, given, result, isLost);
    } finally {
      this.#deferred = undefined;
    }
    for (const [account, clause] of deferred) this.#compare(account, clause);
  }

  /** Judges a call that reached the store. */
  note(taker: Taker, method: string, given: readonly unknown[], result: unknown, isLost: boolean): void {
    if (method === "spendCredits" || method === "reserveCredits") {
      const [ref, first, request, time] = given as [KeyRef, number, number | Reserve, number];
      const { cost, now, reservation }: WalletSpend =
        typeof request === "object" ? request : { cost: first, now: time };
      const account = this.#byRef.get(ref);
      this.#spend(taker, account, cost, now, result as Spend | undefined, isLost, reservation);
      if (reservation !== undefined) this.#latest = Math.max(this.#latest, now);
    } else if (method === "settleCredits") {
      const [ref, request] = given as [KeyRef, SettleRequest];
      this.#settle(taker, this.#byRef.get(ref), request, result as Settlement, isLost);
    } else if (method === "drawCredits") {
      const [ref, request] = given as [KeyRef, DrawRequest];
      this.#draw(taker, this.#byRef.get(ref), request, result as Draw | undefined, isLost);
    } else if (method === "returnCredits") {
      const [ref, lease] = given as [KeyRef, LeaseReturn];
      this.#end(taker, this.#byRef.get(ref), lease);
    } else if (method === "readBalances") {
      const [queries, now] = given as [readonly BalanceQuery[], number];
      queries.forEach(({ keyId, identityId = "", period }, i) => {
        const account = keyId === undefined ? this.accounts.get(identityId) : this.#accountOf(keyId);
        this.#read(account, period, now, (result as (CountedBalance | undefined)[])[i]);
      });
    } else if (method === "insertKeys") {
      (given[0] as readonly NewKey[]).forEach((key, i) => (result as boolean[])[i] === true && this.#insert(key));
    } else if (method === "write" && !["conflict", "taken"].includes(result as string)) {
      this.#write(given[0] as readonly Write[]);
    }
  }

  /** The account that a key has or had. */
  idOf(keyId: string): string {
    return this.#accountIds.get(keyId) ?? keyId;
  }

  /** The account of what a client spends of. */
  idOfRef(ref: KeyRef): string {
    return this.#byRef.get(ref)?.id ?? String(ref);
  }

  /** The account that a key draws on by its record; `undefined`: its credits are unlimited. */
  sourceOf({ keyId, hasCredits, creditsFrom, identity }: KeyRecord): string | undefined {
    if (!hasCredits) return undefined;
    return creditsFrom === "identity" ? identity!.id : this.idOf(keyId);
  }

  /** Learns where the credits of an identity are: by the record of a key that draws on them. */
  learn({ creditsFrom, identity, account }: KeyRecord): void {
    const known = creditsFrom === "identity" ? this.accounts.get(identity!.id) : undefined;
    if (known !== undefined) this.#byRef.set(account!.ref, known);
  }

  /** A verification was answered that it took this. */
  acknowledge(accountId: string, cost: number): void {
    const account = this.accounts.get(accountId);
    if (account === undefined) return;
    account.acknowledged += BigInt(cost);
    account.assertConserved();
  }

  /** Compares every account with the store, and adds every account up. */
  close(): void {
    for (const account of this.accounts.values()) this.#compare(account);
  }

  /**
   * Once every lease has ended: what was answered is spent, and nothing else is.
   * @param excuseOf credits of an account that may be spent without an answer; `undefined`: answered and not counted
   *   too
   */
  assertSettled(excuseOf: (accountId: string) => number | undefined): void {
    for (const { id, exists, sums, acknowledged, forgotten } of this.accounts.values()) {
      const excuse = excuseOf(id);
      // What was drawn from a key that is gone is void, and told to nobody.
      if (!exists || excuse === undefined) continue;
      const over = sums.spent - acknowledged;
      must(
        over >= -forgotten && over <= excuse,
        "counted",
        () => `${id}: ${acknowledged} acknowledged, ${sums.spent} spent; ${forgotten} forgotten, ${excuse} excused`,
      );
    }
  }

  #accountOf(keyId: string): Account | undefined {
    return this.accounts.get(this.idOf(keyId));
  }

  #insert({ row, balance }: NewKey): void {
    const account = new Account(row.id, row.refill, row.refillCursor ?? row.createdAt);
    account.generation = row.generation;
    if (balance !== undefined) account.credit(balance.remaining);
    this.accounts.set(row.id, account);
    this.#add(account, row);
    this.#compare(account, "credited");
  }

  #add(account: Account, row: KeyRow): void {
    account.ownerIds.add(row.id);
    this.#accountIds.set(row.id, account.id);
    const { digest, migrationId = "", foreignDigest = "" } = row;
    const found = digest === undefined ? undefined : sync(this.probe.findKey(digest));
    const record = found ?? sync(this.probe.findForeignKey(migrationId, foreignDigest));
    if (record === undefined) return;
    if (row.accountId === undefined) this.#byRef.set(record.ref, account);
    else if (record.creditsFrom === undefined) this.#byRef.set(record.account?.ref ?? record.ref, account);
  }

  #spend(
    taker: Taker,
    account: Account | undefined,
    cost: number,
    now: number,
    result: Spend | undefined,
    isLost: boolean,
    reservation: ReservationRequest | undefined,
  ): void {
    // A store that reserves nothing for leases takes reservations back first, whatever becomes of the call.
    if (account?.exists === true && !this.probe.powers.reserves && account.hasExpired(now)) account.sweep(now);
    if (account === undefined || result === undefined || result.stale === true) {
      if (account?.exists === true) this.#compare(account);
      return;
    }
    const { id: keyId, limited, exists } = account;
    must(exists, "spent", () => `${keyId}: a spend after the key was removed`);
    if (!limited || result.remaining === null) {
      must(!limited && result.ok && result.remaining === null, "spent", () => `${keyId}: not a spend without limit`);
      return;
    }
    const there = account.at(now, "counted").remaining;
    const shown = account.at(now, "counted", "swept").remaining;
    if (cost === 0) {
      must(result.remaining === shown, "balance", () => `${keyId}: ${result.remaining} shown where ${shown} are`);
    } else if (result.ok) {
      const covered = cost <= there ? there : shown;
      must(cost <= covered, "spent", () => `${keyId}: ${cost} taken where ${covered} were`);
      // Where it is covered, nothing is written of leases that have nothing to give back.
      if (cost > there || account.hasExpired(now)) account.sweep(now);
      account.count(now);
      if (reservation !== undefined) account.reserve(reservation.id, cost, reservation.until);
      else {
        account.spend(cost);
        taker.took(keyId, cost, isLost);
      }
      const left = account.remaining;
      must(result.remaining === left, "spent", () => `${keyId}: ${result.remaining} answered where ${left} are left`);
    } else {
      must(cost > shown, "refused", () => `${keyId}: ${cost} refused where ${shown} were`);
      // To find what expired leases reserve.
      if (this.probe.powers.reserves) account.sweep(now);
    }
    this.#compare(account, "spent");
  }

  #settle(
    taker: Taker,
    account: Account | undefined,
    { id, spent, now }: SettleRequest,
    result: Settlement,
    isLost: boolean,
  ): void {
    if (account?.exists !== true) {
      return must(!result.settled, "settled", () => `${id}: settled, and its account is gone`);
    }
    if (account.hasExpired(now)) account.sweep(now);
    const lease = account.leases.get(id);
    if (lease !== undefined) {
      const fits = result.settled ? spent <= lease.reserved : spent > lease.reserved && result.reason === "exceeds";
      must(fits, "settled", () => `${id}: ${JSON.stringify(result)} at ${spent} of ${lease.reserved}`);
    } else {
      const { how, until } = account.endings.get(id) ?? { how: "unknown", until: 0 };
      const isForgotten = !result.settled && result.reason === "unknown" && until <= this.#latest;
      const fits = isForgotten || (!result.settled && result.reason === how);
      must(fits, "settled", () => `${id}: ${JSON.stringify(result)} of one that is ${how}`);
    }
    if (result.settled) {
      account.settle(id, spent);
      taker.took(account.id, spent, isLost);
    }
    this.#compare(account, "settled");
  }

  #draw(
    taker: Taker,
    account: Account | undefined,
    request: DrawRequest,
    result: Draw | undefined,
    isLost: boolean,
  ): void {
    if (account === undefined || result === undefined || result.stale === true || !account.limited) {
      if (account?.exists === true) this.#compare(account);
      return;
    }
    const { id } = account;
    const { holder, cost, step, size, now, until, spent } = request;
    const { drawn } = result;
    const isVoid = (account.leases.get(holder)?.generation ?? account.generation) !== account.generation;
    if (isVoid) {
      must(drawn === 0, "spent", () => `${id}: ${drawn} drawn for a lease of an older balance`);
      return this.#compare(account, "reserved");
    }
    const before = account.leases.get(holder);
    const isOver = before !== undefined && before.rollovers !== account.at(now, "counted").rollovers;
    must(isOver === (result.ended === true), "reserved", () => `${id}: a draw under a lease of before a boundary`);
    if (isOver) {
      must(drawn === 0, "spent", () => `${id}: ${drawn} drawn for a lease of before a boundary`);
      return this.#compare(account, "reserved");
    }
    account.sweep(now, holder);
    account.count(now);
    const known = account.report(holder, spent);
    const own = known ?? { held: 0, reserved: 0, spent };
    account.leases.delete(holder);
    // With its own reserve it may be more than a balance may be, and more than a number holds exactly.
    const total = BigInt(account.remaining) + BigInt(own.reserved);
    const free = Number(total);
    if (drawn === 0) must(cost > free, "refused", () => `${id}: a draw of ${cost} refused where ${free} were`);
    else {
      const fits = drawn >= cost && drawn <= Math.max(cost, step) && drawn <= free;
      must(fits, "spent", () => `${id}: ${drawn} drawn for ${cost} or ${step} where ${free} were`);
    }
    const rest = total - BigInt(drawn);
    const held = own.held + drawn;
    taker.drew(id, holder, drawn, isLost);
    const out = () => BigInt(this.#raw(account)[0]?.reserved ?? 0);
    const reserved = this.probe.powers.reserves ? Number(out() - account.out() - BigInt(held)) : 0;
    const most = Math.max(0, size - drawn, own.reserved - drawn);
    const fits = reserved >= 0 && reserved <= rest && (drawn === 0 ? reserved === own.reserved : reserved <= most);
    must(fits, "reserved", () => `${id}: ${reserved} reserved with ${drawn} drawn of ${size}`);
    account.remaining = Number(rest - BigInt(reserved));
    if (known !== undefined || held > 0 || reserved > 0) {
      const { generation, rollovers } = account;
      const lease = { generation, rollovers, expires: until, reserved, held, spent: own.spent, isForfeited: false };
      account.leases.set(holder, lease);
    }
    const left = Math.min(MAX, Number(rest));
    must(result.remaining === left, "reserved", () => `${id}: ${result.remaining} answered where ${left} are left`);
    this.#compare(account, "reserved");
  }

  #end(taker: Taker, account: Account | undefined, lease: LeaseReturn): void {
    if (account === undefined) return;
    taker.ended(account.id, lease);
    if (!account.exists) return;
    account.end(lease.holder, lease.spent);
    this.#compare(account, "returned");
  }

  #read(account: Account | undefined, period: number, now: number, result: CountedBalance | undefined): void {
    if (account?.exists !== true || result === undefined) return;
    const { id } = account;
    if (!account.limited || result.remaining === null) {
      must(!account.limited && result.remaining === null, "balance", () => `${id}: shown ${result.remaining}`);
      return;
    }
    // Of another calendar nothing is counted.
    const isCounted = calendarOf(period) === calendarOf(result.period);
    const shown = account.at(now, "swept", ...(isCounted ? ["counted" as const] : [])).remaining;
    const reserved = account.out(now);
    must(
      result.remaining === shown && BigInt(result.reserved) === reserved,
      "balance",
      () => `${id}: ${result.remaining} and ${result.reserved} shown where ${shown} and ${reserved} are`,
    );
    assertEquation(id, result);
  }

  #write(writes: readonly Write[]): void {
    const rows = writes.flatMap((write) => (write.table === "keys" && "row" in write ? [write] : []));
    for (const { row, credits } of rows) {
      if (row.version === 0) this.#made(row, credits, rows.find((other) => other.row.rerolledTo === row.id)?.row);
      else if (credits !== undefined) this.#change(row, credits);
    }
    for (const write of writes) {
      if (write.table === "identities" && "row" in write) this.#writeIdentity(write.row, write.credits);
      if (!("remove" in write)) continue;
      const account = write.table === "identities" ? this.accounts.get(write.remove) : this.#accountOf(write.remove);
      account?.ownerIds.delete(write.remove);
      if (account?.exists === true) this.#compare(account);
    }
  }

  #writeIdentity(row: IdentityRow, credits: CreditChange | undefined): void {
    const known = this.accounts.get(row.id);
    const account = known ?? new Account(row.id, row.refill, row.refillCursor ?? 0, "identity");
    this.accounts.set(row.id, account);
    account.ownerIds.add(row.id);
    if (credits !== undefined) this.#changeAccount(account, row, boundaryOf(credits.period), credits);
  }

  /** A new key: one that replaces another has the account of that one. */
  #made(row: KeyRow, credits: CreditChange | undefined, origin: KeyRow | undefined): void {
    const shared = this.#accountOf(origin?.id ?? "");
    if (shared === undefined) {
      this.#insert({ row });
      if (credits !== undefined) this.#change(row, credits);
      return;
    }
    this.#add(shared, row);
    this.#compare(shared, "shared");
  }

  #change(row: KeyRow, change: CreditChange): void {
    const account = this.#accountOf(row.id);
    if (account !== undefined) this.#changeAccount(account, row, row.updatedAt ?? row.createdAt, change);
  }

  #changeAccount(account: Account, row: Partial<CreditRow>, now: number, change: CreditChange): void {
    const { remaining, now: at } = change;
    if (remaining === undefined && at !== undefined && account.hasExpired(at)) account.sweep(at);
    account.count(now);
    if (remaining !== undefined) account.set(remaining);
    if (change.add !== undefined && account.limited) account.add(change.add);
    if (change.refill?.period !== undefined) account.recount(row.refill, row.refillCursor ?? now);
    else if (change.refill !== undefined) account.reprice(row.refill);
    this.#compare(account, "adjusted");
  }

  /** The balance of each of its owners as it is stored, nothing counted. */
  #raw({ ownerIds, kind }: Account): (CountedBalance | undefined)[] {
    const queries = [...ownerIds].map((id): BalanceQuery =>
      kind === "key" ? { keyId: id, period: 0 } : { identityId: id, period: 0 },
    );
    return sync(this.probe.readBalances(queries, -1));
  }

  #compare(account: Account, clause: Clause = "balance"): void {
    if (this.#deferred !== undefined) {
      this.#deferred.set(account, clause);
      return;
    }
    for (const stored of this.#raw(account)) {
      must(stored !== undefined, "balance", () => `${account.id}: is gone`);
      account.assertStored(stored, clause);
    }
    account.assertConserved();
  }
}

const calendarOf = (period: number): number => Math.floor(period / 1_000_000_000);

/** What the probe returns is at hand: no other connection holds a lock between two steps. */
function sync<T>(value: T | Promise<T>): T {
  if (value instanceof Promise) throw new TypeError("the probe had to wait");
  return value;
}
