/**
 * The rig of hostile tenants: for every operation the worst requests that are short to say, by a caller without any
 * right and by one with all of them in a workspace of its own, several at a time, beside a tenant that behaves.
 */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { createHandler } from "../../src/http/index.js";
import { OPERATIONS } from "../../src/http/operations/index.js";
import { createKeyring, memoryLimiter } from "../../src/index.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { EVERYTHING } from "../http/support.js";
import { rigFolder } from "./workers.js";

export interface TenantsReport {
  /** Requests of the attackers, and the longest turn of the event loop while theirs of one kind ran. */
  readonly attacks: number;
  readonly slowestTurnMs: number;
  readonly slowestAttack: string;
  /** The longest turn of each of the worst five operations, longest first. */
  readonly worst: readonly { readonly operation: string; readonly attack: string; readonly turnMs: number }[];
  /** Bytes of the longest answer. */
  readonly longestAnswer: number;
  /** Answers with a status of 500 or more. */
  readonly faults: number;
  /** Of the tenant that behaves: calls, those that were not VALID, and the 99th percentile of their times. */
  readonly calls: number;
  readonly refused: number;
  readonly p99Ms: number;
  /** Permissions that the attackers' workspace has more than before. */
  readonly permissionsLeft: number;
}

/** Faults that the rig must find. */
export type PlantedFault = "no share" | "a long turn";

const ATTACKERS = 16;
/** Operations that the report lists. */
const WORST = 5;
const LIMITER_SIZE = 2_000;
/** Of the planted fault: longer than any turn should be on a machine that does much besides. */
export const PLANTED_TURN_MS = 1_500;
const MIB = 1_048_576;

interface Attack {
  readonly name: string;
  readonly operation: string;
  readonly body: string;
}

const names = (count: number, prefix: string): string[] => Array.from({ length: count }, (_, i) => `${prefix}${i}`);
const wide = (prefix: string): string =>
  `{${names(120_000, prefix)
    .map((name) => `"${name}":1`)
    .join(",")}}`.slice(0, MIB - 1);

/** What may be sent to any operation, and what is worst for some. */
function attacksOn(apiId: string, migrationId: string): readonly Attack[] {
  const attacks: Attack[] = [];
  for (const operation of Object.keys(OPERATIONS)) {
    attacks.push({ name: "unknown properties", operation, body: wide("x") });
    attacks.push({ name: "wrong items", operation, body: `{"permissions":[${'"é",'.repeat(150_000)}1]}` });
    attacks.push({ name: "depth", operation, body: "[".repeat(MIB - 1) });
    attacks.push({ name: "nothing", operation, body: "{}" });
  }
  const hash = (i: number): string => i.toString(16).padStart(64, "0");
  const keys = names(100, "").map((_, i) => ({ hash: hash(i), permissions: names(700, `p.${i}.`) }));
  const metas = names(100, "").map((_, i) => ({
    hash: hash(i),
    meta: Object.fromEntries(names(800, `n${i}_`).map((name) => [name, 1])),
  }));
  const importOf = (keys: string): string => `{"migrationId":"${migrationId}","apiId":"none","keys":[${keys}]}`;
  const limits = names(100, "id").map((identifier) => ({
    namespace: "n",
    identifier,
    limit: 1,
    duration: 2_592_000_000,
  }));
  return [
    ...attacks,
    { name: "new permissions", operation: "keys.migrateKeys", body: JSON.stringify({ migrationId, apiId, keys }) },
    { name: "names that differ", operation: "keys.migrateKeys", body: importOf(JSON.stringify(metas).slice(1, -1)) },
    { name: "empty keys", operation: "keys.migrateKeys", body: importOf(Array(340_000).fill("{}").join(",")) },
    ...names(60, "f").map((flood) => ({
      name: "identifiers that refuse",
      operation: "ratelimit.multiLimit",
      body: JSON.stringify(limits.map((one) => ({ ...one, identifier: flood + one.identifier }))),
    })),
    { name: "long roles", operation: "permissions.listRoles", body: '{"limit":100}' },
  ];
}

/** @param rounds how often each attack is sent, by both callers */
export async function runTenants(rounds: number, fault?: PlantedFault): Promise<TenantsReport> {
  const folder = rigFolder();
  const store = sqliteStore(join(folder, "keys.db"), { durability: "process" });
  try {
    const keyrings = {
      evil: createKeyring(store, { workspaceId: "evil" }),
      good: createKeyring(store, { workspaceId: "good" }),
    };
    const { apiId } = await keyrings.evil.createApi({ name: "attack" });
    const { migrationId } = await keyrings.evil.createMigration({ algorithm: "sha256" });
    const slugs = names(240, "").map((_, i) => String(i).padStart(128, "s"));
    for (const slug of slugs)
      await keyrings.evil.createPermission({ name: "𝔘".repeat(512), slug, description: "𝔘".repeat(512) });
    for (const name of names(20, "role")) await keyrings.evil.createRole({ name, permissions: slugs });
    const { key: all } = await keyrings.evil.createRootKey({ permissions: EVERYTHING });
    const { key: none } = await keyrings.evil.createRootKey({ permissions: ["api.other_api.nothing"] });
    const { key: good } = await keyrings.good.createRootKey({ permissions: EVERYTHING });
    const { key } = await keyrings.good.createKey({
      apiId: (await keyrings.good.createApi({ name: "service" })).apiId,
    });

    const shared = memoryLimiter({ size: LIMITER_SIZE });
    const limiter = {
      take: (...[checks, now]: Parameters<typeof shared.take>) =>
        shared.take(fault === "no share" ? checks.map((check) => ({ ...check, workspaceId: "all" })) : checks, now),
    };
    const handler = createHandler(store, { verifier: { limiter } });
    let [faults, longestAnswer] = [0, 0];
    const ask = async (rootKey: string, operation: string, body: string) => {
      const headers = { authorization: `Bearer ${rootKey}`, "content-type": "application/json" };
      const answer = await handler(new Request(`http://a/v2/${operation}`, { method: "POST", headers, body }));
      // Not parsed here: what the rig itself does is no turn of the service's.
      const bytes = Buffer.from(await answer.arrayBuffer());
      if (answer.status >= 500) faults++;
      longestAnswer = Math.max(longestAnswer, bytes.length);
      return bytes;
    };

    let isOver = false;
    let last = performance.now();
    let longestTurn = 0;
    const ticking = (async () => {
      while (!isOver) {
        await new Promise(setImmediate);
        const now = performance.now();
        longestTurn = Math.max(longestTurn, now - last);
        last = now;
      }
    })();
    const times: number[] = [];
    let refused = 0;
    const behaving = (async () => {
      for (let i = 0; !isOver; i++) {
        const began = performance.now();
        const verified = await ask(good, "keys.verifyKey", JSON.stringify({ key }));
        const check = { namespace: "mine", identifier: `user${i % 500}`, limit: 1_000_000, duration: 60_000 };
        const limited = await ask(good, "ratelimit.limit", JSON.stringify(check));
        times.push((performance.now() - began) / 2);
        if (!verified.includes('"code":"VALID"') || !limited.includes('"success":true')) refused++;
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    })();

    const attacks = attacksOn(apiId, migrationId);
    const turns = new Map<string, { operation: string; attack: string; turnMs: number }>();
    let sent = 0;
    for (const { name, operation, body } of attacks) {
      last = performance.now();
      longestTurn = 0;
      for (let round = 0; round < rounds; round++) {
        const callers = Array.from({ length: ATTACKERS }, (_, i) => (i % 2 === 0 ? all : none));
        if (fault === "a long turn" && sent === 0)
          for (const until = performance.now() + PLANTED_TURN_MS; performance.now() < until;);
        await Promise.all(callers.map((caller) => ask(caller, operation, body)));
        sent += callers.length;
      }
      await new Promise((resolve) => setTimeout(resolve, 0));
      if (longestTurn > (turns.get(operation)?.turnMs ?? 0))
        turns.set(operation, { operation, attack: name, turnMs: Math.round(longestTurn) });
    }
    isOver = true;
    await Promise.all([ticking, behaving]);
    let permissionsLeft = -slugs.length;
    for (let cursor: string | undefined, hasMore = true; hasMore;) {
      const page = await keyrings.evil.listPermissions({ cursor });
      permissionsLeft += page.data.length;
      ({ cursor, hasMore } = { cursor: undefined, ...page.pagination });
    }
    await handler.close();
    times.sort((a, b) => a - b);
    const worst = [...turns.values()].sort((a, b) => b.turnMs - a.turnMs).slice(0, WORST);
    const [{ operation, attack, turnMs } = { operation: "", attack: "", turnMs: 0 }] = worst;
    return {
      attacks: sent,
      slowestTurnMs: turnMs,
      slowestAttack: `${operation}: ${attack}`,
      worst,
      longestAnswer,
      faults,
      calls: times.length,
      refused,
      p99Ms: Math.round(times[Math.floor(times.length * 0.99)] ?? Infinity),
      permissionsLeft,
    };
  } finally {
    await store.close();
    rmSync(folder, { recursive: true, force: true });
  }
}
