/** Headers and error of the workspace request limit (contract 4.1-6, 7). */
import { KeystileError } from "../contracts/errors.js";
import type { RequestVerdict } from "./workspace-limit.js";

/** `ratelimit-*`, and `retry-after` if exceeded: alternating names and values, times in whole seconds. */
export function limitHeaders({ exceeded, limit, remaining, reset, retryAfter }: RequestVerdict): readonly string[] {
  const headers = [
    "ratelimit-limit",
    `${limit}`,
    "ratelimit-remaining",
    `${remaining}`,
    "ratelimit-reset",
    `${toSeconds(reset)}`,
  ];
  if (exceeded) headers.push("retry-after", `${Math.max(1, toSeconds(retryAfter))}`);
  return headers;
}

/** The 429. */
export const tooMany = (): KeystileError =>
  new KeystileError(
    "TOO_MANY_REQUESTS",
    "the workspace has made its calls for now; wait for the seconds that Retry-After says",
  );

const toSeconds = (ms: number): number => Math.ceil(ms / 1_000);
