/** Rows of an import as they are read, and values of another system's: of a database, or the text of a cell. */

/** One key as it was read, not validated. */
export interface SourceRow {
  /** The line of a file of lines, or the place in an array; from 1. */
  readonly number: number;
  /** Absent where it is no JSON. */
  readonly value?: unknown;
  /** Why it is no JSON, or no key of its form. */
  readonly problem?: string;
  /** The text that is no JSON, where it could be read. */
  readonly text?: string;
}

/** A row of another system. */
export type ForeignRow = Readonly<Record<string, unknown>>;

/** What a form says of a row besides its key. */
export interface Remarks {
  /** A column does not carry over, and bounds nothing. */
  lose(column: string, why: string): void;
  /** A field that the form does not know: it might narrow what the key may do, so the row is refused. */
  refuseField(name: string, value: unknown): void;
  /** Why the row can be no key, and what to do. */
  refuse(why: string): void;
}

/** Of a row the fields that are not read: those in `left` are lost, each for its reason; any other is refused. */
export function setAside(fields: ForeignRow, left: Readonly<Record<string, string>>, remarks: Remarks): void {
  for (const [name, value] of Object.entries(fields)) {
    if (Object.hasOwn(left, name)) remarks.lose(name, left[name] as string);
    else remarks.refuseField(name, value);
  }
}

/** Characters of `start` in an import. */
export const MAX_START = 32;

/** An integer; `undefined`: it is none. */
export function integerOf(value: unknown): number | undefined {
  const number = typeof value === "string" && /^-?\d+$/.test(value) ? Number(value) : value;
  return Number.isSafeInteger(number) ? (number as number) : undefined;
}

/** Numbers below it are seconds: as milliseconds they would be before 1973. */
const MIN_MS = 1e11;
const DATE = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d/;

/** Unix milliseconds of an ISO 8601 date, which is UTC without a zone, or of Unix seconds or milliseconds. */
export function timeOf(value: unknown): number | undefined {
  if (typeof value === "string" && DATE.test(value)) {
    const text = value.replace(" ", "T").replace(/([+-]\d\d)$/, "$1:00");
    const time = Date.parse(/(Z|[+-]\d\d:\d\d)$/.test(text) ? text : `${text}Z`);
    return Number.isNaN(time) ? undefined : time;
  }
  const number = integerOf(value);
  return number === undefined || number >= MIN_MS ? number : number * 1_000;
}

/** `false` of a database, a cell or JSON. */
export const isFalse = (value: unknown): boolean => [false, 0, "0", "f", "false"].includes(value as never);
/** `true` of the same; `undefined`: it is neither. */
export const booleanOf = (value: unknown): boolean | undefined =>
  isFalse(value) ? false : [true, 1, "1", "t", "true"].includes(value as never) ? true : undefined;

/**
 * A value that bounds a key, as `read` reads it; or as it is, so that the key is refused. Left out, the key would work
 * without the bound: for ever, without a limit, or with unlimited credits.
 */
export const bound = <T>(read: (value: unknown) => T | undefined, value: unknown): T => read(value) ?? (value as T);
