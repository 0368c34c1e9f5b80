import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { noPostgresServer } from "../servers/postgres.js";
import { type Control, CONTROLS, createRig, type Rig, runControl, toRow } from "./neighbours.js";
import { type Attack, type AttackName, ATTACKS } from "./neighbours/attacks.js";

/** A tenth of the strength for a second, with the same verdicts; the long run is `npm run rigs neighbours`. */
const SHORT = { scale: 0.1, ms: 1_000, killAt: 3_072 };
/** One of each kind; the rest, and a verdict on the slowest of the neighbour's calls, are in the long run. */
const SHORT_ATTACKS = [
  "bodies pipelined",
  "bodies that never end",
  "pages unread",
  "chunks of a byte, many",
  "bad root key pipelined",
  "idle connections",
  "heads that expect",
  "heads alone, of many addresses, a listener",
  "heads of sign-in, of many addresses, the console",
  "bodies too long",
  "short tags, PostgreSQL",
  "long tags of two bytes a character, a writer thread",
  "long tags, little memory",
  "updates that change nothing",
  "roles of wildcards",
  "every operation",
] as const satisfies readonly AttackName[];
const LASTING = new Set<Control["caughtBy"]>(["uncounted", "washed", "recorded"]);
/** One of memory, one of refusals, one of the times of the neighbour's calls; and what must be there afterwards. */
const SHORT_CONTROLS = CONTROLS.filter(
  ({ fault, caughtBy }) =>
    "budget" in fault || "limiterShare" in fault || fault.without === "paced-reads" || LASTING.has(caughtBy),
);
/** The attack that shows whether reads are paced. */
const PACED: AttackName = "chunks of a byte, many";
/** For what shows in times and memory; what lasts shows at once. */
const LONGER = { ...SHORT, scale: 0.3, ms: 4_000 };
const TIMEOUT_MS = 180_000;

// What a process holds, and how long it waited for a processor, is read in /proc.
describe.skipIf(process.platform !== "linux")(
  "neighbours: no caller ends the server, or slows or refuses another",
  () => {
    let rig: Rig;
    beforeAll(async () => {
      rig = await createRig();
    }, TIMEOUT_MS);
    afterAll(() => rig.close());

    it.each(SHORT_ATTACKS)(
      "%s",
      async (name) => {
        const { engine }: Attack = ATTACKS[name];
        if (engine === "postgres" && noPostgresServer !== undefined) return;
        const report = await rig.run(name, name === PACED ? LONGER : SHORT);
        expect(
          report.problems.filter((problem) => problem !== "p99"),
          `${toRow(report)} ${JSON.stringify(report.neighbour.refusals)}`,
        ).toEqual([]);
        expect(report.neighbour.calls).toBeGreaterThan(20);
      },
      TIMEOUT_MS,
    );

    it.each(SHORT_CONTROLS)(
      "control: $fault is found out by $attack",
      async (control) => {
        const { isCaught, rows } = await runControl(rig, control, LASTING.has(control.caughtBy) ? SHORT : LONGER);
        expect(isCaught, rows.join("\n")).toBe(true);
      },
      TIMEOUT_MS,
    );
  },
);
