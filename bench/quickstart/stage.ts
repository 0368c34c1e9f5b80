/** What the chapters of the story share, and what the whole story reports. */
import type { V2KeysVerifyKeyResponseData } from "../../src/contracts/types.js";
import type { Keyring } from "../../src/keyring/keyring.js";
import type { Verifier } from "../../src/verify/verifier.js";
import type { Imported } from "./importing.js";
import type { SeedFile } from "./seed.js";
import type { Speed } from "./speed.js";
import type { Screen } from "./terminal.js";
import type { WorkloadResult } from "./workload.js";

/** Something that the story says, and whether it was so. */
export interface Check {
  readonly what: string;
  readonly ok: boolean;
}

export interface Stage {
  readonly screen: Screen;
  readonly keyring: Keyring;
  readonly verifier: Verifier;
  readonly seeds: readonly SeedFile[];
  readonly checks: Check[];
}

/** Balance of the shown key before and after it was spent from. */
export interface Balance {
  readonly before: number;
  readonly after: number;
}

/** The whole run, as `--output json` prints it. */
export interface Report {
  readonly run: number;
  readonly database: string;
  readonly imports: readonly Imported[];
  readonly workload: WorkloadResult;
  readonly example: V2KeysVerifyKeyResponseData;
  readonly balance: Balance;
  readonly speed: readonly Speed[];
  readonly checks: readonly Check[];
}

/** Says it on the screen and remembers it for the exit code. */
export function check(stage: Stage, ok: boolean, what: string): void {
  stage.checks.push({ what, ok });
  stage.screen.check(ok, what);
}

/** The key of the story with this name, as its owner holds it. */
export function keyNamed(stage: Stage, name: string): string {
  const key = stage.seeds.flatMap((seed) => seed.keys).find((candidate) => candidate.line.name === name);
  if (!key) throw new Error(`the seed has no key named ${name}`);
  return key.plaintext;
}
