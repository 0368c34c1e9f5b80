/** What the model knows: rows as plain objects that point at each other. Nothing here is shared with the engine. */
import { createHash } from "node:crypto";
import type { JsonObject } from "../../src/contracts/types.js";
import { type ModelCredits, set } from "./naive-credits.js";

export interface ModelLimit {
  /** Made by the engine: learned when it is first seen, and the same from then on. */
  id: string | undefined;
  readonly name: string;
  readonly limit: number;
  readonly duration: number;
  readonly autoApply: boolean;
}

/** Rows that were deleted stay here, so that what points at them sees it. */
interface Deletable {
  deleted: boolean;
}

export interface ModelPermission extends Deletable {
  readonly slug: string;
}

export interface ModelRole extends Deletable {
  readonly id: string;
  readonly name: string;
  permissions: Set<ModelPermission>;
}

export interface ModelIdentity extends Deletable {
  id: string | undefined;
  readonly externalId: string;
  meta: JsonObject | undefined;
  enabled: boolean;
  expires: number | undefined;
  limits: ModelLimit[];
  /** Names its buckets. */
  readonly owner: string;
  readonly credits: ModelCredits;
  /** As of a key. */
  since: number;
}

export interface ModelApi extends Deletable {
  readonly id: string;
  readonly workspace: ModelWorkspace;
  enabled: boolean;
  allowlist: readonly string[];
}

export interface ModelMigration {
  readonly id: string;
  readonly workspace: ModelWorkspace;
  readonly algorithm: string;
}

export interface ModelKey extends Deletable {
  readonly id: string;
  readonly api: ModelApi;
  /** Text that verifies it, as far as the model ever learned one. */
  text: string | undefined;
  /** SHA-256 of the text in base64; absent while the key is pending. */
  digest: string | undefined;
  readonly imported: { readonly migration: ModelMigration; readonly form: string } | undefined;
  name: string | undefined;
  meta: JsonObject | undefined;
  expires: number | undefined;
  /** Whether it was replaced: it is never again, and ends no later. */
  rotated?: true;
  enabled: boolean;
  permissions: Set<ModelPermission>;
  roles: Set<ModelRole>;
  identity: ModelIdentity | undefined;
  limits: ModelLimit[];
  allowlist: readonly string[];
  /** Shared by keys that replaced each other. */
  readonly credits: ModelCredits;
  /** When the calendar of the credits, or the balance, began, as far as this key knows. */
  since: number;
  /** Names its buckets: the id of the first of the keys that replaced each other. */
  readonly account: string;
}

export interface ModelWorkspace {
  readonly id: string;
  enabled: boolean;
  readonly apis: ModelApi[];
  readonly permissions: ModelPermission[];
  readonly roles: ModelRole[];
  readonly identities: ModelIdentity[];
}

export interface World {
  /** Unix time, milliseconds: every clock of the engine shows it. */
  now: number;
  readonly workspaces: readonly [ModelWorkspace, ModelWorkspace];
  /** Those removed for good are not here. */
  readonly keys: ModelKey[];
  readonly migrations: ModelMigration[];
  /** Ids that the engine made: none may come twice. */
  readonly ids: Set<string>;
  /** Ids of ad hoc limits, by key and name: stable (ruling C5). */
  readonly adHoc: Map<string, string>;
}

export function createWorld(now: number): World {
  const workspace = (id: string): ModelWorkspace => ({
    id,
    enabled: true,
    apis: [],
    permissions: [],
    roles: [],
    identities: [],
  });
  return {
    now,
    workspaces: [workspace("ws_a"), workspace("ws_b")],
    keys: [],
    migrations: [],
    ids: new Set(),
    adHoc: new Map(),
  };
}

/** The row that is there under this name. */
export function named<T extends Deletable>(rows: readonly T[], fits: (row: T) => boolean): T | undefined {
  return rows.find((row) => !row.deleted && fits(row));
}

/** Changes the credits of a key and of all that share them. */
export function setCredits(world: World, key: ModelKey, wish: Parameters<typeof set>[1]): void {
  const since = set(key.credits, wish, world.now, key.since);
  if (since === undefined) return;
  key.since = since;
  for (const other of world.keys) if (other.credits === key.credits) other.since = Math.max(other.since, since);
}

/** Ruling D11: its own balance and its identity's, one of them, or none. */
export function sourceOf(key: ModelKey): "key" | "identity" | "both" | "none" {
  const isOwn = key.credits.remaining !== null;
  if (ownerOf(key) === undefined) return isOwn ? "key" : "none";
  return isOwn ? "both" : "identity";
}

/** The balances that a key draws on. */
export function drawnOn(key: ModelKey): readonly ModelCredits[] {
  return [...(key.credits.remaining === null ? [] : [key.credits]), ...(ownerOf(key) ?? [])];
}

/** The balance of its identity, if it draws on that. */
export function ownerOf({ credits, identity }: ModelKey): readonly [ModelCredits] | undefined {
  const isCovered = credits.isNone !== true && identity?.deleted === false && identity.credits.remaining !== null;
  return isCovered ? [identity.credits] : undefined;
}

/** Hidden keys are found by nobody; their hashes stay taken. */
export const isHidden = (key: ModelKey): boolean => key.deleted || key.api.deleted;

/** Ruling E5. */
export const digestOf = (text: string): string => createHash("sha256").update(text, "utf8").digest("base64");

/** The compared form of a text under an algorithm (ruling E3); undefined: no such key can be. */
export function formOf(algorithm: string, text: string): string | undefined {
  if (algorithm !== "prefixed-api-key") return createHash(algorithm).update(text, "utf8").digest("base64");
  const parts = text.split("_");
  return parts.length < 3 ? undefined : digestOf(parts.at(-1)!);
}

/**
 * What the key may do and what it is: direct grants and those through roles, deleted rows left out; sorted, each once.
 */
export function grantsOf(key: ModelKey): { permissions: string[]; roles: string[] } {
  const roles = [...key.roles].filter((role) => !role.deleted);
  const held = [...key.permissions, ...roles.flatMap((role) => [...role.permissions])].filter(
    (permission) => !permission.deleted,
  );
  return {
    permissions: [...new Set(held.map(({ slug }) => slug))].sort(),
    roles: [...new Set(roles.map(({ name }) => name))].sort(),
  };
}
