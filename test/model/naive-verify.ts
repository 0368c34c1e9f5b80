/**
 * A verification once more, as contract 2.2 and rulings A1–A7, C1–C5, E4 say it. Answers hold no ids that only the
 * engine can know.
 */
import type { LimitCheck } from "../../src/contracts/limiter.js";
import type {
  V2KeysVerifyKeyRequestBody,
  V2KeysVerifyKeyResponseData,
  VerificationCode,
  VerifyKeyRatelimitData,
} from "../../src/contracts/types.js";
import { leastAt, spendAll } from "./naive-credits.js";
import type { modelLimiter } from "../ratelimit/model.js";
import { type Ask, holds } from "./naive-permissions.js";
import { ADMITS } from "./vocabulary.js";
import {
  digestOf,
  drawnOn,
  formOf,
  grantsOf,
  isHidden,
  type ModelKey,
  type ModelLimit,
  type ModelWorkspace,
  type World,
} from "./world.js";

/** Who verifies: a node with its own buckets, bound to a workspace or not. */
export interface ModelVerifier {
  readonly limiter: ReturnType<typeof modelLimiter>;
  readonly workspace: ModelWorkspace | undefined;
}

export interface Verification {
  readonly request: V2KeysVerifyKeyRequestBody;
  /** The query of the request as a tree. */
  readonly ask: Ask | undefined;
  readonly address: string | undefined;
}

export type Expected =
  | {
      readonly answer: V2KeysVerifyKeyResponseData;
      readonly key?: ModelKey;
      /** One a result, in order. */ readonly limits: readonly AppliedLimit[];
    }
  | { readonly locations: readonly string[] };

export interface AppliedLimit {
  readonly check: LimitCheck;
  readonly name: string;
  readonly autoApply: boolean;
  /** Undefined: an ad hoc limit. */
  readonly row: ModelLimit | undefined;
}

/** What must come out, and what it changes: buckets, the balance, a digest gained. */
export function judge(world: World, verifier: ModelVerifier, verification: Verification): Expected {
  const { request, ask, address } = verification;
  const key = find(world, verifier, request);
  if (key === undefined) return { answer: { valid: false, code: "NOT_FOUND" }, limits: [] };
  const { permissions, roles } = grantsOf(key);
  const done = (
    code: VerificationCode,
    limits: readonly AppliedLimit[] = [],
    results: readonly VerifyKeyRatelimitData[] = [],
  ): Expected => {
    const balance = leastAt(drawnOn(key), world.now);
    const asked = ask !== undefined && !["DISABLED", "EXPIRED", "FORBIDDEN"].includes(code);
    const answer: V2KeysVerifyKeyResponseData = {
      valid: code === "VALID",
      code,
      keyId: key.id,
      enabled: key.enabled,
      ...(key.name !== undefined && { name: key.name }),
      ...(key.meta !== undefined && { meta: key.meta }),
      ...(key.expires !== undefined && { expires: key.expires }),
      ...(balance !== null && { credits: Number(balance) }),
      ...((asked || code === "FORBIDDEN") && { permissions }),
      ...(asked && { roles }),
      ...(key.identity !== undefined && !key.identity.deleted && { identity: showIdentity(key.identity) }),
      ...(results.length > 0 && { ratelimits: [...results] }),
    };
    return { answer, key, limits };
  };

  if (!key.enabled) return done("DISABLED");
  const owner = key.identity?.deleted === false ? key.identity : undefined;
  for (const { expires } of [key, ...(owner === undefined ? [] : [owner])])
    if (expires !== undefined && world.now > expires) return done("EXPIRED");
  if (owner?.enabled === false) return done("FORBIDDEN");
  if (!key.api.enabled || !key.api.workspace.enabled || !isAdmitted(address, [key.allowlist, key.api.allowlist]))
    return done("FORBIDDEN");
  if (ask !== undefined && !holds(ask, permissions)) return done("INSUFFICIENT_PERMISSIONS");
  const limits = limitsOf(key, request);
  const unknown = limits.flatMap((limit, i) =>
    limit === undefined ? [i - (limits.length - (request.ratelimits ?? []).length)] : [],
  );
  if (unknown.length > 0) return { locations: unknown.map((i) => `body.ratelimits[${i}].name`) };
  const applied = limits as AppliedLimit[];
  if (applied.length === 0)
    return done(spendAll(drawnOn(key), request.credits?.cost ?? 1, world.now) ? "VALID" : "USAGE_EXCEEDED");
  const verdicts = verifier.limiter.take(
    applied.map(({ check }) => check),
    world.now,
  );
  const results = applied.map(({ check, name, autoApply }, i) => ({
    exceeded: verdicts[i]!.exceeded,
    id: "",
    name: [...name].slice(0, 128).join(""),
    limit: bring(check.limit, 1, 1_000_000),
    duration: bring(check.duration, 1_000, 2_592_000_000),
    reset: bring(Math.ceil(verdicts[i]!.reset), 1_000, 2_592_000_000),
    remaining: bring(verdicts[i]!.remaining, 0, 1_000_000),
    autoApply,
  }));
  if (results.some(({ exceeded }) => exceeded)) return done("RATE_LIMITED", applied, results);
  return done(
    spendAll(drawnOn(key), request.credits?.cost ?? 1, world.now) ? "VALID" : "USAGE_EXCEEDED",
    applied,
    results,
  );
}

/** Ruling E4: the native digest first; then, with a migration id, that migration's algorithm. */
function find(
  world: World,
  { workspace }: ModelVerifier,
  { key: text, migrationId }: V2KeysVerifyKeyRequestBody,
): ModelKey | undefined {
  const digest = digestOf(text);
  const native = world.keys.find((key) => key.digest === digest && !isHidden(key));
  const isVisible = (of: ModelWorkspace): boolean => workspace === undefined || workspace === of;
  if (native !== undefined) return isVisible(native.api.workspace) ? native : undefined;
  const migration = world.migrations.find(({ id }) => id === migrationId);
  if (migration === undefined || !isVisible(migration.workspace)) return undefined;
  const form = formOf(migration.algorithm, text);
  const key = world.keys.find(({ imported }) => imported?.migration === migration && imported.form === form);
  if (key === undefined || isHidden(key) || !isVisible(key.api.workspace)) return undefined;
  if (key.digest === undefined && !world.keys.some((other) => other.digest === digest)) {
    key.digest = digest;
    key.text = text;
  }
  return key;
}

/** Ruling C1. `undefined` stands for a name that no limit has. */
function limitsOf(key: ModelKey, { ratelimits = [] }: V2KeysVerifyKeyRequestBody): (AppliedLimit | undefined)[] {
  const own = key.limits.map((row) => ({ row, owner: key.account }));
  const identity = key.identity?.deleted === false ? key.identity : undefined;
  const shared = (identity?.limits ?? []).map((row) => ({ row, owner: identity!.owner }));
  const all = [...own, ...shared.filter(({ row }) => !own.some((other) => other.row.name === row.name))];
  const automatic = all.filter(({ row }) => row.autoApply && !ratelimits.some(({ name }) => name === row.name));
  const asked = ratelimits.map(({ name, cost = 1, limit, duration }): AppliedLimit | undefined => {
    const found = all.find(({ row }) => row.name === name);
    if (found === undefined && (limit === undefined || duration === undefined)) return undefined;
    const bucket = `${found?.owner ?? key.account} ${name}`;
    const check = {
      bucket,
      limit: limit ?? found!.row.limit,
      duration: duration ?? found!.row.duration,
      cost,
      configured: found?.row,
    };
    return { check, name, autoApply: found?.row.autoApply ?? false, row: found?.row };
  });
  return [
    ...automatic.map(({ row, owner }) => ({
      check: { bucket: `${owner} ${row.name}`, limit: row.limit, duration: row.duration, cost: 1, configured: row },
      name: row.name,
      autoApply: true,
      row,
    })),
    ...asked,
  ];
}

/** Ruling A4, with the truth written down by hand: {@link ADMITS}. */
function isAdmitted(address: string | undefined, lists: readonly (readonly string[])[]): boolean {
  return lists.every(
    (list) => list.length === 0 || list.some((entry) => address !== undefined && ADMITS[entry]!.includes(address)),
  );
}

export function showIdentity({ id, externalId, meta, limits }: NonNullable<ModelKey["identity"]>) {
  return {
    id: id ?? "",
    externalId,
    ...(meta !== undefined && { meta }),
    ...(limits.length > 0 && { ratelimits: showLimits(limits) }),
  };
}

/** Limits as answers show them: within the bounds of the schema, whatever was set (contract 8). */
export function showLimits(limits: readonly ModelLimit[]) {
  return limits.map((limit) => ({
    id: limit.id ?? "",
    name: limit.name,
    limit: bring(limit.limit, 1, 1_000_000),
    duration: bring(limit.duration, 1_000, 2_592_000_000),
    autoApply: limit.autoApply,
  }));
}

function bring(value: number, min: number, max: number): number {
  return Math.min(max, Math.max(min, value));
}
