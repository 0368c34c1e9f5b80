/**
 * The rig of kill −9: acknowledged deductions against what the reopened file says, again and again on one file.
 * docs/guarantees.md, A145.
 */
import { readFileSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { createKeyring } from "../../src/keyring/keyring.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import type { CreditsOptions } from "../../src/verify/verifier-options.js";
import { dice } from "../model/dice.js";
import { buildWorker, ended, rigFolder, startWorker } from "./workers.js";
import type { DeductOrders } from "./workers/deduct.js";

/** The byte that acknowledges a key that was made: see workers/deduct.ts, which runs when it is imported. */
const CREATED = 255;

export interface KillReport {
  readonly kills: number;
  readonly acknowledged: number;
  /** Acknowledged deductions that the file does not have: must be 0. */
  readonly lost: number;
  /** The most deductions without an answer that one kill left: at most the calls in flight, or what a lease holds. */
  readonly unanswered: number;
  /** What `integrity_check` and the like found: must be empty. */
  readonly problems: readonly string[];
  readonly seconds: number;
}

export const IN_FLIGHT = 64;
export const KEYS = 8;
export const CREDITS = 1_000_000_000_000;
/** The longest a worker lives after its first acknowledgement, milliseconds. */
const LONGEST_LIFE = 120;
/** On a busy host, where a life acknowledges little, there are up to so many times as many kills. */
const PATIENCE = 10;

/** @param kills at least */
export async function runKills(
  kills: number,
  options: {
    /** Goes on until more deductions than that are acknowledged: fewer would show nothing. */
    readonly acknowledged?: number;
    readonly seed?: number;
    readonly credits?: CreditsOptions;
    readonly durability?: DeductOrders["durability"];
    readonly fault?: DeductOrders["fault"];
    readonly writer?: URL;
    /** Runs the workers in this Node, where no better-sqlite3 is found: on node:sqlite. */
    readonly node?: string;
  } = {},
): Promise<KillReport> {
  const {
    acknowledged = 0,
    seed = 1,
    credits = { mode: "exact" },
    durability = "power",
    fault,
    writer,
    node,
  } = options;
  const rolled = dice(seed);
  const folder = rigFolder();
  const worker = await buildWorker("deduct", node ? { folder } : {});
  const begun = performance.now();
  const totals = { acknowledged: 0, lost: 0, unanswered: 0 };
  const problems: string[] = [];
  try {
    const file = join(folder, "keys.db");
    const acks = join(folder, "acks");
    const { apiId, made } = await prepare(file);
    const before = { balances: made.map(() => CREDITS), keys: KEYS };
    const orders: DeductOrders = {
      file,
      acks,
      apiId,
      keys: made.map(({ key }) => key),
      inFlight: IN_FLIGHT,
      credits,
      durability,
      ...(fault && { fault }),
      ...(writer && { writer: writer.href }),
    };
    let kill = 0;
    for (; kill < kills || (totals.acknowledged <= acknowledged && kill < kills * PATIENCE); kill++) {
      writeFileSync(acks, "");
      const child = startWorker(worker, orders, {}, [], node);
      // Mostly at work, now and then while it still opens the file, where the log of the one before is recovered.
      if (rolled.chance(0.85)) await firstBytes(acks, () => child.exitCode ?? child.signalCode);
      await pause(rolled.below(LONGEST_LIFE));
      child.kill("SIGKILL");
      await ended(child);
      if (child.signalCode !== "SIGKILL") problems.push(`the worker ended by itself: ${String(child.exitCode)}`);
      await examine(file, made, before, countAcks(readFileSync(acks), noAcks()), totals, problems);
      truncateSync(acks);
    }
    return { kills: kill, ...totals, problems: [...new Set(problems)], seconds: (performance.now() - begun) / 1_000 };
  } finally {
    rmSync(folder, { recursive: true, force: true });
    rmSync(worker, { force: true });
  }
}

export interface Made {
  readonly key: string;
  readonly keyId: string;
}

/** What was acknowledged. */
export interface Acks {
  /** Deductions by key. */
  readonly deductions: number[];
  /** Keys that were made. */
  created: number;
}

/** A file with a few keys that never run dry. */
export async function prepare(file: string): Promise<{ readonly apiId: string; readonly made: readonly Made[] }> {
  const store = sqliteStore(file);
  const keyring = createKeyring(store);
  const { apiId } = await keyring.createApi({ name: "deductions" });
  const made: Made[] = [];
  for (let i = 0; i < KEYS; i++) made.push(await keyring.createKey({ apiId, credits: { remaining: CREDITS } }));
  await store.close();
  return { apiId, made };
}

export const noAcks = (): Acks => ({ deductions: new Array<number>(KEYS).fill(0), created: 0 });

/** Adds what a worker wrote down. */
export function countAcks(bytes: Uint8Array, acks: Acks): Acks {
  for (const byte of bytes) {
    if (byte === CREATED) acks.created++;
    else acks.deductions[byte]!++;
  }
  return acks;
}

/** How many keys the file holds. */
export function countKeys(handle: Database.Database): number {
  return handle.prepare("SELECT count(*) FROM keystile_keys").pluck().get() as number;
}

interface Before {
  readonly balances: number[];
  keys: number;
}

async function examine(
  file: string,
  made: readonly Made[],
  before: Before,
  acks: Acks,
  totals: { acknowledged: number; lost: number; unanswered: number },
  problems: string[],
): Promise<void> {
  const store = sqliteStore(file, { mustExist: true });
  const { keys, damages } = look(file);
  problems.push(...store.health().problems, ...damages);
  let unanswered = 0;
  for (const [i, { keyId }] of made.entries()) {
    const balance = (await store.readBalances([{ keyId, period: 0 }], 0))[0]?.remaining as number;
    const deducted = before.balances[i]! - balance;
    const acknowledged = acks.deductions[i]!;
    totals.acknowledged += acknowledged;
    if (deducted < acknowledged) totals.lost += acknowledged - deducted;
    else unanswered += deducted - acknowledged;
    before.balances[i] = balance;
  }
  totals.unanswered = Math.max(totals.unanswered, unanswered);
  totals.lost += Math.max(0, before.keys + acks.created - keys);
  if (keys > before.keys + acks.created + 1)
    problems.push(`${keys - before.keys} keys made, ${acks.created} acknowledged`);
  before.keys = keys;
  await store.close();
}

/** How many keys there are, and what SQLite's own full check finds. */
function look(file: string): { keys: number; damages: string[] } {
  const handle = new Database(file, { readonly: true });
  try {
    return { keys: countKeys(handle), damages: damagesOf(handle) };
  } finally {
    handle.close();
  }
}

/** What is damaged; empty: nothing. */
export function damagesOf(handle: Database.Database): string[] {
  const found = handle.pragma("integrity_check") as { integrity_check: string }[];
  const orphans = handle.pragma("foreign_key_check") as object[];
  return [
    ...found.map(({ integrity_check }) => integrity_check).filter((text) => text !== "ok"),
    ...orphans.map(() => "a row refers to none"),
  ];
}

async function firstBytes(file: string, hasEnded: () => unknown): Promise<void> {
  for (const deadline = performance.now() + 20_000; statSync(file).size === 0;) {
    if (hasEnded() !== null || performance.now() > deadline) throw new Error("the worker acknowledges nothing");
    await pause(2);
  }
}

const pause = (milliseconds: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, milliseconds));
