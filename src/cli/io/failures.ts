/** Exit codes, and the error that carries one. */
import { isKeystileError, type ValidationProblem } from "../../contracts/errors.js";

/** Exit codes; `keystile --help` lists them. */
export const EXIT = {
  done: 0,
  /** The result is negative, or the work was done only in part. */
  no: 1,
  usage: 2,
  /** The server, the network or the database file failed, or refused the caller. */
  failed: 3,
} as const;
export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** Holds the exit code of a command, since commander's actions return nothing. */
export interface CommandResult {
  exitCode: ExitCode;
}

/** An expected error: its message is for the user and contains no secret. */
export interface Failure extends Error {
  readonly exitCode: ExitCode;
  /** Details, such as one line per validation error. */
  readonly lines: readonly string[];
}

const BRAND = Symbol("keystile.cli.Failure");

export function failure(exitCode: ExitCode, message: string, lines: readonly string[] = []): Failure {
  return Object.assign(new Error(message), { exitCode, lines, [BRAND]: true });
}

/** An error in the command line. */
export const usage = (message: string, lines: readonly string[] = []): Failure => failure(EXIT.usage, message, lines);

export function isFailure(value: unknown): value is Failure {
  return value instanceof Error && BRAND in value;
}

/** Flag or argument by property, where its name differs from the property's. */
export type FlagAliases = ReadonlyMap<string, string>;

/** Validation errors of a request, one line each: `body.apiId (--api-id): is required; fix`. */
export function describeProblems(
  problems: readonly ValidationProblem[],
  flagAliases: FlagAliases = new Map(),
): string[] {
  return problems.map(({ location, message, fix }) => {
    const flag = flagOf(location, flagAliases);
    return `${location}${flag === undefined ? "" : ` (${flag})`}: ${message}${fix === undefined ? "" : `; ${fix}`}`;
  });
}

/** The flag for a location in the request: `--api-id` for `body.apiId` and everything below it. */
function flagOf(location: string, flagAliases: FlagAliases): string | undefined {
  const name = /^body\.([A-Za-z]+)/.exec(location)?.[1];
  return name && (flagAliases.get(name) ?? `--${toKebab(name)}`);
}

/** `apiId` → `api-id`. */
export function toKebab(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

/**
 * Any error as a failure. Of an unexpected one only the kind is shown, since its message may contain anything.
 * @param flagAliases of the command
 */
export function toFailure(error: unknown, flagAliases?: FlagAliases): Failure {
  if (isFailure(error)) return error;
  if (!isKeystileError(error)) return failure(EXIT.failed, describeUnexpected(error));
  const { status, detail, errors } = error;
  if (status === 400) return usage("the request is not valid", describeProblems(errors, flagAliases));
  return failure(status === 404 || status === 409 ? EXIT.no : EXIT.failed, detail + kindOf(error.cause));
}

/** The code of an error's cause, from the system or driver, which a terminal would not show otherwise. */
function kindOf(cause: unknown): string {
  const { code } = (cause ?? {}) as { code?: unknown };
  return typeof code === "string" ? ` (${code})` : "";
}

function describeUnexpected(error: unknown): string {
  const { code, syscall, name } = (error ?? {}) as { code?: unknown; syscall?: unknown; name?: unknown };
  if (typeof code === "string" && typeof syscall === "string") return `${syscall} failed: ${code}`;
  return `something unexpected went wrong (${typeof code === "string" ? code : typeof name === "string" ? name : typeof error})`;
}
