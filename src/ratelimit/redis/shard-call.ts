/** The checks of one shard as a call of the script, and what it returned. */
import type { LimitCheck, LimitSize, LimitVerdict } from "../../contracts/limiter.js";
import { shortDigest } from "../../lib/hash.js";
import { type Rate, rateMemo, toVerdict } from "../memory/bucket.js";

/** UTF-16 units of the name of a bucket. */
const MAX_NAME_LENGTH = 2_048;
/** A shard that stands in a key as it is; of any other stands a digest. */
const PLAIN_SHARD = /^[a-zA-Z0-9_-]{1,64}$/;

/** Keys among which one is found as fast without a map. */
const MAX_LISTED = 8;

/** A check with its rate. */
interface ShardCheck {
  readonly rate: Rate;
  readonly cost: number;
}

/** Checks of one shard, as the script takes them. */
export interface ShardCall {
  readonly shard: string;
  /** Of the buckets, each once. */
  readonly keys: readonly string[];
  /** Where the checks are in the call of the limiter. */
  readonly places: readonly number[];
  readonly checks: readonly ShardCheck[];
  /** Whether each check is of a bucket of its own. */
  readonly isDistinct: boolean;
  /** The same for every call of the same buckets, in the same order. */
  readonly buckets: string;
  /** The same for every one of those at the same rates, whatever the costs. */
  readonly rates: string;
  /** Of each check, as the script takes them. */
  readonly numbers: readonly string[];
  /** The bucket of each check, as the script takes them. */
  readonly extra: string;
}

/** What is used of the bucket of each check, in units of its rate. */
export interface ShardReply {
  readonly exceeded: boolean;
  readonly verdicts: readonly LimitVerdict[];
  readonly used: readonly number[];
  /** What `undo` needs to take a `hold` back. */
  readonly receipts: readonly string[];
}

/**
 * Groups the checks of a call by shard.
 * @throws RangeError if a name is not a well-formed text of at most 2,048 UTF-16 units
 */
export function createShardCalls(prefix: string): (checks: readonly LimitCheck[]) => ShardCall[] {
  const rateOf = rateMemo();
  /** Numbers as text, which takes as long as all the rest: buckets of one limit share a rate. */
  const texts = new WeakMap<Rate, readonly string[]>();
  const textsOf = (rate: Rate): readonly string[] => {
    let known = texts.get(rate);
    if (known === undefined)
      texts.set(rate, (known = [`${rate.limit}`, `${rate.duration}`, `${rate.unitsPerToken}`, `${rate.drainPerMs}`]));
    return known;
  };

  const toCall = (shard: string, given: readonly LimitCheck[], places: readonly number[]): ShardCall => {
    const keys: string[] = [];
    const numbers: string[] = [];
    const checks: ShardCheck[] = [];
    let [buckets, rates] = ["", ""];
    let extra = "";
    const indexes = given.length > MAX_LISTED ? new Map<string, number>() : undefined;
    for (const { bucket, limit, duration, cost, configured } of given) {
      const key = `${prefix}{${shard}}:${bucket}`;
      let index = indexes === undefined ? keys.indexOf(key) : (indexes.get(key) ?? -1);
      if (index < 0) {
        index = keys.push(key) - 1;
        indexes?.set(key, index);
      }
      const rate = rateOf(limit, duration);
      const [limitText = "", durationText = "", units = "", drain = ""] = textsOf(rate);
      const own = configuredText(rate, configured);
      numbers.push(limitText, durationText, units, drain, `${cost}`, own);
      extra += `${index + 1} `;
      buckets += `${key.length} ${key} `;
      rates += `${limitText} ${durationText} ${own} `;
      checks.push({ rate, cost });
    }
    const isDistinct = keys.length === checks.length;
    return { shard, keys, numbers, extra, checks, isDistinct, buckets, rates, places };
  };

  return (checks) => {
    const shards = checks.map(shardOf);
    const [first] = shards;
    if (first === undefined) return [];
    // Every verification.
    if (shards.every((shard) => shard === first)) return [toCall(first, checks, [...checks.keys()])];
    const placesOf = new Map<string, number[]>();
    for (const [place, shard] of shards.entries()) {
      const places = placesOf.get(shard);
      if (places === undefined) placesOf.set(shard, [place]);
      else places.push(place);
    }
    return [...placesOf].map(([shard, places]) =>
      toCall(
        shard,
        places.map((place) => checks[place] as LimitCheck),
        places,
      ),
    );
  };
}

/** What is configured where a check is at this rate: this, nothing or something else. */
function configuredText({ limit, duration }: Rate, configured: LimitSize | undefined): string {
  if (configured === undefined) return "-";
  const isSame = configured.limit === limit && configured.duration === duration;
  return isSame ? "=" : `${configured.limit} ${configured.duration}`;
}

function shardOf({ bucket, shard = bucket }: LimitCheck): string {
  assertName("bucket", bucket);
  if (shard !== bucket) assertName("shard", shard);
  return PLAIN_SHARD.test(shard) ? shard : shortDigest(shard);
}

function assertName(name: string, text: unknown): void {
  if (typeof text !== "string" || text.length > MAX_NAME_LENGTH || !text.isWellFormed())
    throw new RangeError(`${name} must be a well-formed text of at most ${MAX_NAME_LENGTH} UTF-16 units`);
}

/**
 * The script's keys and arguments, their number first.
 * @param header of the script: mode, or mode, time and slack
 * @param receipts of a `hold`, for `undo`
 */
export function toArguments(call: ShardCall, header: string, receipts?: readonly string[]): string[] {
  const { keys, numbers, extra, isDistinct } = call;
  if (receipts !== undefined) return [`${keys.length}`, ...keys, header, ...numbers, extra, ...receipts];
  if (isDistinct) return [`${keys.length}`, ...keys, header, ...numbers];
  return [`${keys.length}`, ...keys, header, ...numbers, extra];
}

/** @throws TypeError if it is not what the script returns */
export function readReply({ checks }: ShardCall, reply: unknown): ShardReply {
  const text = String(reply);
  const slash = text.indexOf("/");
  const numbers = (slash < 0 ? text : text.slice(0, slash)).split(" ");
  if (numbers.length !== checks.length * 2) throw malformed();
  const used: number[] = [];
  let exceeded = false;
  const verdicts = checks.map(({ rate }, i) => {
    const units = Number(numbers[i * 2 + 1]);
    if (!Number.isSafeInteger(units)) throw malformed();
    used.push(units);
    const isExceeded = numbers[i * 2] === "1";
    if (isExceeded) exceeded = true;
    return toVerdict(units, rate, isExceeded);
  });
  return { exceeded, verdicts, used, receipts: slash < 0 ? NONE : text.slice(slash + 1).split(";") };
}

const NONE: readonly string[] = [];
const malformed = (): TypeError =>
  new TypeError("Redis returned something else than the result of the limiter's script");
