/** Sends the request of a command and prints the response (contract 4.2). */
import { isObject } from "../../lib/copy-json.js";
import { ROOT_KEY_VARIABLE } from "../io/environment.js";
import { EXIT, type ExitCode, failure, usage } from "../io/failures.js";
import { readJson } from "../io/input.js";
import type { Io } from "../io/io.js";
import { call, refusal, type Request } from "./client.js";
import { assertOneStdin, buildBody, type Flag, givenFlags } from "./flags.js";
import { exitCodeOfData, printAnswer, printRefusal } from "./print.js";
import { type GlobalFlags, readSettings, type Settings } from "./settings.js";

/** The request, from `--body` or from flags, but not both. */
export async function readBody(
  io: Io,
  globals: GlobalFlags,
  flags: readonly Flag[],
  given: Readonly<Record<string, unknown>>,
): Promise<unknown> {
  assertOneStdin(globals, flags, given);
  const { body } = globals;
  if (body === undefined) return buildBody(io, flags, given);
  const others = givenFlags(flags, given);
  if (others.length > 0)
    throw usage(`--body cannot be combined with the flags that build the request: ${others.join(", ")}`);
  return readJson(io, "--body", body);
}

/** Settings with a root key. @throws failure 2 if there is none */
export async function readCredential(io: Io, flags: GlobalFlags): Promise<Settings> {
  const settings = await readSettings(io, flags);
  if (settings.rootKey !== undefined) return settings;
  throw usage(`no root key: set ${ROOT_KEY_VARIABLE}, or use --root-key or "rootKey" in the config file`);
}

/**
 * Sends one request and prints the response.
 * @param needs properties that the data must have
 * @param selects what the request selects by a filter, of which nothing may be found; absent: it selects nothing
 * @throws failure for anything but a success
 */
export async function send(
  io: Io,
  flags: GlobalFlags,
  settings: Settings,
  request: Request,
  needs: readonly string[] = [],
  selects?: string,
): Promise<ExitCode> {
  const answer = await call(io, settings, request);
  if (!answer.ok) {
    await printRefusal(io, flags, answer);
    throw refusal(answer);
  }
  const { data, pagination } = answer.envelope;
  const missing = needs.find((field) => !isObject(data) || !Object.hasOwn(data, field));
  if (missing !== undefined)
    throw failure(EXIT.failed, `the server answered without \`${missing}\`; is the address that of this service?`);
  await printAnswer(io, flags, answer.envelope);
  if (selects !== undefined && Array.isArray(data) && data.length === 0 && pagination?.hasMore !== true)
    throw failure(EXIT.no, `no ${selects} was found`);
  return exitCodeOfData(data);
}
