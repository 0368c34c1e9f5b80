/**
 * The schema of each field of a key that requests give as it is stored, once: the schemas of new keys and of changes
 * both use it.
 */
import * as v from "valibot";
import { KEY_FIELDS } from "../../contracts/key-fields.js";
import type { KeyRow } from "../../contracts/store.js";
import { CLEARABLE, type SETTABLE } from "./key-names.js";
import type { Schema } from "./parse.js";
import * as atom from "./primitives.js";

type Clearable = (typeof CLEARABLE)[number];
type Given = Clearable | (typeof SETTABLE)[number];

const FIELDS = {
  name: atom.name,
  meta: atom.meta,
  expires: atom.time,
  enabled: atom.boolean,
  ipAllowlist: atom.ipAllowlist,
} satisfies { readonly [K in Given]: Schema<Required<KeyRow>[K]> };

type Fields = typeof FIELDS;
type Optional<S extends v.GenericSchema> = v.ExactOptionalSchema<S, undefined>;

/** Of a new key: any may be left out. */
export const newKeyFields = {
  ...(mapFields((_, schema) => v.exactOptional(schema)) as { readonly [K in Given]: Optional<Fields[K]> }),
  enabled: atom.optionalOr(FIELDS.enabled, KEY_FIELDS.enabled.usual),
};

/** Of a change: any may be left out, and null removes what may be removed. */
export const changedKeyFields = mapFields((name, schema) =>
  v.exactOptional(isClearable(name) ? v.nullable(schema) : schema),
) as {
  readonly [K in Given]: Optional<K extends Clearable ? v.NullableSchema<Fields[K], undefined> : Fields[K]>;
};

function mapFields(change: (name: string, schema: v.GenericSchema) => v.GenericSchema): object {
  return Object.fromEntries(
    Object.entries<v.GenericSchema>(FIELDS).map(([name, schema]) => [name, change(name, schema)]),
  );
}

function isClearable(name: string): boolean {
  return (CLEARABLE as readonly string[]).includes(name);
}
