/** Steps that verify: one request, many at once, and requests that are not well formed. */
import type {
  KeysVerifyKeyRatelimit,
  V2KeysVerifyKeyRequestBody,
  V2KeysVerifyKeyResponseData,
} from "../../src/contracts/types.js";
import type { Dice } from "./dice.js";
import { rollAsk, write } from "./naive-permissions.js";
import { type AppliedLimit, type Expected, judge, type Verification } from "./naive-verify.js";
import { learnId, learnLimits, refused, same, type Stage } from "./stage.js";
import { ADDRESSES, ASKED, FOREIGN, LIMITS, MIGRATIONS } from "./vocabulary.js";
import { isHidden, type ModelKey, type World } from "./world.js";

/** One verification, its whole answer compared. */
export async function verify(stage: Stage): Promise<void> {
  const { world, dice, hand } = stage;
  const verification = roll(world, dice);
  const { verifier, model } = dice.chance(0.85) ? hand.judges[0] : hand.judges[1];
  stage.note("verify", verification);
  const { request, address } = verification;
  const answering = verifier.verify(request, address === undefined ? {} : { clientAddress: address });
  await compare(stage, answering, judge(world, model, verification));
}

/** Many at once for one key: answers come in the order of the calls, and never grant more than is there. */
export async function burst(stage: Stage): Promise<void> {
  const { world, dice, hand } = stage;
  const { request, ask, address } = roll(world, dice);
  // What has to ask the store first may overtake: only the order of those that do not is known.
  const { migrationId: _, ...direct } = request;
  const count = 2 + dice.below(30);
  stage.note("burst", count, direct, address);
  const { verifier, model } = hand.judges[0];
  const calls = Array.from({ length: count }, () =>
    verifier.verify(direct, address === undefined ? {} : { clientAddress: address }),
  );
  const expected = calls.map(() => judge(world, model, { request: direct, ask, address }));
  const settled = await Promise.allSettled(calls);
  for (const [i, outcome] of settled.entries()) {
    const due = expected[i]!;
    if (
      "answer" in due &&
      ["RATE_LIMITED", "DISABLED", "EXPIRED", "FORBIDDEN", "INSUFFICIENT_PERMISSIONS"].includes(due.answer.code)
    ) {
      // Their balance is a read beside the spends that are on their way: any one of theirs will do.
      if (outcome.status === "fulfilled" && "credits" in outcome.value && "credits" in due.answer) {
        const seen = outcome.value.credits;
        const most = expected.reduce((max, one) => Math.max(max, ("answer" in one && one.answer.credits) || 0), 0);
        const cost = request.credits?.cost ?? 1;
        if (seen < due.answer.credits || seen > most + cost)
          throw new Error(`burst: an early refusal shows a balance of ${seen}`);
        due.answer.credits = seen;
      }
    }
    await compare(
      stage,
      outcome.status === "fulfilled" ? Promise.resolve(outcome.value) : Promise.reject(outcome.reason as Error),
      due,
    );
  }
}

/** Requests that are not well formed take nothing, whatever the key is. */
export async function misuse(stage: Stage): Promise<void> {
  const { world, dice, hand } = stage;
  const key = dice.pick(textsOf(world));
  const [request, code, locations] = dice.pick<[object, "BAD_REQUEST" | "PERMISSIONS_QUERY_SYNTAX", string[]]>([
    [
      { key, permissions: dice.pick(["", " ", "a AND", "(a", "a b", "a OR OR b", "()", "a)", "é", "a\0"]) },
      "PERMISSIONS_QUERY_SYNTAX",
      ["body.permissions"],
    ],
    [{ key: "" }, "BAD_REQUEST", ["body.key"]],
    [{ key, credits: { cost: dice.pick([-1, 1.5, 1e13, NaN]) } }, "BAD_REQUEST", ["body.credits.cost"]],
    [{ key, ratelimits: [{ name: "requests" }, { name: "xy" }] }, "BAD_REQUEST", ["body.ratelimits[1].name"]],
    [{ key, surprise: 1, tags: [""] }, "BAD_REQUEST", ["body.surprise", "body.tags[0]"]],
    [{ key: `${key}\ud800` }, "BAD_REQUEST", ["body.key"]],
  ]);
  stage.note("misuse", request);
  const call = hand.judges[0].verifier.verify(request as V2KeysVerifyKeyRequestBody);
  // An empty text breaks a bound before it is a query.
  const isEmpty = "permissions" in request && request.permissions === "";
  await refused("misuse", call, isEmpty ? "BAD_REQUEST" : code, locations);
}

async function compare(
  stage: Stage,
  answering: Promise<V2KeysVerifyKeyResponseData>,
  expected: Expected,
): Promise<void> {
  const { world, counts } = stage;
  if ("locations" in expected) {
    count(counts, "BAD_REQUEST");
    return refused("verify", answering, "BAD_REQUEST", expected.locations);
  }
  const answer = await answering;
  count(counts, expected.answer.code);
  if (expected.key !== undefined) learn(world, expected, expected.key, answer);
  same("verify", answer, expected.answer);
}

/** Completes what is expected by ids that only the engine can know; each is checked and then stays as it is. */
function learn(
  world: World,
  { answer: due, limits }: Extract<Expected, { answer: unknown }>,
  key: ModelKey,
  answer: V2KeysVerifyKeyResponseData,
): void {
  const { identity } = key;
  if (due.identity !== undefined && identity !== undefined) {
    identity.id ??= answer.identity && learnId(world, answer.identity.id, /^id_\w{6,}$/);
    learnLimits(world, identity.limits, answer.identity?.ratelimits);
    const shown = due.identity.ratelimits?.map((limit, i) => ({ ...limit, id: identity.limits[i]!.id ?? "" }));
    due.identity = { ...due.identity, id: identity.id ?? "", ...(shown && { ratelimits: shown }) };
  }
  if (due.ratelimits === undefined) return;
  due.ratelimits = due.ratelimits.map((result, i) => ({
    ...result,
    id: idOf(world, key, limits[i]!, answer.ratelimits?.[i]?.id),
  }));
}

function idOf(world: World, key: ModelKey, { row, name }: AppliedLimit, shown: string | undefined): string {
  if (row !== undefined) {
    learnLimits(world, [row], shown === undefined ? [] : [{ id: shown, name: row.name }]);
    return row.id ?? "";
  }
  // Its bucket may be shared with other keys; its id is the key's own.
  const adHoc = `${key.id} ${name}`;
  const known = world.adHoc.get(adHoc);
  if (known !== undefined) return known;
  const id = learnId(world, shown, /^rl_\w{5,}$/);
  world.adHoc.set(adHoc, id);
  return id;
}

function roll(world: World, dice: Dice): Verification {
  const ask = dice.chance(0.35) ? rollAsk(dice, ASKED) : undefined;
  const text = ask && write(ask, dice);
  const request: V2KeysVerifyKeyRequestBody = {
    key: dice.pick(textsOf(world)),
    ...(text !== undefined && text.length <= 1_000 && { permissions: text }),
    ...(dice.chance(0.4) && { credits: { cost: dice.pick([0, 0, 1, 2, 3, 7, 1_000, 1_000_000_000_000]) } }),
    ...(dice.chance(0.4) && { ratelimits: rollChecks(dice) }),
    ...(dice.chance(0.1) && { tags: ["path=/x", "a"] }),
    ...(dice.chance(0.3) && { migrationId: dice.pick([...MIGRATIONS.map(({ id }) => id), "mig_unknown", ""]) }),
  };
  return {
    request,
    ask: request.permissions === undefined ? undefined : ask,
    address: dice.chance(0.6) ? dice.pick(ADDRESSES) : undefined,
  };
}

function rollChecks(dice: Dice): KeysVerifyKeyRatelimit[] {
  return Array.from({ length: 1 + dice.below(3) }, () => ({
    name: dice.chance(0.9) ? dice.pick(LIMITS) : `${"é".repeat(130)}x`,
    ...(dice.chance(0.4) && { cost: dice.pick([0, 1, 2, 3, 101, Number.MAX_SAFE_INTEGER]) }),
    ...(dice.chance(0.35) && { limit: dice.pick([0, 1, 3, 4, 10, 2_000_000]) }),
    ...(dice.chance(0.35) && { duration: dice.pick([0, 1, 999, 1_000, 90_000, DAYS_40]) }),
  }));
}
const DAYS_40 = 40 * 86_400_000;

function textsOf(world: World): string[] {
  const texts = world.keys.flatMap(({ text }) => text ?? []);
  const live = world.keys.flatMap((key) => (isHidden(key) ? [] : (key.text ?? [])));
  return [...texts, ...live, ...live, ...live, ...live, ...live, ...FOREIGN, "unknown", "\u{1F511} nobody's"];
}

function count(counts: Map<string, number>, name: string): void {
  counts.set(name, (counts.get(name) ?? 0) + 1);
}
