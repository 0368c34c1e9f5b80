/**
 * The judge of the store: every call that reached it, with its result, must move credits as the equation allows. It knows each account's
 * next balance from the call alone and compares it with the balance in the store, read beside the calls.
 */
import type {
  CountedBalance,
  CreditChange,
  Draw,
  DrawRequest,
  KeyRef,
  KeyRow,
  NewKey,
  Spend,
  Store,
  Write,
} from "../../src/contracts/store.js";
import { Account, MAX } from "./account.js";
import { must } from "./violation.js";

/** The client that made a call: it answers for what it took. */
export interface Taker {
  /** Credits left the balance for this client, or came back from it. @param isLost the client was told of a failure */
  took(keyId: string, generation: number, credits: number, isLost: boolean): void;
  gaveBack(keyId: string, generation: number, credits: number): void;
}

/** Calls that credits move by. */
export const JUDGED = new Set(["spendCredits", "drawCredits", "returnCredits", "readBalance", "write", "insertKeys"]);

export class Ledger {
  readonly accounts = new Map<string, Account>();
  readonly #keyIds = new Map<KeyRef, string>();

  /** @param probe reads the store beside the calls that are judged */
  constructor(readonly probe: Store) {}

  /** Judges a call that reached the store. */
  note(taker: Taker, method: string, given: readonly unknown[], result: unknown, isLost: boolean): void {
    if (method === "spendCredits") {
      const [ref, cost, , now] = given as [KeyRef, number, number, number];
      this.#spend(taker, this.#accountOf(ref), cost, now, result as Spend | undefined, isLost);
    } else if (method === "drawCredits") {
      const [ref, request] = given as [KeyRef, DrawRequest];
      this.#draw(taker, this.#accountOf(ref), request, result as Draw | undefined, isLost);
    } else if (method === "returnCredits") {
      const [ref, holder, generation, unspent] = given as [KeyRef, string, number, number];
      this.#return(taker, this.#accountOf(ref), holder, generation, unspent);
    } else if (method === "readBalance") {
      const [keyId, period, now] = given as [string, number, number];
      this.#read(this.accounts.get(keyId), period, now, result as CountedBalance | undefined);
    } else if (method === "insertKeys") {
      (given[0] as readonly NewKey[]).forEach((key, i) => (result as boolean[])[i] === true && this.#insert(key));
    } else if (method === "write" && result === true) {
      this.#write(given[0] as readonly Write[]);
    }
  }

  /** Compares every account with the store, and adds every account up. */
  close(): void {
    for (const account of this.accounts.values()) {
      this.#compare(account);
      account.assertConserved();
    }
  }

  keyIdOf(ref: KeyRef): string | undefined {
    return this.#keyIds.get(ref);
  }

  #accountOf(ref: KeyRef): Account | undefined {
    return this.accounts.get(this.#keyIds.get(ref) ?? String(ref));
  }

  #insert({ row, balance }: NewKey): void {
    const account = new Account(row.id, row, balance);
    this.#add(account, row);
    this.#compare(account, "credited");
  }

  #add(account: Account, row: KeyRow): void {
    this.accounts.set(row.id, account);
    const { digest, migrationId = "", foreignDigest = "" } = row;
    const found = digest === undefined ? undefined : sync(this.probe.findKey(digest));
    const ref = (found ?? sync(this.probe.findForeignKey(migrationId, foreignDigest)))?.ref;
    if (ref !== undefined) this.#keyIds.set(ref, row.id);
  }

  #spend(
    taker: Taker,
    account: Account | undefined,
    cost: number,
    now: number,
    result: Spend | undefined,
    isLost: boolean,
  ): void {
    if (account === undefined || result === undefined || result.stale === true) {
      if (account?.exists === true) this.#compare(account);
      return;
    }
    const { keyId, limited, exists } = account;
    must(exists, "spent", () => `${keyId}: a spend after the key was removed`);
    if (!limited || result.remaining === null) {
      must(!limited && result.ok && result.remaining === null, "spent", () => `${keyId}: not a spend without limit`);
      return;
    }
    const there = account.remaining + account.due(now);
    const expired = account.reserved(now);
    if (cost === 0) {
      const shown = Math.min(MAX, there + expired);
      must(result.remaining === shown, "balance", () => `${keyId}: ${result.remaining} shown where ${shown} are`);
    } else if (result.ok) {
      const covered = cost <= there ? there : Math.min(MAX, account.remaining + expired) + account.due(now);
      must(cost <= covered, "spent", () => `${keyId}: ${cost} taken where ${covered} were`);
      if (cost > there) account.sweep(now);
      account.count(now);
      account.remaining -= cost;
      account.sums.spent += BigInt(cost);
      taker.took(keyId, account.generation, cost, isLost);
      const left = account.remaining;
      must(result.remaining === left, "spent", () => `${keyId}: ${result.remaining} answered where ${left} are left`);
    } else {
      must(cost > there + expired, "refused", () => `${keyId}: ${cost} refused where ${there} + ${expired} were`);
      // What is refused may take expired reserves back or leave them.
      if (expired > 0 && this.#raw(keyId)?.reserved === account.reserved() - expired) account.sweep(now);
    }
    this.#compare(account, "spent");
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
    const { keyId } = account;
    const { holder, cost, step, size, now, until } = request;
    const { drawn } = result;
    account.sweep(now, holder);
    account.count(now);
    const own = account.reserves.get(holder);
    account.reserves.delete(holder);
    // With its own reserve it may be more than a balance may be, and more than a number holds exactly.
    const total = BigInt(account.remaining) + BigInt(own?.generation === account.generation ? own.credits : 0);
    const free = Number(total);
    if (drawn === 0) must(cost > free, "refused", () => `${keyId}: a draw of ${cost} refused where ${free} were`);
    else {
      const fits = drawn >= cost && drawn <= Math.max(cost, step) && drawn <= free;
      must(fits, "spent", () => `${keyId}: ${drawn} drawn for ${cost} or ${step} where ${free} were`);
    }
    const rest = total - BigInt(drawn);
    account.sums.drawn += BigInt(drawn);
    taker.took(keyId, account.generation, drawn, isLost);
    const reserved = (this.#raw(keyId)?.reserved ?? 0) - account.reserved();
    const fits = reserved >= 0 && reserved <= rest && (drawn === 0 || drawn + reserved <= Math.max(size, drawn));
    must(fits, "reserved", () => `${keyId}: ${reserved} reserved with ${drawn} drawn of ${size}`);
    account.remaining = Number(rest - BigInt(reserved));
    account.reserves.set(holder, { credits: reserved, until, generation: account.generation });
    const left = Number(rest);
    must(result.remaining === left, "reserved", () => `${keyId}: ${result.remaining} answered where ${left} are left`);
    this.#compare(account, "reserved");
  }

  #return(taker: Taker, account: Account | undefined, holder: string, generation: number, unspent: number): void {
    if (account === undefined) return;
    taker.gaveBack(account.keyId, generation, unspent);
    if (!account.exists) return;
    if (account.limited && generation === account.generation) {
      const own = account.reserves.get(holder);
      const reserve = own?.generation === generation ? own.credits : 0;
      if (own?.generation === generation) account.reserves.delete(holder);
      account.sums.returned += BigInt(unspent);
      account.giveBack(unspent + reserve);
    }
    this.#compare(account, "returned");
  }

  #read(account: Account | undefined, period: number, now: number, result: CountedBalance | undefined): void {
    if (account?.exists !== true || result === undefined) return;
    const { keyId } = account;
    if (!account.limited || result.remaining === null) {
      must(!account.limited && result.remaining === null, "balance", () => `${keyId}: shown ${result.remaining}`);
      return;
    }
    // Of another calendar nothing is counted.
    const isCounted = calendarOf(period) === calendarOf(result.period);
    const there = account.remaining + (isCounted ? account.due(now) : 0);
    const shown = Math.min(MAX, there + account.reserved(now));
    const reserved = account.reserved() - account.reserved(now);
    must(
      result.remaining === shown && result.reserved === reserved,
      "balance",
      () => `${keyId}: ${result.remaining} and ${result.reserved} shown where ${shown} and ${reserved} are`,
    );
  }

  #write(writes: readonly Write[]): void {
    const rows = writes.flatMap((write) => (write.table === "keys" && "row" in write ? [write] : []));
    for (const { row, credits } of rows) {
      if (row.version === 0) this.#made(row, credits, rows.find((other) => other.row.id !== row.id)?.row.id);
      else if (credits !== undefined) this.#change(row, credits);
    }
    for (const write of writes) {
      if (write.table !== "keys" || !("remove" in write)) continue;
      const account = this.accounts.get(write.remove);
      if (account === undefined) continue;
      if (account.limited) account.sums.forfeited += account.total();
      account.exists = false;
    }
  }

  /** A key that another is replaced by: it begins with what that one has at this moment. */
  #made(row: KeyRow, credits: CreditChange | undefined, originId: string | undefined): void {
    const account = new Account(row.id, row, undefined);
    const origin = this.accounts.get(originId ?? "");
    this.#add(account, row);
    if (credits === undefined) return this.#compare(account, "copied");
    const raw = this.#raw(row.id);
    const copied = origin?.limited === true && origin.exists ? origin.remaining + origin.due(row.createdAt) : 0;
    must(raw?.remaining === copied, "copied", () => `${row.id}: begins with ${raw?.remaining} where ${copied} were`);
    account.limited = true;
    account.generation = row.generation;
    account.remaining = copied;
    account.sums.credited = BigInt(copied);
    if (origin !== undefined) account.follow(origin, row.refill, row.createdAt);
  }

  #change(row: KeyRow, change: CreditChange): void {
    const account = this.accounts.get(row.id);
    if (account === undefined) return;
    const { sums } = account;
    account.count(row.updatedAt ?? row.createdAt);
    if (change.remaining !== undefined) {
      if (account.limited) sums.adjusted -= account.total();
      account.generation++;
      account.reserves.clear();
      account.limited = change.remaining !== null;
      account.remaining = change.remaining ?? 0;
      sums.adjusted += BigInt(account.remaining);
    }
    if (change.add !== undefined && account.limited) {
      const sum = Math.min(MAX, Math.max(0, account.remaining + change.add));
      sums.adjusted += BigInt(sum - account.remaining);
      account.remaining = sum;
    }
    if (change.refill?.period !== undefined) account.recount(row.refill, row.refillCursor ?? row.createdAt);
    else if (change.refill !== undefined) account.reprice(row.refill);
    this.#compare(account, "adjusted");
  }

  /** The balance as it is stored, nothing counted. */
  #raw(keyId: string): CountedBalance | undefined {
    return sync(this.probe.readBalance(keyId, 0, -1));
  }

  #compare(
    account: Account,
    clause: "balance" | "credited" | "spent" | "reserved" | "returned" | "adjusted" | "copied" = "balance",
  ): void {
    const { keyId, exists, limited, remaining } = account;
    const raw = this.#raw(keyId);
    if (!exists || raw === undefined) {
      must(!exists && raw === undefined, "balance", () => `${keyId}: ${exists ? "is gone" : "is still there"}`);
      return;
    }
    if (!limited) return must(raw.remaining === null, clause, () => `${keyId}: has ${raw.remaining}, not unlimited`);
    const isSound = raw.remaining !== null && raw.remaining >= 0 && raw.remaining <= MAX && raw.reserved >= 0;
    must(isSound, "balance", () => `${keyId}: a balance of ${raw.remaining} and ${raw.reserved} reserved`);
    must(
      raw.remaining === remaining && raw.reserved === account.reserved(),
      clause,
      () => `${keyId}: has ${raw.remaining} and ${raw.reserved} reserved, not ${remaining} and ${account.reserved()}`,
    );
  }
}

const calendarOf = (period: number): number => Math.floor(period / 1_000_000_000);

/** What the probe returns is at hand: no other connection holds a lock between two steps. */
function sync<T>(value: T | Promise<T>): T {
  if (value instanceof Promise) throw new TypeError("the probe had to wait");
  return value;
}
