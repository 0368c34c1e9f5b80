/**
 * Verifies what the customers of the seed would ask, many calls in flight, and counts the answers against what they
 * must be.
 */
import type { V2KeysVerifyKeyRequestBody, VerificationCode } from "../../src/contracts/types.js";
import type { Verifier } from "../../src/verify/verifier.js";
import type { VerifyContext } from "../../src/verify/verify-key.js";
import type { SeedFile } from "./seed.js";

/** One customer: the same request as many times as there are expected answers, one after the other. */
export interface Job {
  readonly request: V2KeysVerifyKeyRequestBody;
  readonly context?: VerifyContext;
  readonly expects: readonly VerificationCode[];
}

/** Answers with one code. */
export interface Outcome {
  readonly code: VerificationCode;
  readonly expected: number;
  readonly answered: number;
  /** Calls whose own answer was another than this, which was expected. */
  readonly wrong: number;
}

export interface WorkloadResult {
  readonly outcomes: readonly Outcome[];
  readonly calls: number;
  readonly milliseconds: number;
}

/** In the order in which a verification decides. Spec §2.2. */
export const CODES: readonly VerificationCode[] = [
  "VALID",
  "NOT_FOUND",
  "DISABLED",
  "EXPIRED",
  "FORBIDDEN",
  "INSUFFICIENT_PERMISSIONS",
  "RATE_LIMITED",
  "USAGE_EXCEEDED",
];
const IN_FLIGHT = 64;

/** Every seeded key, asked once or as often as its kind says. */
export function jobsOf(seeds: readonly SeedFile[]): Job[] {
  return seeds.flatMap((seed) =>
    seed.keys.flatMap(({ plaintext, kind }) =>
      kind ? [{ request: { ...kind.asks, key: plaintext, ...migrationOf(seed) }, expects: kind.expects }] : [],
    ),
  );
}

const STRANGERS = 250;

/** Texts that look like keys and are none. */
export function strangersOf(seeds: readonly SeedFile[]): Job[] {
  return seeds.flatMap((seed) =>
    seed.keys.slice(0, STRANGERS).map(({ plaintext }) => ({
      request: { key: `${plaintext}0`, ...migrationOf(seed) },
      expects: ["NOT_FOUND"] as const,
    })),
  );
}

/**
 * Keys hashed whole with SHA-256 verify as they are; others name their migration, at least the first time.
 */
export const migrationOf = (seed: SeedFile): { migrationId?: string } =>
  seed.algorithm === "sha256" ? {} : { migrationId: seed.migrationId };

export async function runWorkload(verifier: Verifier, jobs: readonly Job[]): Promise<WorkloadResult> {
  const expected = new Map<string, number>();
  const answered = new Map<string, number>();
  const wrong = new Map<string, number>();
  const count = (counts: Map<string, number>, code: string): void => void counts.set(code, (counts.get(code) ?? 0) + 1);
  const began = performance.now();
  const queue = jobs.values();
  const worker = async (): Promise<void> => {
    // Workers share one iterator: each takes the next customer as it gets free.
    for (const job of queue) {
      for (const code of job.expects) {
        const answer = await verifier.verify(job.request, job.context);
        count(expected, code);
        count(answered, answer.code);
        if (answer.code !== code) count(wrong, code);
      }
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, worker));
  const milliseconds = performance.now() - began;
  const of = (counts: Map<string, number>, code: string): number => counts.get(code) ?? 0;
  const outcomes = CODES.map((code) => ({
    code,
    expected: of(expected, code),
    answered: of(answered, code),
    wrong: of(wrong, code),
  }));
  return { outcomes, calls: outcomes.reduce((sum, outcome) => sum + outcome.answered, 0), milliseconds };
}
