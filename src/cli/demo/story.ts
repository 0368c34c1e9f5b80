/** The demo's chapters: keys are imported, made, verified with every outcome, spent from and revoked, in a file. */
import { inspect } from "node:util";
import type { V2KeysVerifyKeyResponseData, VerificationCode } from "../../contracts/types.js";
import { createKeyring, type Keyring } from "../../keyring/keyring.js";
import { sqliteStore } from "../../stores/sqlite/index.js";
import { createVerifier, type Verifier } from "../../verify/verifier.js";
import { count } from "../io/text.js";
import { ADA, type Call, calls, exportedRows, FAULTS, GRACE, LINUS, NAMED_KEYS, textOf, TOTAL } from "./keys.js";

/** What one run leaves for the next. */
export interface State {
  readonly runs: number;
  readonly apiId: string;
  /** Of Ada's key when the run ended. */
  readonly balance: number;
}

/** Where the story is told. */
export interface Screen {
  step(title: string): Promise<void>;
  line(text: string): Promise<void>;
  /** Says what must be so, and whether it is. */
  check(isSo: boolean, text: string): Promise<void>;
}

interface Stage extends Screen {
  readonly keyring: Keyring;
  readonly verifier: Verifier;
}

const MIGRATION = "former-provider";
const OUTSIDE = "198.51.100.1";
const COST = 40;
/** Calls in flight. */
const AT_ONCE = 64;

const BECAUSE: Readonly<Record<VerificationCode, string>> = {
  VALID: "every check passed",
  NOT_FOUND: "never issued",
  DISABLED: "disabled",
  EXPIRED: "past its date",
  FORBIDDEN: "called from another network",
  INSUFFICIENT_PERMISSIONS: "lacks what the query asks",
  RATE_LIMITED: "the third call of two a day",
  USAGE_EXCEEDED: "no credits left",
};

/** Runs all chapters. @param before what the last run on this file left */
export async function tellStory(screen: Screen, database: string, before: State | undefined): Promise<State> {
  const store = sqliteStore(database);
  const verifier = createVerifier(store);
  const stage: Stage = { ...screen, keyring: createKeyring(store), verifier };
  try {
    const apiId = before?.apiId ?? (await prepare(stage));
    if (before !== undefined) await remember(stage, before);
    await importAll(stage, apiId, before === undefined);
    await verifyAll(stage, await makeKey(stage, apiId));
    const balance = await spend(stage);
    if (before === undefined) await revoke(stage);
    return { runs: (before?.runs ?? 0) + 1, apiId, balance };
  } finally {
    await verifier.close();
    await store.close();
  }
}

async function prepare({ keyring }: Stage): Promise<string> {
  const { apiId } = await keyring.createApi({ name: "Documents" });
  await keyring.createRole({ name: "viewer", permissions: ["documents.read", "documents.list"] });
  await keyring.createMigration({ id: MIGRATION, algorithm: "sha256" });
  return apiId;
}

const ask = async ({ verifier }: Stage, name: string, cost: number): Promise<V2KeysVerifyKeyResponseData> =>
  verifier.verify({ key: await textOf(name), credits: { cost } });

async function remember(stage: Stage, { runs, balance }: State): Promise<void> {
  await stage.step(`What ${runs === 1 ? "the first run" : `${runs} runs`} left in the file`);
  const { credits } = await ask(stage, ADA, 0);
  await stage.check(credits === balance, `${ADA}: its balance is still ${count(balance)}`);
  await checkRevoked(stage, "still");
}

async function checkRevoked(stage: Stage, when: string): Promise<void> {
  const [grace, linus] = [await ask(stage, GRACE, 0), await ask(stage, LINUS, 0)];
  await stage.check(grace.code === "NOT_FOUND", `${GRACE}: deleted, ${when} NOT_FOUND`);
  await stage.check(linus.code === "DISABLED", `${LINUS}: disabled, ${when} DISABLED`);
}

async function importAll(stage: Stage, apiId: string, isFirst: boolean): Promise<void> {
  const all = NAMED_KEYS + TOTAL;
  await stage.step(`Import ${count(all)} keys of a former provider: hashes, never keys`);
  const reasons = new Map<string, number>();
  const { totals } = await stage.keyring.migrateKeys(
    { migrationId: MIGRATION, apiId, keys: exportedRows() },
    {
      onBatch({ failed }) {
        for (const { reason } of failed) reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
      },
    },
  );
  const refused = [...reasons].map(([reason, keys]) => `${count(keys)} ${reason}`).join(", ");
  await stage.line(`${count(totals.migrated)} imported; refused: ${refused}`);
  const there = FAULTS.ALREADY_EXISTS + (isFirst ? 0 : all);
  const isRight =
    totals.migrated === (isFirst ? all : 0) &&
    reasons.get("ALREADY_EXISTS") === there &&
    reasons.get("UNKNOWN_ROLE") === FAULTS.UNKNOWN_ROLE;
  await stage.check(isRight, isFirst ? "all but the faulty rows went in" : "none went in twice");
}

async function makeKey(stage: Stage, apiId: string): Promise<Call> {
  await stage.step("Make a key, for one network alone");
  const ipAllowlist = ["203.0.113.0/24", "2001:db8::/32"];
  const { key, keyId } = await stage.keyring.createKey({ apiId, prefix: "docs", name: "office", ipAllowlist });
  await stage.line(`${keyId}  ${key.slice(0, 9)}…  shown once; the file has its digest`);
  return { request: { key }, clientAddress: OUTSIDE, expects: Array.from({ length: 50 }, () => "FORBIDDEN") };
}

async function verifyAll(stage: Stage, made: Call): Promise<void> {
  await stage.step("Verify them all, as their owners would");
  const counts = new Map(Object.keys(BECAUSE).map((code) => [code, { expected: 0, returned: 0 }]));
  const began = performance.now();
  let [done, wrong] = [0, 0];
  const queue = calls();
  const verify = async ({ request, clientAddress, expects }: Call): Promise<void> => {
    const context = clientAddress === undefined ? {} : { clientAddress };
    for (const expected of expects) {
      const { code } = await stage.verifier.verify(request, context);
      (counts.get(expected) as { expected: number }).expected++;
      (counts.get(code) as { returned: number }).returned++;
      if (code !== expected) wrong++;
      done++;
    }
  };
  const worker = async (): Promise<void> => {
    for await (const call of queue) await verify(call);
  };
  await Promise.all([verify(made), ...Array.from({ length: AT_ONCE }, worker)]);
  const seconds = ((performance.now() - began) / 1_000).toFixed(1);
  await stage.line(`${"CODE".padEnd(26)}EXPECTED  RETURNED  BECAUSE`);
  for (const [code, { expected, returned }] of counts) {
    const cells = [code.padEnd(24), count(expected).padStart(10), count(returned).padStart(10)].join("");
    await stage.line(`${cells}  ${BECAUSE[code as VerificationCode]}`);
  }
  await stage.line(`${count(done)} calls in ${seconds} s; what they took was on disk before each result`);
  const isWhole = [...counts.values()].every(({ expected, returned }) => expected > 0 && expected === returned);
  await stage.check(wrong === 0 && isWhole, "each of the eight outcomes, and every one as it must be");
}

async function spend(stage: Stage): Promise<number> {
  await stage.step("One call in full");
  const before = (await ask(stage, ADA, 0)).credits ?? NaN;
  const permissions = "documents.read AND (billing.view OR documents.share)";
  const request = { key: await textOf(ADA), permissions, credits: { cost: COST } };
  const result = await stage.verifier.verify(request);
  for (const line of inspect({ ...request, key: "demo_…" }, { breakLength: 70 }).split("\n")) await stage.line(line);
  for (const line of inspect(result, { breakLength: 70 }).split("\n")) await stage.line(line);
  const { credits } = await stage.keyring.getKey({ keyId: result.keyId ?? "" });
  const isRight = result.code === "VALID" && credits?.remaining === before - COST;
  await stage.check(isRight, `${COST} credits were taken from ${count(before)}, no more and no less`);
  return before - COST;
}

async function revoke(stage: Stage): Promise<void> {
  await stage.step("Revoke two keys");
  const idOf = async (name: string): Promise<string> => (await ask(stage, name, 0)).keyId ?? "";
  const [grace, linus] = [await idOf(GRACE), await idOf(LINUS)];
  await stage.keyring.deleteKey({ keyId: grace });
  await stage.keyring.updateKey({ keyId: linus, enabled: false });
  await checkRevoked(stage, "with the next call");
}
