import { describe, expect, it } from "vitest";
import { noPostgresServer } from "../servers/postgres.js";
import { MOST, runStall, type Stall } from "./postgres-stalls.js";

describe.skipIf(noPostgresServer !== undefined)("PostgreSQL, of which something does not go on", () => {
  it.each<Stall>(["a locked row", "a lost standby", "a stopped process"])(
    "%s costs the calls that need it, and nothing else",
    { timeout: 200_000 },
    async (stall) => {
      const report = await runStall(stall, 3);
      expect(report).toMatchObject({ refused: 0, failed: 0, lost: 0 });
      expect(report.connections).toBeLessThanOrEqual(MOST);
      expect(report.grantsAfter).toBeLessThan(20_000);
      if (stall !== "a locked row") return;
      expect(Object.keys(report.writes)).toEqual(["written"]);
      const [locked, ...others] = report.kinds;
      expect(Object.keys(locked!)).toEqual(["STORE_BUSY"]);
      for (const kinds of others) expect(Object.keys(kinds)).toEqual(["VALID"]);
    },
  );

  it("control: a client that forgets what it gave up fills the server", { timeout: 200_000 }, async () => {
    const { connections } = await runStall("a lost standby", 4, { forgets: true });
    expect(connections).toBeGreaterThan(MOST);
  });
});
