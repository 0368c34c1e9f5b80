/**
 * Runs a worker under the recorder, and reads what it recorded. Needs Linux and a C compiler: where there is none the
 * rig says so.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { ended, startWorker } from "../workers.js";

/** One thing that was done to a file of the folder, in order. */
export type Event =
  | { readonly kind: "write"; readonly file: string; readonly offset: number; readonly data: Buffer }
  | { readonly kind: "truncate"; readonly file: string; readonly size: number }
  | { readonly kind: "sync"; readonly file: string }
  /** A sync that failed. */
  | { readonly kind: "unsynced"; readonly file: string }
  | { readonly kind: "remove"; readonly file: string };

/** Why the rig cannot run here; `undefined`: it can. */
export function missing(): string | undefined {
  if (process.platform !== "linux") return "the recorder is for Linux only";
  const folder = mkdtempSync(join(tmpdir(), "keystile-recorder-"));
  try {
    buildRecorder(folder);
    return undefined;
  } catch {
    return "the recorder needs a C compiler (cc) and the headers of glibc";
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Builds the recorder. @returns its path, below `folder` */
export function buildRecorder(folder: string): string {
  const library = join(folder, "recorder.so");
  const source = fileURLToPath(new URL("recorder.c", import.meta.url));
  execFileSync("cc", ["-O1", "-shared", "-fPIC", "-o", library, source, "-ldl", "-lpthread"], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  return library;
}

/** Runs the worker to its end; what it did to files of `folder` is in the file `log`. */
export async function runRecorded(
  worker: string,
  orders: object,
  env: Readonly<Record<string, string>>,
): Promise<{ readonly code: number | null }> {
  const child = startWorker(worker, orders, env);
  await ended(child);
  return { code: child.exitCode };
}

const HEAD = 16;
const KINDS = [undefined, "write", "truncate", "sync", "remove", "name", "unsynced"] as const;

/** @returns every event in order; `data` are windows into one buffer */
export function readRecord(log: string): Event[] {
  const bytes = readFileSync(log);
  const names: string[] = [];
  const events: Event[] = [];
  for (let at = 0; at < bytes.length;) {
    const kind = KINDS[bytes[at]!];
    const file = names[bytes[at + 1]!] ?? "";
    const length = bytes.readUInt32LE(at + 4);
    const offset = Number(bytes.readBigUInt64LE(at + 8));
    const data = bytes.subarray(at + HEAD, at + HEAD + length);
    if (kind === "name") names[bytes[at + 1]!] = data.toString();
    else if (kind === "write") events.push({ kind, file, offset, data });
    else if (kind === "truncate") events.push({ kind, file, size: offset });
    else if (kind !== undefined) events.push({ kind, file });
    else throw new Error("the record is not one of the recorder's");
    at += HEAD + length;
  }
  return events;
}
