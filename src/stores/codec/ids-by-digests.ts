/** Matches keys that were read with the digests and hashes that were asked for. Store clause 29. */
import type { KeyDigests } from "../../contracts/store.js";

/** A key as it is selected. */
interface Holder {
  readonly id: string;
  readonly digest?: string | null | undefined;
  readonly foreignDigest?: string | null | undefined;
}

/** @returns for each of `wanted` the id of a key that has its digest or its hash; `undefined`: none has */
export function idsByDigests(found: readonly Holder[], wanted: readonly KeyDigests[]): (string | undefined)[] {
  const native = new Map(found.map(({ digest, id }) => [digest ?? undefined, id]));
  const foreign = new Map(found.map(({ foreignDigest, id }) => [foreignDigest ?? undefined, id]));
  native.delete(undefined);
  foreign.delete(undefined);
  return wanted.map(({ digest, foreignDigest }) => native.get(digest) ?? foreign.get(foreignDigest));
}
