/**
 * What an import tells of single keys: files of those that went in and of those that failed, and the first failures.
 */
import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { deepJson } from "../io/deep-json.js";
import { EXIT, failure, usage } from "../io/failures.js";
import type { Io } from "../io/io.js";
import { isSameFile } from "../io/same-file.js";
import { count, note, stripControlChars } from "../io/text.js";
import type { Batch, Row } from "./batches.js";
import type { KeySource } from "./key-source.js";

/** What became of the keys of a batch. */
export interface Outcome {
  readonly migrated: readonly { readonly hash: string; readonly keyId: string }[];
  readonly failed: readonly { readonly hash: string; readonly reason: string; readonly message: string }[];
}

/** A key that failed, as a line of `--failures` has it besides its number. */
interface Failed {
  readonly number: number;
  /** Why, as a stable code. */
  readonly reason: string;
  readonly message: string;
  /** The key as given. */
  readonly key?: unknown;
  /** The text of a line that is no JSON. */
  readonly text?: string;
}

/** Of a key that breaks the schema, or a row that is no JSON. */
const INVALID = "INVALID_KEY";
/** Failures that are told on stderr. */
const MAX_NOTED = 5;
/** Characters of a message that is told on stderr. */
const MAX_CHARACTERS = 300;

/** A file that a report must not be written over. */
export interface OtherFile {
  readonly path: string;
  /** What it is, in words. */
  readonly what: string;
}

/** Where the results of batches go. */
export interface Report {
  add(batch: Batch, outcome: Outcome): Promise<void>;
  /** Closes the files, and tells on stderr which keys failed first. */
  end(): Promise<void>;
}

/** Where a report writes. */
export interface ReportFlags {
  /** Path: a line per failed key; emptied first. */
  readonly failures?: string;
  /** Path: a line per key that went in; appended to, so that a second run keeps those of the first. */
  readonly successes?: string;
}

/**
 * Opens the files of an import.
 * @param source of the rows: it is told what became of them
 * @param others files that must not be written
 * @throws failure 2 if a file cannot be written
 */
export async function openReport(
  io: Io,
  flags: ReportFlags,
  { unit, settle }: KeySource,
  others: readonly OtherFile[],
): Promise<Report> {
  const { failures, successes } = flags;
  const failed = failures === undefined ? undefined : await openOwn("--failures", failures, constants.O_TRUNC, others);
  let migrated: OwnFile | undefined;
  try {
    const taken = failures === undefined ? others : [...others, { path: failures, what: "the file of --failures" }];
    if (successes !== undefined) migrated = await openOwn("--successes", successes, constants.O_APPEND, taken);
  } catch (error) {
    await failed?.close();
    throw error;
  }
  const noted: string[] = [];
  let more = 0;
  const reasons = new Map<string, number>();
  return {
    async add(batch, outcome) {
      await writeLines(migrated, outcome.migrated);
      const found = failedOf(batch, outcome);
      const said = found.map(({ number, ...rest }) => ({ [unit]: number, ...rest }));
      await writeLines(failed, said);
      const wrong = new Set(found.map(({ number }) => number));
      for (const { number } of [...batch.rows, ...batch.invalid]) settle?.(number, !wrong.has(number));
      for (const { number, reason, message } of found) {
        reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
        if (noted.length < MAX_NOTED) noted.push(`${unit} ${count(number)}: ${reason}: ${message}`);
        else more++;
      }
    },
    async end() {
      await failed?.close();
      await migrated?.close();
      for (const text of noted) await note(io, stripControlChars(text.slice(0, MAX_CHARACTERS)));
      if (more > 0) await note(io, `and ${count(more)} more${failures === undefined ? "; --failures keeps them" : ""}`);
      if (more === 0) return;
      for (const [reason, failed] of reasons) await note(io, `${count(failed)} failed as ${reason}`);
    },
  };
}

/** A file of a report, and what it is called. */
interface OwnFile {
  readonly name: string;
  readonly handle: FileHandle;
  close(): Promise<void>;
}

/** @throws failure 3: none of these lines is in the file, nor a part of one */
async function writeLines(file: OwnFile | undefined, rows: readonly object[]): Promise<void> {
  if (file === undefined || rows.length === 0) return;
  const { name, handle } = file;
  const { size } = await handle.stat();
  try {
    await handle.appendFile(rows.map((row) => `${deepJson(row)}\n`).join(""));
  } catch (error) {
    // What is no regular file has no end to cut off.
    await handle.truncate(size).catch(() => undefined);
    const { code = "unknown" } = error as NodeJS.ErrnoException;
    throw failure(EXIT.failed, `${name}: cannot be written (${code}); the keys of the last batch are not in it`);
  }
}

/** By number. */
function failedOf({ rows, invalid }: Batch, { failed }: Outcome): Failed[] {
  const wrong = invalid.map(({ number, value, text, message }): Failed => ({
    number,
    reason: INVALID,
    message,
    ...(value !== undefined && { key: value }),
    ...(text !== undefined && { text }),
  }));
  return [...wrong, ...refusedOf(rows, failed)].sort((a, b) => a.number - b.number);
}

/** The keys that failed, by hash. Of several keys with the same hash the later ones, since the first is inserted. */
function refusedOf(rows: readonly Row[], failed: Outcome["failed"]): Failed[] {
  const left = new Map<string, (typeof failed)[number][]>();
  for (const one of failed) left.set(one.hash, [...(left.get(one.hash) ?? []), one]);
  return rows.toReversed().flatMap(({ number, key }): readonly Failed[] => {
    const why = left.get(key.hash)?.pop();
    return why === undefined ? [] : [{ number, reason: why.reason, message: why.message, key }];
  });
}

/** Opens a file to write through no link, for its owner alone, also if it was there: it has keys' data. */
async function openOwn(flag: string, path: string, how: number, others: readonly OtherFile[]): Promise<OwnFile> {
  const other = others.find((one) => isSameFile(one.path, path));
  if (other !== undefined) throw usage(`${flag}: is ${other.what}`);
  try {
    const { O_CREAT, O_NOFOLLOW, O_WRONLY } = constants;
    const handle = await open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | how, 0o600);
    // A device, such as /dev/null, is everybody's.
    if ((await handle.stat()).isFile()) await handle.chmod(0o600);
    return { name: `${flag}: ${path}`, handle, close: () => handle.close() };
  } catch (error) {
    const { code = "unknown" } = error as NodeJS.ErrnoException;
    const why = code === "ELOOP" ? "is a symbolic link; name the file itself" : `cannot be written (${code})`;
    throw usage(`${flag}: ${path}: ${why}`);
  }
}
