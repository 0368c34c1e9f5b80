/** How a command ends: exit codes, and the error that carries one. Knows no command. */
import { isKeystileError, type ValidationProblem } from "../../contracts/errors.js";

/** Exit codes; `keystile --help` lists them. */
export const EXIT = {
  done: 0,
  /** The answer is no, or only a part was done. */
  no: 1,
  usage: 2,
  /** The server, the network or the database file failed, or refused the caller. */
  failed: 3,
} as const;
export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** Where a command leaves its exit code: commander's actions answer nothing. */
export interface CommandResult {
  exitCode: ExitCode;
}

/** An end that was foreseen: its text is for the user, and holds no secret. */
export interface Failure extends Error {
  readonly exitCode: ExitCode;
  /** What was wrong where, a line each. */
  readonly lines: readonly string[];
}

const BRAND = Symbol("keystile.cli.Failure");

export function failure(exitCode: ExitCode, message: string, lines: readonly string[] = []): Failure {
  return Object.assign(new Error(message), { exitCode, lines, [BRAND]: true });
}

/** A command line that cannot be carried out as written. */
export const usage = (message: string, lines: readonly string[] = []): Failure => failure(EXIT.usage, message, lines);

export function isFailure(value: unknown): value is Failure {
  return value instanceof Error && BRAND in value;
}

/** By property: the flag or argument that gives it, where the flag has another name. */
export type FlagAliases = ReadonlyMap<string, string>;

/** Faults of a request, a line each: `body.apiId (--api-id): is required; fix`. */
export function describeProblems(
  problems: readonly ValidationProblem[],
  flagAliases: FlagAliases = new Map(),
): string[] {
  return problems.map(({ location, message, fix }) => {
    const flag = flagOf(location, flagAliases);
    return `${location}${flag === undefined ? "" : ` (${flag})`}: ${message}${fix === undefined ? "" : `; ${fix}`}`;
  });
}

/** The flag that fills a place of the request: `body.apiId` and all below it is `--api-id`. */
function flagOf(location: string, flagAliases: FlagAliases): string | undefined {
  const name = /^body\.([A-Za-z]+)/.exec(location)?.[1];
  return name && (flagAliases.get(name) ?? `--${toKebab(name)}`);
}

/** `apiId` → `api-id`. */
export function toKebab(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

/** Any fault as a failure; an unforeseen one shows only its kind, since its text may hold anything. @param flagAliases of the command */
export function toFailure(error: unknown, flagAliases?: FlagAliases): Failure {
  if (isFailure(error)) return error;
  if (!isKeystileError(error)) return failure(EXIT.failed, unforeseen(error));
  const { status, detail, errors } = error;
  if (status === 400) return usage("the request is not valid", describeProblems(errors, flagAliases));
  return failure(status === 404 || status === 409 ? EXIT.no : EXIT.failed, detail + kindOf(error.cause));
}

/** The system's or driver's code of the cause of an error: at a terminal there is no other way to see it. */
function kindOf(cause: unknown): string {
  const { code } = (cause ?? {}) as { code?: unknown };
  return typeof code === "string" ? ` (${code})` : "";
}

function unforeseen(error: unknown): string {
  const { code, syscall, name } = (error ?? {}) as { code?: unknown; syscall?: unknown; name?: unknown };
  if (typeof code === "string" && typeof syscall === "string") return `${syscall} failed: ${code}`;
  return `something unexpected went wrong (${typeof code === "string" ? code : typeof name === "string" ? name : typeof error})`;
}
