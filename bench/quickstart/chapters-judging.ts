/** The chapters that judge keys: what persisted, the workload, one whole answer, revocation, speed. */
import type { V2KeysVerifyKeyResponseData, VerificationCode } from "../../src/contracts/types.js";
import { FOLDER, type State } from "./files.js";
import { CALLER, SPENDER } from "./kinds.js";
import { SHOWN, TO_DELETE, TO_DISABLE } from "./seed.js";
import { measureSpeed, type Speed } from "./speed.js";
import { type Balance, check, keyNamed, type Stage } from "./stage.js";
import { type Job, migrationOf, runWorkload, type WorkloadResult } from "./workload.js";

/** From the second run on: what the first one did is still so. */
export async function remember(stage: Stage, state: State): Promise<void> {
  const { screen, verifier } = stage;
  screen.step(`The file remembers run ${state.runs}`);
  const { credits } = await verifier.verify({ key: keyNamed(stage, SHOWN), credits: { cost: 0 } });
  check(
    stage,
    credits === state.balance,
    `the balance of “${SHOWN}” is still ${state.balance.toLocaleString("en-US")}`,
  );
  await checkCode(stage, TO_DELETE, "NOT_FOUND", "deleted in the first run, is still unknown");
  await checkCode(stage, TO_DISABLE, "DISABLED", "switched off in the first run, is still refused");
}

const BECAUSE: Readonly<Record<VerificationCode, string>> = {
  VALID: "every check passed",
  NOT_FOUND: "never issued",
  DISABLED: "switched off",
  EXPIRED: "past its date",
  FORBIDDEN: "from an address outside the key's allow-list",
  INSUFFICIENT_PERMISSIONS: "the query asks for more than it holds",
  RATE_LIMITED: "the third call where two a day are allowed",
  USAGE_EXCEEDED: "no credits left",
};

/** Everything that the customers ask. */
export async function verifyAll(stage: Stage, jobs: readonly Job[]): Promise<WorkloadResult> {
  const { screen, verifier } = stage;
  screen.step("Verify: every key, and some that were never issued");
  const result = await runWorkload(verifier, jobs);
  const isRight = (outcome: WorkloadResult["outcomes"][number]): boolean =>
    outcome.wrong === 0 && outcome.answered === outcome.expected && outcome.answered > 0;
  screen.table(
    ["code", "expected", "answered", "because", ""],
    result.outcomes.map((outcome) => {
      const { code, expected, answered } = outcome;
      return [code, expected, answered, BECAUSE[code], isRight(outcome) ? "✓" : "✗"];
    }),
  );
  const [calls, ms] = [result.calls.toLocaleString("en-US"), Math.round(result.milliseconds).toLocaleString("en-US")];
  screen.line(
    `${calls} verifications in ${ms} ms, each key met for the first time, every deduction on disk before its answer`,
  );
  check(stage, result.outcomes.every(isRight), "all eight codes were met, each call answered as it must");
  return result;
}

const COST = 40;

/** One answer in full, and the balance around it. */
export async function spend(
  stage: Stage,
): Promise<{ readonly example: V2KeysVerifyKeyResponseData; readonly balance: Balance }> {
  const { screen, verifier, keyring } = stage;
  screen.step("One answer in full");
  const key = keyNamed(stage, SHOWN);
  const read = await verifier.verify({ key, credits: { cost: 0 } });
  const request = {
    permissions: "documents.read AND (billing.view OR documents.share)",
    credits: { cost: COST },
    tags: ["path=/v1/notes"],
  };
  screen.line(`verify(${JSON.stringify({ key: "dk_live_…", ...request })})`);
  const example = await verifier.verify({ key, ...request });
  screen.value(example);
  const last = await verifier.verify({ key });
  const { credits } = await keyring.getKey({ keyId: example.keyId ?? "" });
  const balance = { before: read.credits ?? NaN, after: credits?.remaining ?? NaN };
  screen.step("Its balance");
  screen.table(
    ["call", "cost", "balance"],
    [
      ["before (a cost of 0 only reads)", 0, balance.before],
      ["the call above", COST, example.credits ?? NaN],
      ["a call without credits costs 1", 1, last.credits ?? NaN],
      ["read from the file", 0, balance.after],
    ],
  );
  const ok = example.code === "VALID" && balance.before - balance.after === COST + 1 && last.credits === balance.after;
  check(stage, ok, `${COST + 1} credits were taken, no more and no less`);
  return { example, balance };
}

/** First run only: one key is deleted and one switched off. */
export async function revoke(stage: Stage): Promise<void> {
  const { screen, keyring, verifier } = stage;
  screen.step("Revoke two keys");
  const idOf = async (name: string): Promise<string> =>
    (await verifier.verify({ key: keyNamed(stage, name) })).keyId ?? "";
  const [deleted, disabled] = [await idOf(TO_DELETE), await idOf(TO_DISABLE)];
  await keyring.deleteKey({ keyId: deleted });
  await keyring.updateKey({ keyId: disabled, enabled: false });
  await checkCode(stage, TO_DELETE, "NOT_FOUND", "deleted, is unknown to the very next call");
  await checkCode(stage, TO_DISABLE, "DISABLED", "switched off, is refused by the very next call");
}

/** Beside the bare hash, in the same run. */
export async function measure(stage: Stage): Promise<readonly Speed[]> {
  const { screen, verifier, seeds } = stage;
  screen.step("Speed, on one thread of this machine");
  const requestsOf = (kindName: string): { key: string; migrationId?: string }[] =>
    seeds.flatMap((seed) =>
      seed.keys
        .filter(({ kind }) => kind?.name === kindName)
        .map(({ plaintext, kind }) => ({ ...kind?.asks, key: plaintext, ...migrationOf(seed) })),
    );
  const speed = await measureSpeed(
    verifier,
    FOLDER,
    requestsOf(CALLER).slice(0, 1_000),
    requestsOf(SPENDER).slice(0, 1_000),
  );
  const bare = speed[0]?.perSecond ?? NaN;
  screen.table(
    ["what", "a second", "in bare hashes"],
    speed.map(({ what, perSecond }) => [what, Math.round(perSecond), `${(bare / perSecond).toFixed(1)} ×`]),
  );
  screen.line("a taste of a second or two; `npm run bench` measures with care");
  return speed;
}

async function checkCode(stage: Stage, name: string, code: VerificationCode, words: string): Promise<void> {
  const answer = await stage.verifier.verify({ key: keyNamed(stage, name) });
  check(stage, answer.code === code, `“${name}”, ${words}: ${answer.code}`);
}
