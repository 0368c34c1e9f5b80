/** Unusual rows and texts, to test that they survive a round trip. */
import { KEY_FIELDS, type KeyField, type Shape } from "../../contracts/key-fields.js";
import type { KeyRow, Write } from "../../contracts/store.js";
import type { JsonObject } from "../../contracts/types.js";
import type { Random } from "../random.js";
import { identity, permission, role, WS } from "./rows.js";

/** Values of each named shape, none of which is the default. */
const SAMPLES: Readonly<Record<Extract<Shape, string>, unknown>> = {
  text: "ключ 日本 \u{1f511}",
  name: "límite\n",
  integer: Number.MAX_SAFE_INTEGER,
  count: 0,
  time: 8.64e15,
  flag: true,
  meta: { a: [], b: { c: null, "": 0.5 } },
  refill: { interval: "monthly", amount: 5, refillDay: 31 },
};
function sampleOf(shape: Shape): unknown {
  if (typeof shape === "string") return SAMPLES[shape];
  if (Array.isArray(shape)) return [sampleOf(shape[0] as Shape)];
  return Object.fromEntries(Object.entries(shape).map(([name, part]) => [name, sampleOf(part)]));
}
/** A row with every field that a write sets. */
export type FullRow = Required<Omit<KeyRow, "lastUsedAt">>;
/**
 * A row that has every field of the table, none with its default; references point to rows that {@link withRelated}
 * creates.
 */
export function fullRow(n: number): FullRow {
  const sampled = Object.fromEntries(
    Object.entries<KeyField>(KEY_FIELDS).flatMap(([name, { row, usual }]) =>
      row === undefined || NOT_WRITTEN.includes(name) ? [] : [[name, row === "flag" ? usual !== true : sampleOf(row)]],
    ),
  ) as unknown as FullRow;
  const own = {
    id: `key_full_${n}`,
    digest: `digest-full-${n}`,
    foreignDigest: `foreign-${n}`,
    workspaceId: WS,
    apiId: "api_1",
    version: 0,
  };
  return { ...sampled, ...own, identityId: "id_user", permissions: ["perm_a_read"], roles: ["role_r"], deleted: false };
}
export const RELATED: readonly Write[] = [
  { table: "permissions", row: permission("a.read") },
  { table: "permissions", row: permission("b.read") },
  { table: "roles", row: role("r", ["perm_b_read"]) },
  { table: "identities", row: identity("user", { meta: { plan: "pro" }, enabled: false, expires: 8.64e15 }) },
];
/** Fields that no write sets. */
export const NOT_WRITTEN: readonly string[] = ["lastUsedAt"] satisfies readonly (keyof KeyRow)[];
/** Fields that identify a key, or without which it cannot be found. */
export const NEEDED = ["id", "version", "workspaceId", "apiId", "digest"];

/** Characters of one, two and four bytes, combining ones, and ones that formats give a meaning to. */
const CHARACTERS = ["e\u0301", ...Array.from("aZ0 \n\"\\'%é日\u{1f511}\u2028\u007f")] as const;
const NAMES = ["__proto__", "constructor", "toString", "", "a"] as const;
const NUMBERS = [0, -1, 0.5, 1e-7, 1e21, Number.MAX_SAFE_INTEGER, -Number.MAX_VALUE] as const;

/** A text of up to 20 characters. */
export const randomText = (random: Random): string => random.list(20, () => random.pick(CHARACTERS)).join("");

/** An object of up to six properties, as JSON can hold it. */
export function randomMeta(random: Random): JsonObject {
  return JSON.parse(objectText(random, 3)) as JsonObject;
}

/** As text, since an object literal cannot have an own property called `__proto__`. */
function objectText(random: Random, depth: number): string {
  const property = () => {
    const name = random.pick([random.pick(NAMES), randomText(random)]);
    return `${JSON.stringify(name)}:${valueText(random, depth - 1)}`;
  };
  return `{${random.list(6, property).join(",")}}`;
}

function valueText(random: Random, depth: number): string {
  const kind = random.integer(0, depth > 0 ? 4 : 2);
  if (kind === 0) return random.pick(["null", "true", "false"]);
  if (kind === 1) return JSON.stringify(random.pick(NUMBERS));
  if (kind === 2) return JSON.stringify(randomText(random));
  return kind === 3 ? `[${random.list(3, () => valueText(random, depth - 1)).join(",")}]` : objectText(random, depth);
}
