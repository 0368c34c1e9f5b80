/** Rate limits of keys and identities in requests. Contract 2.3, 8. */
import * as v from "valibot";
import type { RatelimitRequest } from "../../contracts/types.js";
import { type Schema, withFix } from "./parse.js";
import * as atom from "./primitives.js";

const MAX_LIMITS = 50;
const limit = { name: atom.label(3, 128), limit: atom.integer(1), duration: atom.length(1_000) };

/** Limits of a key or an identity. */
export const ratelimits = limits(
  atom.body<RatelimitRequest>()({ ...limit, autoApply: atom.optionalOr(atom.boolean, false) }),
);
/** Imports state whether a limit applies by itself: all four are required (contract 2.3). */
export const migratedLimits = limits(atom.body<Required<RatelimitRequest>>()({ ...limit, autoApply: atom.boolean }));

function limits<L extends RatelimitRequest>(one: Schema<L>): Schema<L[]> {
  return v.pipe(atom.list(one, 0, MAX_LIMITS), v.rawCheck(uniqueNames));
}

/**
 * Names are unique within a key or identity: a verification finds a limit by its name. Checked even where other parts
 * are invalid.
 */
function uniqueNames<L extends RatelimitRequest>({ dataset, addIssue }: RawCheckOf<L[]>): void {
  if (!Array.isArray(dataset.value)) return;
  const names = new Set<unknown>();
  dataset.value.forEach((item: { readonly name?: unknown } | null | undefined, key) => {
    const name = item?.name;
    if (name === undefined || !names.has(name)) return void names.add(name);
    const message = withFix("is the name of an earlier limit in this list", "give each limit a name of its own");
    const index = { type: "array", origin: "value", input: [], key, value: item } as const;
    addIssue({ message, path: [index, { type: "object", origin: "value", input: {}, key: "name", value: name }] });
  });
}

type RawCheckOf<T> = Parameters<Parameters<typeof v.rawCheck<T>>[0]>[0];
