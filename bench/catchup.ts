/** What does it cost to ask the file whether another process changed something? */
import type { SqliteStoreOptions } from "../src/stores/sqlite/index.js";
import { createVerifier } from "../src/verify/verifier.js";
import { openDataVersion } from "./bare.js";
import { measure, report, scaled, type Side } from "./harness.js";
import { requestsFor } from "./keys.js";
import { openCopy } from "./stores.js";
import { remember, verifyEach, verifySide } from "./work.js";

const KEYS = scaled(1_000, 100);
const ASK = "bare prepared PRAGMA data_version";
const TURN = "one turn of the event loop with nothing in it";
const IN_TURN = "verify: staleness turn, one after the other within a turn";

const closing: (() => Promise<void>)[] = [];

async function open(staleness: NonNullable<SqliteStoreOptions["staleness"]>) {
  const { store, path } = await openCopy({ keys: KEYS, limited: false }, { staleness }, `${staleness}.db`);
  const verifier = createVerifier(store);
  await remember(verifier, KEYS);
  closing.push(async () => {
    await verifier.close();
    await store.close();
  });
  return { store, path, verifier };
}

const call = await open("call");
const turn = await open("turn");
const bare = openDataVersion(call.path);
const { next } = requestsFor(KEYS);

/** So many of the same, which is right when it does not throw. */
function repeat(name: string, act: () => unknown, floor?: string): Side {
  return {
    name,
    ...(floor !== undefined && { floor }),
    async run(operations) {
      for (let i = 0; i < operations; i++) {
        const acted = act();
        if (acted instanceof Promise) await acted;
      }
      return operations;
    },
  };
}

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

const rows = await measure([
  repeat(ASK, () => bare.ask.get()),
  repeat("store.pollChanges: staleness call", () => call.store.pollChanges(), ASK),
  verifySide(turn.verifier, KEYS, { name: IN_TURN }),
  verifySide(call.verifier, KEYS, { name: "verify: staleness call, one after the other", floor: IN_TURN }),
  repeat(TURN, nextTurn),
  {
    name: "verify: staleness turn, one a turn",
    floor: TURN,
    async run(operations) {
      let right = 0;
      for (let i = 0; i < operations; i++) {
        right += await verifyEach(turn.verifier, next, 1);
        await nextTurn();
      }
      return right;
    },
  },
]);
for (const close of closing) await close();
bare.close();
report({ question: "What does it cost to ask the file whether another process changed something?", rows });
