/** Forms in which other systems hand over keys: `--from`. */
import type { MaybePromise } from "../../contracts/types.js";
import { ofBetterAuth } from "./better-auth.js";
import type { KeySource } from "./key-source.js";
import { ofUnkey, UNKEY_V1 } from "./unkey.js";
import { bound, type ForeignRow, type Remarks, setAside, type SourceRow, timeOf } from "./values.js";
import type { ImportedKeyData } from "../../keyring/schemas/migration-requests.js";
import { importedKey } from "../../keyring/schemas/imports.js";
import { type JsonSchema, toJsonSchema } from "../../keyring/schemas/json-schema.js";
import { nearest } from "../../lib/nearest.js";
import { tryJson } from "../io/input.js";

/** A form of rows. */
export interface Format {
  /** How its keys are hashed; absent: the migration says. */
  readonly algorithm?: string;
  /** Columns by the field of a key that they become, where that has another name. */
  readonly columns: Readonly<Record<string, string>>;
  /** What fields that it does not have are called here: those of an earlier version. */
  readonly renamed?: Readonly<Record<string, string>>;
  toKey(row: ForeignRow, remarks: Remarks, now: number): MaybePromise<object>;
}

/** What `generateAPIKey` returns that nobody should have kept. */
const PREFIXED_SECRETS = { token: "a secret, which is not kept", longToken: "a secret, which is not kept" };

/** By the value of `--from`. */
export const FORMATS: Readonly<Record<string, Format>> = {
  "better-auth": {
    algorithm: "sha256",
    columns: {
      hash: "key",
      externalId: "referenceId",
      expires: "expiresAt",
      ratelimits: "rateLimitMax, rateLimitTimeWindow",
      credits: "remaining, refillAmount, refillInterval",
      meta: "metadata",
    },
    toKey: (row, remarks, now) => ofBetterAuth(camelCase(row), remarks, now),
  },
  csv: {
    columns: {},
    toKey: (row, remarks) => ofColumns(row, {}, remarks),
  },
  unkey: {
    algorithm: "sha256",
    columns: { hash: "plaintext" },
    renamed: UNKEY_V1,
    toKey: (row, remarks) => ofUnkey(camelCase(row), remarks),
  },
  "prefixed-api-key": {
    algorithm: "prefixed-api-key",
    columns: { hash: "longTokenHash", start: "keyPrefix, shortToken" },
    toKey(row, remarks) {
      const { longTokenHash, shortToken, keyPrefix, ...rest } = camelCase(row);
      const key = ofColumns(rest, PREFIXED_SECRETS, remarks);
      const start =
        typeof keyPrefix === "string" ? `${keyPrefix}_${typeof shortToken === "string" ? shortToken : ""}` : undefined;
      return { ...key, hash: longTokenHash, start };
    },
  },
};

/** A row without what is null, its columns in camel case: a table may have `reference_id` for `referenceId`. */
function camelCase(row: ForeignRow): ForeignRow {
  const present = Object.entries(row).filter(([, value]) => value !== null);
  return Object.fromEntries(
    present.map(([name, value]) => [name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()), value]),
  );
}

function ofColumns(row: ForeignRow, left: Readonly<Record<string, string>>, remarks: Remarks): object {
  const key = {};
  for (const [name, value] of Object.entries(row)) {
    const whole = wholesOf(name).find((one) => row[one] !== undefined);
    if (fieldOf(name) === undefined) setAside({ [name]: value }, left, remarks);
    else if (whole !== undefined) remarks.refuse(`has ${whole} and ${name}, a part of it: give one of them`);
    else setField(key, name, value);
  }
  return key;
}

/** The fields that one is a part of: of `credits.refill.amount` `credits` and `credits.refill`. */
const wholesOf = (name: string): string[] => [...name.matchAll(/\./g)].map(({ index }) => name.slice(0, index));

/** What carried over of the rows that went in. */
export interface Carryover {
  /** Keys by field. */
  readonly carried: Map<string, number>;
  /** Keys by column and reason. */
  readonly lost: Map<string, number>;
}

/** The rows of a source as keys of an import. @param carryover is counted up with each row that goes in */
export function inFormat(source: KeySource, format: Format, carryover: Carryover, now: () => number): KeySource {
  const undecided = new Map<number, Noted>();
  return {
    ...source,
    async *read() {
      for await (const row of source.read()) yield await toRow(row, format, undecided, now());
    },
    settle(number, wentIn) {
      const { fields, lost } = undecided.get(number) ?? NOTHING;
      undecided.delete(number);
      if (!wentIn) return;
      for (const field of fields) add(carryover.carried, field);
      for (const column of lost) add(carryover.lost, column);
    },
  };
}

/** What is counted of a row if it goes in. */
interface Noted {
  readonly fields: readonly string[];
  readonly lost: readonly string[];
}
const NOTHING: Noted = { fields: [], lost: [] };

async function toRow(row: SourceRow, format: Format, undecided: Map<number, Noted>, now: number): Promise<SourceRow> {
  const { number, value } = row;
  if (typeof value !== "object" || value === null || Array.isArray(value)) return row;
  const lost: string[] = [];
  const unknown = new Map<string, unknown>();
  const problems: string[] = [];
  const remarks: Remarks = {
    lose: (column, why) => void lost.push(`${column}: ${why}`),
    refuseField: (name, field) => void unknown.set(name, field),
    refuse: (why) => void problems.push(why),
  };
  const key = await format.toKey(value as ForeignRow, remarks, now);
  const fields = Object.entries(key).filter(([, field]) => field !== undefined);
  undecided.set(number, { fields: fields.map(([name]) => name), lost });
  if (unknown.size > 0) problems.push(explainUnknown([...unknown.keys()], format));
  // Unknown fields stay with the key that failed: without them, it would go in without its bounds when given again.
  return {
    ...row,
    value: Object.fromEntries([...unknown, ...fields]),
    ...(problems.length > 0 && { problem: problems.join("; ") }),
  };
}

function explainUnknown(names: readonly string[], { renamed = {} }: Format): string {
  const fields = Object.keys(KEY.properties ?? {});
  const said = names.map((name) => {
    const here = Object.hasOwn(renamed, name) ? renamed[name] : nearest(name, fields);
    return here === undefined ? name : `${name} (here: ${here})`;
  });
  return `has fields that are not known, and could bound the key: ${said.join(", ")}; rename them, or leave them out`;
}

/** Names that are told apart: a file may have others in every row. */
const MAX_NAMES = 100;

function add(counts: Map<string, number>, name: string): void {
  const known = counts.has(name) || counts.size < MAX_NAMES ? name : "other columns";
  counts.set(known, (counts.get(known) ?? 0) + 1);
}

/* A key from columns that are named like the fields of an import, dotted where nested: `credits.refill.amount`. */

/** Fields of an import. */
const KEY = toJsonSchema(importedKey);
/** Free-form: below it every cell is text. */
const META = "meta";
const TEXT: JsonSchema = { type: "string" };

/** How the text of a cell is read, by the type of its field; what cannot be read stays text, which is refused later. */
const READERS: Readonly<Record<string, (text: string) => unknown>> = {
  string: (text) => text,
  integer: (text) => (/^-?\d+$/.test(text) ? Number(text) : text),
  boolean: (text) => ({ true: true, false: false })[text] ?? text,
  object: (text) => tryJson(text).value ?? text,
  array: (text) => (text.startsWith("[") ? (tryJson(text).value ?? text) : text.split(",").map((one) => one.trim())),
};

/** Fields that a date may be given for. In any other, as where columns were mixed up, it is no number. */
const TIMES: ReadonlySet<string> = new Set(["expires", "createdAt"] satisfies (keyof ImportedKeyData)[]);

/** The schema of a field; `undefined`: an import has none of this name. */
function fieldOf(name: string): JsonSchema | undefined {
  const [first, ...rest] = name.split(".");
  if (first === META && rest.length > 0) return rest.includes("") ? undefined : TEXT;
  return name.split(".").reduce<JsonSchema | undefined>((schema, part) => {
    if (schema?.items !== undefined) return /^\d{1,2}$/.test(part) ? schema.items : undefined;
    return Object.hasOwn(schema?.properties ?? {}, part) ? schema?.properties?.[part] : undefined;
  }, KEY);
}

/** Sets a field of a key. @param name that {@link fieldOf} knows @param value of a cell that is no text: as it is */
function setField(key: object, name: string, value: unknown): void {
  const parts = name.split(".");
  const last = parts.pop() as string;
  let place = key as Record<string, unknown>;
  parts.forEach((part, i) => {
    const isList = /^\d+$/.test(parts[i + 1] ?? last) && parts[0] !== META;
    if (typeof place[part] !== "object" || place[part] === null) place[part] = isList ? [] : Object.create(null);
    place = place[part] as Record<string, unknown>;
  });
  place[last] = typeof value === "string" ? readCell(fieldOf(name) ?? TEXT, value) : value;
  if (TIMES.has(name)) place[last] = readDate(place[last]);
}

const readDate = (value: unknown): unknown => (typeof value === "string" ? bound(timeOf, value) : value);

/** An empty cell is an absent field: `null`, which would lift a bound, is as wrong as any other word. */
function readCell({ type = "string" }: JsonSchema, text: string): unknown {
  return READERS[typeof type === "string" ? type : (type[0] as string)]?.(text);
}
