/** Prints responses (contract 4.2, `--output`), and maps their data to exit codes. */
import type { KeyChange } from "../../keyring/schemas/responses.js";
import { EXIT, type ExitCode } from "../io/failures.js";
import type { Io } from "../io/io.js";
import { note, paint, pretty, stripControlChars } from "../io/text.js";
import type { Answer, Envelope } from "./client.js";
import type { GlobalFlags } from "./settings.js";

/** Prints the envelope, or the request id and then the data; the next cursor then goes to stderr. */
export async function printAnswer(io: Io, { output }: GlobalFlags, envelope: Envelope): Promise<void> {
  if (output === "json") return io.stdout.write(`${pretty(envelope)}\n`);
  await io.stdout.write(`${stripControlChars(envelope.meta.requestId)}\n${pretty(envelope.data)}\n`);
  const { pagination } = envelope;
  if (pagination?.hasMore !== true) return;
  await note(
    io,
    paint(io, io.stderr, "dim", `there is more: --cursor ${stripControlChars(String(pagination.cursor))}`),
  );
}

/** With `--output json`, prints the envelope of an error too. */
export async function printRefusal(
  io: Io,
  { output }: GlobalFlags,
  answer: Exclude<Answer, { ok: true }>,
): Promise<void> {
  if (output === "json" && "envelope" in answer) await io.stdout.write(`${pretty(answer.envelope)}\n`);
}

/** Properties of `data` that say yes or no: without one of them an answer is none. */
export const VERDICTS: readonly string[] = ["valid", "success", "passed"];

/** 1 for a key that is not valid, an exceeded limit, keys that failed to migrate, or one of many that was not found. */
export function exitCodeOfData(data: unknown): ExitCode {
  if (Array.isArray(data) && data.some((row) => (row as KeyChange | null)?.outcome === "notFound")) return EXIT.no;
  const { valid, success, passed, failed } = (data ?? {}) as Readonly<Record<string, unknown>>;
  const isNo = valid === false || success === false || passed === false || (Array.isArray(failed) && failed.length > 0);
  return isNo ? EXIT.no : EXIT.done;
}
