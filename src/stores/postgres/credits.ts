/**
 * Spends, draws and returns: each kind is one statement for the calls of one turn, and one in flight; two while an
 * account is locked.
 */
import type * as Port from "../../contracts/store.js";
import { assertDraw, assertReservation, assertReturn, assertSettle, assertSpend } from "../../credits/account.js";
import { assertRefs, assertWalletSpend } from "../../credits/wallet.js";
import { endedAs } from "../endings.js";
import type { CreditMethods } from "../powers.js";
import { assertRecord } from "../spend-once.js";
import { createAccountReads } from "./account-reads.js";
import { type Session, type Statement, writing } from "./client.js";
import { createContended } from "./groups.js";
import { spendAlone, spendWalletsAlone } from "./credits-alone.js";
import type { PostgresSettings } from "./options.js";
import { isStorable } from "./texts.js";

/** Most calls in one statement; of those with idempotency keys, of which each takes a lock of the server's table. */
const MAX_GROUP = 512;
const MAX_ONCE = 64;
/** Most calls on several accounts in one statement. */
const MAX_WALLETS = 128;
/** Milliseconds for which a statement waits for a lock that other calls wait for with it. */
const LOCK_MS = 100;
type Tuple = readonly [account: number, ...given: (number | string)[]];
/** As `spend_once_v1` reads it. Without an account the call takes nothing. */
interface OnceCall {
  readonly n?: number;
  readonly id: string;
}

/** As `spend_wallets_v1` reads it. */
interface WalletCall {
  readonly wallets: readonly (readonly (readonly [account: number, period: number, expires: number | null])[])[];
  readonly cost: number;
  readonly now: number;
  /** Of a reservation. */
  readonly id?: string | undefined;
  readonly until?: number | undefined;
  readonly once?: object;
}

/** As `settle_wallets_v1` reads it. */
interface SettleCall {
  readonly wallets: readonly (readonly number[])[];
}

const accountOfTuple = ([account]: Tuple): number => account;

export function createCredits(session: Session, { schema, durability, timeout }: PostgresSettings): CreditMethods {
  const lockMs = Math.min(LOCK_MS, timeout / 8);
  const accounts = createAccountReads(session, schema);
  const returned = async <O>(statement: Statement, ...values: string[]): Promise<O[]> => {
    const [row] = await session.run(statement, ...values);
    return JSON.parse(row?.["result"] as string) as O[];
  };
  const sending = <O>(call: string) => {
    const statement = writing(`${schema}.${call}$1, $2, $3::text::boolean)`, lockMs);
    return (calls: readonly unknown[], skips: boolean) =>
      returned<O>(statement, durability, JSON.stringify(calls), String(skips));
  };
  const grouped = <I, O>(call: string, accountOf: (item: I) => number | string, maxSize: number) =>
    createContended<I, O>(sending<O>(call), accountOf, { maxSize, timeout });
  const ofTuples = <O>(name: string) => grouped<Tuple, O>(`group_v1('${name}', `, accountOfTuple, MAX_GROUP);
  const together = sending<Port.Spend | null>("group_v1('spend_v1', ");
  const alone = spendAlone(schema, durability, lockMs);
  const spends = createContended<Tuple, Port.Spend | null>(
    (calls, skips) => {
      const [call] = calls as [Tuple, ...Tuple[]];
      const [, cost, , , reservation] = call;
      return calls.length > 1 || skips || cost === 0 || reservation !== undefined
        ? together(calls, skips)
        : returned(alone, ...call.map(String));
    },
    accountOfTuple,
    { maxSize: MAX_GROUP, timeout },
  );
  const draws = ofTuples<Port.Draw | null>("draw_v1");
  const ends = ofTuples<null>("end_leases_v1");
  const settles = ofTuples<Port.Settlement>("settle_reservations_v1");
  const recorded = grouped<OnceCall, Port.OnceSpend>("once_group_v1(", ({ n, id }) => n ?? id, MAX_ONCE);
  const findRecord: Statement = {
    isRead: true,
    text: `SELECT i.body FROM ${schema}.idempotency i WHERE i.id = $1 AND i.expires > $2::text::bigint`,
  };
  // Calls of many keys of an owner have its account in common, and it is of the last wallet.
  const ownerOf = ({ wallets }: WalletCall | SettleCall): number => [wallets.at(-1)?.[0] ?? 0].flat()[0] ?? 0;
  const walletsTogether = sending<Port.OnceSpend>("spend_wallets_v1(");
  const walletsAlone = spendWalletsAlone(schema, durability, lockMs);
  const spendsOfWallets = createContended<WalletCall, Port.OnceSpend>(
    (calls, skips) => {
      const [{ wallets, cost, now, id, once }] = calls as [WalletCall, ...WalletCall[]];
      if (calls.length > 1 || skips || id !== undefined || once !== undefined) return walletsTogether(calls, skips);
      const accounts = wallets.flatMap((wallet, place) => wallet.map((account) => [place, ...account] as const));
      const listed = (of: (account: (typeof accounts)[number]) => number | boolean) => `{${accounts.map(of).join()}}`;
      return returned(
        walletsAlone,
        listed(([, number]) => number),
        listed(([, , period]) => period),
        listed(([place]) => place),
        listed(([, , , expires]) => expires !== null && expires <= now),
        ...[cost, now].map(String),
        JSON.stringify(calls),
      );
    },
    ownerOf,
    { maxSize: MAX_WALLETS, timeout },
  );
  const settlesOfWallets = grouped<SettleCall, Port.Settlement>("settle_wallets_v1(", ownerOf, MAX_WALLETS);

  return {
    async spendCredits(ref: Port.KeyRef, cost: number, period: number, now: number) {
      assertSpend(cost, period, now);
      return typeof ref === "number" ? ((await spends([ref, cost, period, now])) ?? undefined) : undefined;
    },
    async spendOnce(ref, period, { cost, now, once: { record, bounds } }: Port.SpendOnce) {
      assertSpend(cost, period, now);
      assertRecord(record);
      const { reservation } = record;
      if (reservation !== undefined) assertReservation(reservation);
      const call = { cost, period, ...onceFields({ record, bounds, now }) };
      const reserve = reservation && { reserve: reservation.id, reserveUntil: reservation.until };
      return recorded({ ...call, ...reserve, ...(ref !== undefined && { n: typeof ref === "number" ? ref : 0 }) });
    },
    async findOnce(id, now) {
      if (!isStorable(id)) return undefined;
      const [row] = await session.run(findRecord, id, String(Math.floor(now)));
      return row?.["body"] as string | undefined;
    },
    async drawCredits(ref, request: Port.DrawRequest) {
      assertDraw(request);
      if (typeof ref !== "number") return undefined;
      const { holder, spent, cost, step, period, now, until } = request;
      return (await draws([ref, holder, spent, cost, step, period, now, until])) ?? undefined;
    },
    async returnCredits(ref, { holder, spent }: Port.LeaseReturn) {
      assertReturn({ holder, spent });
      if (typeof ref === "number") await ends([ref, holder, spent]);
    },
    async reserveCredits(ref, period, { cost, now, reservation }) {
      assertSpend(cost, period, now);
      assertReservation(reservation);
      if (typeof ref !== "number") return undefined;
      return (await spends([ref, cost, period, now, reservation.id, reservation.until])) ?? undefined;
    },
    async settleCredits(ref, { id, spent, now }) {
      assertSettle({ id, spent, now });
      return typeof ref === "number" ? settles([ref, id, spent, now]) : endedAs(undefined);
    },
    async spendWallets(wallets, request) {
      assertWalletSpend(wallets, request);
      const { cost, now, once: { record, bounds } = {} } = request;
      if (record !== undefined) assertRecord(record);
      const isOurs = wallets.flat().every(({ ref }) => typeof ref === "number");
      if (!isOurs || (cost === 0 && record === undefined))
        return { outcome: "done", spend: await accounts.readWallets(wallets, request) };
      const { id, until } = record?.reservation ?? request.reservation ?? {};
      return spendsOfWallets({
        wallets: wallets.map((wallet) =>
          wallet.map(({ ref, period, expires = null }) => [ref as number, period, expires] as const),
        ),
        ...{ cost, now, id, until },
        ...(record !== undefined && bounds !== undefined && { once: onceFields({ record, bounds, now }) }),
      });
    },
    async settleWallets(wallets: readonly (readonly Port.KeyRef[])[], { id, spent, now }: Port.SettleRequest) {
      assertSettle({ id, spent, now });
      assertRefs(wallets);
      const numbers = wallets.map((refs) => refs.filter((ref) => typeof ref === "number"));
      return settlesOfWallets({ wallets: numbers, ...{ id, spent, now } });
    },
    readBalances: accounts.readBalances,
  };
}

/** What `spend_once_v1` reads of a call besides its account and its cost. */
export function onceFields({ record: { id, workspaceId, body, until }, bounds, now }: Port.WriteOnce) {
  return { now, id, ws: workspaceId, body, until, most: bounds.maxRecords, share: bounds.maxPerWorkspace };
}
