/** The simulator on PostgreSQL: a handle for each client on one database in this process. */
import { afterAll, describe, expect, it } from "vitest";
import { CONNECTION_FAULTS } from "./faults.js";
import { find, play } from "./playing.js";
import { type ActName, cross } from "./crossings.js";
import { endPostgres, postgresBed } from "./postgres-bed.js";
import { noPostgres } from "../servers/postgres.js";
import { postgresServer } from "../stores/postgres/support.js";

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

describe.skipIf(noPostgres)("operations of a plan that meet on a PostgreSQL server", () => {
  const server = postgresServer();
  const open = async () => (await server.open(1))[0]!;
  /** All pairs are played on the other stores. */
  const EXACT = [
    ["call over two accounts", "boundary, expiry and call"],
    ["grant", "set of the cap"],
    ["deletion of the owner", "call within a cap"],
    ["end of a grant that is used up", "grant"],
  ] as const satisfies readonly (readonly [ActName, ActName])[];
  const LEASED = [
    ["call within a cap", "call over two accounts"],
    ["time-out and call", "set of the cap"],
    ["key unlimited", "call within a cap"],
    ["end of a grant that is used up", "call over two accounts"],
    ["call within a cap", "flush of counts"],
  ] as const satisfies readonly (readonly [ActName, ActName])[];

  it.each(EXACT)(
    "%s × %s: statements say what was acknowledged, and balances what is left",
    async (first, second) => {
      expect(await cross({ first, second, open, crashes: false, switches: 1 })).toBeGreaterThan(1);
    },
    300_000,
  );

  it.each(LEASED)(
    "%s × %s, by nodes that lease: the same, also where the first crashes",
    async (first, second) => {
      const pair = { first, second, open, leased: true };
      expect(await cross({ ...pair, crashes: false, switches: 1 })).toBeGreaterThan(1);
      expect(await cross({ ...pair, crashes: true, switches: 0 })).toBeGreaterThan(1);
    },
    300_000,
  );
});
