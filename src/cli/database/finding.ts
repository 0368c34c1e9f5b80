/** What the checks of `keystile doctor` find. */
import type { Reconciliation } from "../../stores/reconciliation.js";
import { resultName } from "../../stores/sqlite/connection/errors.js";
import { count } from "../io/text.js";

export interface Finding {
  readonly level: "ok" | "warn" | "fail";
  /** What was looked at, such as `disk`. */
  readonly check: string;
  readonly text: string;
}

export const ok = (check: string, text: string): Finding => ({ level: "ok", check, text });
export const warn = (check: string, text: string): Finding => ({ level: "warn", check, text });
export const fail = (check: string, text: string): Finding => ({ level: "fail", check, text });

/** What to do beyond the usual checks. */
export interface ExamineOptions {
  /** Prove every account. */
  readonly reconcile?: boolean;
  /** Called with the number of accounts proved so far. */
  readonly onProgress?: (accounts: number) => void;
}

/** Names what does not add up. @param fit what is said of so many when all do */
export function toFindings(check: string, { accounts, broken, named }: Reconciliation, fit: string): Finding[] {
  if (broken === 0) return [ok(check, `${count(accounts)} ${fit}`)];
  const findings = named.map(({ keyId, problem }) => fail(check, `${keyId}: ${problem}`));
  const more = broken - named.length;
  return more === 0 ? findings : [...findings, fail(check, `and ${count(more)} more`)];
}

/** The code of a driver's error. */
export function codeOf(error: unknown): string {
  const { code } = error as { readonly code?: unknown };
  // node:sqlite has one code for all errors.
  if (code === "ERR_SQLITE_ERROR") return `SQLITE_${resultName(error) ?? "ERROR"}`;
  return typeof code === "string" ? code : "unknown";
}

/** Milliseconds by which the clock may be behind the times in a file. */
export const CLOCK_TOLERANCE = 5_000;
