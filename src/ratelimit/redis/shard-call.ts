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
  /** Its index in the call of the limiter. */
  readonly index: number;
  /** The index of its bucket among the keys. */
  readonly bucket: number;
  readonly rate: Rate;
  readonly cost: number;
  /** What is configured, as the script takes it. */
  readonly configured: string;
}

/** Checks of one shard. */
export interface ShardCall {
  readonly shard: string;
  /** Whether it has failed for its caller: what it takes from then on is returned. */
  isAbandoned: boolean;
  /** Of the buckets, each once. */
  readonly keys: readonly string[];
  readonly checks: readonly ShardCheck[];
}

/** Whether each check is of a bucket of its own. */
export const isDistinct = ({ keys, checks }: ShardCall): boolean => keys.length === checks.length;

/** What is used of the bucket of each check, in units of its rate. */
export interface ShardReply {
  readonly verdicts: readonly LimitVerdict[];
  readonly used: readonly number[];
  /** What `undo` needs, if the script told it. */
  readonly receipts: readonly string[] | undefined;
}

/**
 * Groups the checks of a call by shard.
 * @throws RangeError if a name is not a well-formed text of at most 2,048 UTF-16 units
 */
export function createShardCalls(prefix: string): (checks: readonly LimitCheck[]) => ShardCall[] {
  const rateOf = rateMemo();

  /** @param indexes of the checks in the call of the limiter; absent: they are all of its checks */
  const toCall = (shard: string, checks: readonly LimitCheck[], indexes?: readonly number[]): ShardCall => {
    const keys: string[] = [];
    const known = checks.length > MAX_LISTED ? new Map<string, number>() : undefined;
    const placed = checks.map(({ bucket: name, limit, duration, cost, configured }, i): ShardCheck => {
      const key = `${prefix}{${shard}}:${name}`;
      let bucket = known === undefined ? keys.indexOf(key) : (known.get(key) ?? -1);
      if (bucket < 0) {
        bucket = keys.push(key) - 1;
        known?.set(key, bucket);
      }
      const rate = rateOf(limit, duration);
      const index = indexes === undefined ? i : (indexes[i] as number);
      return { index, bucket, rate, cost, configured: configuredText(rate, configured) };
    });
    return { shard, isAbandoned: false, keys, checks: placed };
  };

  return (checks) => {
    const [first] = checks;
    if (first === undefined) return [];
    const shard = shardOf(first);
    // Nearly every call.
    if (checks.length === 1) return [toCall(shard, checks)];
    const indexesOf = new Map<string, number[]>([[shard, [0]]]);
    for (let index = 1; index < checks.length; index++) {
      const other = shardOf(checks[index] as LimitCheck);
      const indexes = indexesOf.get(other);
      if (indexes === undefined) indexesOf.set(other, [index]);
      else indexes.push(index);
    }
    if (indexesOf.size === 1) return [toCall(shard, checks)];
    return [...indexesOf].map(([one, indexes]) =>
      toCall(
        one,
        indexes.map((index) => checks[index] as LimitCheck),
        indexes,
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
 * The words of a command that runs the script.
 * @param script the command and the script
 * @param header of the script: mode, or mode, time and slack
 * @param receipts of a `take`, for `undo`
 */
export function toWords(
  script: readonly [name: string, script: string],
  call: ShardCall,
  { header, receipts }: { readonly header: string; readonly receipts?: readonly string[] | undefined },
): string[] {
  const { keys, checks } = call;
  const words = [...script, `${keys.length}`, ...keys, header];
  for (const { rate, cost, configured } of checks)
    words.push(`${rate.limit}`, `${rate.duration}`, `${cost}`, configured);
  if (receipts !== undefined || !isDistinct(call)) words.push(checks.map(({ bucket }) => `${bucket + 1} `).join(""));
  if (receipts !== undefined) words.push(...receipts);
  return words;
}

/** @throws TypeError if it is not what the script returns */
export function readReply({ checks }: ShardCall, reply: unknown): ShardReply {
  const text = String(reply);
  const slash = text.indexOf("/");
  const numbers = (slash < 0 ? text : text.slice(0, slash)).split(" ");
  if (numbers.length !== checks.length * 2) throw malformed();
  const used: number[] = [];
  const verdicts = checks.map(({ rate }, i) => {
    const units = Number(numbers[i * 2 + 1]);
    if (!Number.isSafeInteger(units)) throw malformed();
    used.push(units);
    return toVerdict(units, rate, numbers[i * 2] === "1");
  });
  return { verdicts, used, receipts: slash < 0 ? undefined : text.slice(slash + 1).split(";") };
}

/** What `undo` needs to return what a call took, by its reply. */
export const receiptsOf = ({ checks }: ShardCall, { receipts }: Pick<ShardReply, "receipts">): readonly string[] =>
  receipts ?? checks.map(({ rate, cost }) => `${rate.limit} ${rate.duration} ${cost * rate.unitsPerToken}`);

export const isRefused = ({ verdicts }: Pick<ShardReply, "verdicts">): boolean =>
  verdicts.some(({ exceeded }) => exceeded);

const malformed = (): TypeError =>
  new TypeError("Redis returned something else than the result of the limiter's script");
