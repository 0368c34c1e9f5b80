/**
 * The rig of the failing store: verifies on one, and says everything that went wrong. Ruling A2, hostile input A113,
 * docs/guarantees.md (Failure).
 */
import { isKeystileError } from "../../src/contracts/errors.js";
import type { Store } from "../../src/contracts/store.js";
import type { V2KeysVerifyKeyResponseData } from "../../src/contracts/types.js";
import { createKeyring } from "../../src/keyring/keyring.js";
import { createVerifier } from "../../src/verify/verifier.js";
import type { CreditsOptions } from "../../src/verify/verifier-options.js";
import { dice } from "../model/dice.js";
import { failingStore } from "./failing-store.js";

const CREDITS = 300;
const WAVES = 30;
const IN_FLIGHT = 32;
/** Leases expire in the rig's own time. */
const TTL = 10_000;

export interface FailureReport {
  /** What must not be. Empty: the promises held. */
  readonly problems: readonly string[];
  /** Credits that were answered VALID. */
  readonly acknowledged: number;
  readonly failures: number;
}

/**
 * @param real a new, empty store
 * @param between what stands between the verifier and the failing store: a planted fault, or nothing
 */
export async function rehearseFailures(
  real: Store,
  credits: CreditsOptions,
  seed: number,
  between: (store: Store) => Store = (store) => store,
): Promise<FailureReport> {
  const problems: string[] = [];
  let now = 1_700_000_000_000;
  const clock = () => now;
  const rolled = dice(seed);
  const keyring = createKeyring(real, { clock });
  const { apiId } = await keyring.createApi({ name: "failing" });
  const limited = await keyring.createKey({ apiId, credits: { remaining: CREDITS } });
  const victim = await keyring.createKey({ apiId });
  const disabled = await keyring.createKey({ apiId, enabled: false });
  const plain = await keyring.createKey({ apiId, permissions: ["docs.*"] });
  const failing = failingStore(real, rolled);
  const small = { cache: { size: 4 } };
  const leased = credits.mode === "leased" ? { ...credits, ttl: TTL } : credits;
  const verifier = createVerifier(between(failing.store), { clock, credits: leased, ...small });

  const judge = (code: string, allowed: readonly string[], what: string): void => {
    if (!allowed.includes(code)) problems.push(`${what} was answered ${code}`);
  };
  let acknowledged = 0;
  let failures = 0;
  let revoked = false;
  const ask = async (): Promise<void> => {
    const kind = rolled.below(6);
    const request = [
      { key: limited.key },
      { key: limited.key },
      { key: victim.key },
      { key: disabled.key },
      { key: plain.key, permissions: rolled.chance(0.5) ? "docs.read" : "billing" },
      { key: "nobody's" },
    ][kind]!;
    const isRevoked = revoked;
    let answer: V2KeysVerifyKeyResponseData;
    try {
      answer = await verifier.verify(request);
    } catch (error) {
      failures++;
      if (!isKeystileError(error) || !["STORE_FAILED", "STORE_BUSY"].includes(error.code))
        problems.push(`a failure came out as ${String(error)}`);
      return;
    }
    const { code } = answer;
    if (kind < 2 && code === "VALID") acknowledged++;
    if (kind < 2) judge(code, ["VALID", "USAGE_EXCEEDED"], "a limited key");
    if (kind === 2)
      judge(code, isRevoked ? ["DISABLED"] : ["VALID", "DISABLED"], isRevoked ? "a revoked key" : "a key");
    if (kind === 3) judge(code, ["DISABLED"], "a disabled key");
    if (kind === 4)
      judge(code, [request.permissions === "billing" ? "INSUFFICIENT_PERMISSIONS" : "VALID"], "a key with permissions");
    if (kind === 5) judge(code, ["NOT_FOUND"], "an unknown key");
  };
  for (let wave = 0; wave < WAVES; wave++) {
    await Promise.all(Array.from({ length: IN_FLIGHT }, ask));
    if (wave === WAVES / 2) {
      await keyring.updateKey({ keyId: victim.keyId, enabled: false });
      revoked = true;
    }
  }
  // Nothing of it is remembered as an answer: the first call of a calm store is right.
  failing.calm();
  const { code } = await verifier.verify({ key: limited.key, credits: { cost: 0 } });
  judge(code, ["VALID"], "after the failures, a key");
  await verifier.close();

  // Reserves of leases that were not ended expire, and the next draw brings them back.
  now += 2 * TTL;
  const last = createVerifier(real, { clock, credits: leased, ...small });
  if ((await last.verify({ key: limited.key })).code === "VALID") acknowledged++;
  await last.close();
  const balance = (await keyring.getKey({ keyId: limited.keyId })).credits!.remaining!;
  const { spent } = failing.losses;
  const deducted = CREDITS - balance;
  // What draws took before their answer was lost came back with the end of their leases.
  if (deducted !== acknowledged + spent)
    problems.push(`${deducted} deducted, ${acknowledged} acknowledged and ${spent} lost in failures: some vanished`);
  return { problems: [...new Set(problems)], acknowledged, failures };
}
