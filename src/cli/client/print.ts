/** What a command prints of an answer, and whether the answer was a no. Spec §4.2 `--output`. Knows no operation. */
import { EXIT, type ExitCode } from "../io/failures.js";
import type { Io } from "../io/io.js";
import { note, paint, pretty, stripControlChars } from "../io/text.js";
import type { Answer, Envelope } from "./client.js";
import type { GlobalFlags } from "./settings.js";

/** The envelope, or the request id and then the data; what does not fit in there goes to stderr. */
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

/** Programs that asked for envelopes get the one of an error too. */
export async function printRefusal(
  io: Io,
  { output }: GlobalFlags,
  answer: Exclude<Answer, { ok: true }>,
): Promise<void> {
  if (output === "json" && "envelope" in answer) await io.stdout.write(`${pretty(answer.envelope)}\n`);
}

/** A key that is not valid, a limit that does not pass, keys that failed: 1. */
export function exitCodeOfData(data: unknown): ExitCode {
  const { valid, success, passed, failed } = (data ?? {}) as Readonly<Record<string, unknown>>;
  const isNo = valid === false || success === false || passed === false || (Array.isArray(failed) && failed.length > 0);
  return isNo ? EXIT.no : EXIT.done;
}
