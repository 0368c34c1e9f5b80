/** The simulator on PostgreSQL: a handle for each client on one database in this process. */
import { afterAll, describe, expect, it } from "vitest";
import { CONNECTION_FAULTS } from "./faults.js";
import { find, play } from "./playing.js";
import { type ActName, cross } from "./crossings.js";
import { emptiedPostgres, endPostgres, postgresBed } from "./postgres-bed.js";

/** Its schedules take longer: planted faults are found soon from these seeds. */
const FAULTS = [
  ["polls and drops the changes", 22],
  ["sends a spend again after its answer was lost", 4],
] as const;

afterAll(() => endPostgres());

describe("every interleaving of clients of one PostgreSQL", () => {
  it("what is acknowledged, spent and left agrees, with a handle for each client, whose statements fail, come late or lose their answers", async () => {
    expect(await play({ seed: 1, length: 200, bed: postgresBed }, 400)).toBeGreaterThanOrEqual(400);
  });

  it.each(FAULTS)("a client of PostgreSQL that %s", async (name, first) => {
    const { clauses, ...plant } = CONNECTION_FAULTS[name]!;
    const found = await find(plant, clauses, { bed: postgresBed, first });
    expect(clauses).toContain(found.violation?.clause);
  });
});

describe("operations of a plan that meet on PostgreSQL", () => {
  /** All pairs are played on the other stores. */
  const PAIRS = [
    ["call over two accounts", "boundary, expiry and call"],
    ["grant", "set of the cap"],
    ["deletion of the owner", "call within a cap"],
  ] as const satisfies readonly (readonly [ActName, ActName])[];

  it.each(PAIRS)("%s × %s: statements say what was acknowledged, and balances what is left", async (first, second) => {
    const crossing = { first, second, open: emptiedPostgres, crashes: false, switches: 1 };
    expect(await cross(crossing)).toBeGreaterThan(1);
  });
});
