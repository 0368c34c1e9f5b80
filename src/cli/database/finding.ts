/** What the checks of `keystile doctor` find. */

export interface Finding {
  readonly level: "ok" | "warn" | "fail";
  readonly check:
    | "node"
    | "driver"
    | "file"
    | "server"
    | "primary"
    | "pooler"
    | "disk"
    | "schema"
    | "integrity"
    | "durability"
    | "root keys"
    | "credits"
    | "limits"
    | "clock";
  readonly text: string;
}

export const ok = (check: Finding["check"], text: string): Finding => ({ level: "ok", check, text });
export const warn = (check: Finding["check"], text: string): Finding => ({ level: "warn", check, text });
export const fail = (check: Finding["check"], text: string): Finding => ({ level: "fail", check, text });

/** The code of a driver's error. */
export function codeOf(error: unknown): string {
  const { code } = error as { readonly code?: unknown };
  return typeof code === "string" ? code : "unknown";
}

/** Milliseconds by which the clock may be behind the times in a file. */
export const CLOCK_TOLERANCE = 5_000;
