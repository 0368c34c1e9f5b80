/** What the store held of each key over the steps of a run: an answer must fit some moment of its call. */
import type { KeyRecord, Store } from "../../src/contracts/store.js";
import { must } from "./violation.js";

/** A key that clients present. */
export interface PresentedKey {
  readonly text: string;
  readonly digest: string;
  /** Of an imported key: where it is found until it is adopted. */
  readonly migrationId?: string;
  readonly foreignDigest?: string;
}

interface Version {
  readonly from: number;
  readonly text: string;
  readonly record: KeyRecord | undefined;
}

interface History {
  readonly key: PresentedKey;
  readonly native: Version[];
  readonly foreign: Version[];
}

/** The codes that the checks before the limits can give; PASS: none of them. */
type Early = "NOT_FOUND" | "DISABLED" | "EXPIRED" | "FORBIDDEN" | "INSUFFICIENT_PERMISSIONS" | "PASS";

/** What an answer depends on besides the record. */
export interface Asked {
  readonly now: number;
  readonly permission?: string | undefined;
  readonly isByMigration: boolean;
}

export class Records {
  readonly #histories: History[] = [];
  /** By the id of the limit. */
  readonly #buckets = new Map<string, string>();

  /**
   * @param isMixed whether a key and what it refers to may be of two moments: each is as new as promised, not both as
   * one read. A key is then found with roles that had other permissions when it had others
   */
  constructor(
    readonly probe: Store,
    readonly isMixed = false,
    /** Hears of every record as it changes. */
    readonly onRecord: (record: KeyRecord) => void = () => undefined,
  ) {}

  get keys(): readonly PresentedKey[] {
    return this.#histories.map(({ key }) => key);
  }

  at(index: number): PresentedKey {
    return this.#histories[index]!.key;
  }

  get count(): number {
    return this.#histories.length;
  }

  add(key: PresentedKey, step: number): void {
    const history: History = { key, native: [], foreign: [] };
    this.#histories.push(history);
    this.#look(history, step);
  }

  /** Reads every key as it is now. */
  refresh(step: number): void {
    void this.probe.pollChanges("anew");
    for (const history of this.#histories) this.#look(history, step);
  }

  /** The record that is found now. */
  current(key: PresentedKey): KeyRecord | undefined {
    const history = this.#histories.find((one) => one.key === key);
    return history?.native.at(-1)?.record ?? history?.foreign.at(-1)?.record;
  }

  /** All records that a key has had. */
  recordsOf(key: PresentedKey): KeyRecord[] {
    const history = this.#histories.find((one) => one.key === key);
    const versions = [...(history?.native ?? []), ...(history?.foreign ?? [])];
    return versions.flatMap(({ record }) => record ?? []);
  }

  /** Those of them that were current at some moment of these steps. */
  recordsDuring(key: PresentedKey, from: number, to: number): KeyRecord[] {
    const { native, foreign } = this.#histories.find((one) => one.key === key)!;
    return [...during(native, from, to), ...during(foreign, from, to)].flatMap(({ record }) => record ?? []);
  }

  /** @throws Violation if an identity was removed on whose credits an enabled key drew */
  assertUndrawn(identityId: string): void {
    for (const { key } of this.#histories) {
      const record = this.current(key);
      const draws = record?.creditsFrom === "identity" && record.identity?.id === identityId && record.enabled;
      must(!draws, "unlimited", () => `${record?.keyId} drew on ${identityId}, which was removed`);
    }
  }

  /** Whose bucket a limit has: that of an account, or of an identity, and a name. */
  bucketOf(limitId: string): string {
    return this.#buckets.get(limitId) ?? limitId;
  }

  /** @throws Violation if at no moment from step `from` to step `to` the record gave this code */
  assertPossible(key: PresentedKey, code: string, asked: Asked, from: number, to: number): void {
    const history = this.#histories.find((one) => one.key === key)!;
    const early = code === "VALID" || code === "RATE_LIMITED" || code === "USAGE_EXCEEDED" ? "PASS" : code;
    const versions = [
      ...during(history.native, from, to),
      ...(asked.isByMigration ? during(history.foreign, from, to) : []),
    ];
    const isImported =
      asked.isByMigration && during(history.foreign, from, to).every(({ record }) => record !== undefined);
    const records = versions.map(({ record }) => record);
    const possible = (this.isMixed ? records.flatMap((one) => mixtures(one, records, asked)) : records)
      .map((record) => evaluate(record, asked))
      .filter((one) => !(isImported && one === "NOT_FOUND"));
    must(
      possible.includes(early as Early),
      "answer",
      () => `${code} from step ${from} to ${to}, where the key gave ${[...new Set(possible)].join(" or ")}`,
    );
  }

  #look({ key, native, foreign }: History, step: number): void {
    this.#append(native, step, this.probe.findKey(key.digest) as KeyRecord | undefined);
    if (key.migrationId === undefined || key.foreignDigest === undefined) return;
    this.#append(foreign, step, this.probe.findForeignKey(key.migrationId, key.foreignDigest) as KeyRecord | undefined);
  }

  #append(versions: Version[], from: number, record: KeyRecord | undefined): void {
    const text = JSON.stringify(record) ?? "";
    if (versions.length > 0 && versions.at(-1)!.text === text) return;
    versions.push({ from, text, record });
    if (record === undefined) return;
    this.onRecord(record);
    const { keyId, account, ratelimits, identity } = record;
    for (const { id, name } of ratelimits) this.#buckets.set(id, `${account?.id ?? keyId} ${name}`);
    for (const { id, name } of identity?.ratelimits ?? []) this.#buckets.set(id, `${identity!.id} ${name}`);
  }
}

/** Those that were current at some moment of these steps. */
function during(versions: readonly Version[], from: number, to: number): Version[] {
  return versions.filter((version, i) => version.from <= to && (versions[i + 1]?.from ?? Infinity) > from);
}

/** A key with what it referred to at other moments. */
function mixtures(
  record: KeyRecord | undefined,
  others: readonly (KeyRecord | undefined)[],
  { permission }: Asked,
): (KeyRecord | undefined)[] {
  if (record === undefined || others.length === 1) return [record];
  const grants = permission === undefined ? [record.permissions] : [[], [permission]];
  // While the key was not there, its API may have been in either state.
  const states = new Set(others.flatMap((other) => (other === undefined ? [false, true] : other.parentDisabled)));
  return [...states].flatMap((parentDisabled) =>
    grants.map((permissions) => ({ ...record, parentDisabled, permissions })),
  );
}

function evaluate(record: KeyRecord | undefined, { now, permission }: Asked): Early {
  if (record === undefined) return "NOT_FOUND";
  if (!record.enabled) return "DISABLED";
  if (record.expires !== undefined && now > record.expires) return "EXPIRED";
  if (record.parentDisabled) return "FORBIDDEN";
  return permission === undefined || record.permissions.includes(permission) ? "PASS" : "INSUFFICIENT_PERMISSIONS";
}
