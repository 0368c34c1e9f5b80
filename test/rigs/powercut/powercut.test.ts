import { describe, expect, it } from "vitest";
import { IN_FLIGHT } from "../kill.js";
import { runCuts, runLostSyncs } from "./cuts.js";
import { runIoFaults, spread } from "./io-faults.js";
import { runLimitCuts } from "./limits.js";
import { missing } from "./record.js";

const reason = missing();

describe.skipIf(reason !== undefined)(
  `power cuts, replayed from a record of writes and syncs${reason === undefined ? "" : ` (skipped: ${reason})`}`,
  () => {
    it("power-durable: no acknowledged deduction is lost, and the file is whole", async () => {
      const report = await runCuts(150, { stopAfter: 16_000, checkpointPages: 40 });
      expect(report.examples).toEqual([]);
      expect(report).toMatchObject({ lost: 0, corrupt: 0 });
      expect(report.unanswered).toBeLessThanOrEqual(IN_FLIGHT);
      // Several times the log was carried over into the file: the delicate moment is among the cuts.
      expect(report.syncs["keys.db"]).toBeGreaterThan(2);
      expect(report.syncs["keys.db-wal"]).toBeGreaterThan(20);
    });

    it("process-durable: recent deductions may be forgotten, and the file is whole", async () => {
      const report = await runCuts(100, { seed: 2, stopAfter: 16_000, checkpointPages: 40, durability: "process" });
      expect(report.corrupt).toBe(0);
      // The rig sees the difference.
      expect(report.lost).toBeGreaterThan(0);
    });

    it("control: synchronous=OFF is found out, by what is lost and by what is damaged", async () => {
      const report = await runCuts(100, { seed: 3, stopAfter: 16_000, checkpointPages: 40, fault: "synchronous off" });
      expect(report.lost).toBeGreaterThan(0);
      expect(report.corrupt).toBeGreaterThan(0);
    });

    it("rate limits in a file: takes since its log was last synced may be forgotten, no others, and the file opens", async () => {
      const report = await runLimitCuts(100);
      expect(report.examples).toEqual([]);
      expect(report).toMatchObject({ lost: 0, corrupt: 0, granted: expect.any(Number) as number });
      // The limit and these are all that is ever granted.
      expect(report.forgotten).toBeLessThanOrEqual(report.unsynced);
      expect(report.forgotten).toBeGreaterThan(0);
      expect(report.unsynced).toBeLessThan(1_100);
      expect(report.syncs).toBeGreaterThan(3);
    });

    it("control: rate limits on a disk that syncs nothing are found out, by what is forgotten and by what is damaged", async () => {
      const report = await runLimitCuts(100, { seed: 2, fault: "syncs nothing" });
      expect(report.lost).toBeGreaterThan(0);
      expect(report.corrupt).toBeGreaterThan(0);
    });

    it("a quota that is used up is STORE_FULL, and passes", async () => {
      const report = await runIoFaults([{ at: 12, count: 60, errno: "EDQUOT" }]);
      expect(report.problems).toEqual([]);
      expect(report.codes["STORE_FULL"]).toBeGreaterThan(0);
      expect(report.codes).not.toHaveProperty("STORE_FAILED");
    });

    it("a failed fsync, a kill, and a power cut: what the next process acknowledged is there", async () => {
      const report = await runLostSyncs(3, 60, { stopAfter: 320 });
      expect(report).toMatchObject({ lost: 0, corrupt: 0, examples: [] });
    });

    it("control: a log that is not written again is found out", async () => {
      expect((await runLostSyncs(1, 40, { stopAfter: 320, fault: "leaves the log" })).lost).toBeGreaterThan(20);
    });

    it("a disk that fails: at every call acknowledged is durable, the error is typed, and the store goes on (A143)", async () => {
      const report = await runIoFaults(spread(9, 36));
      expect(report.problems).toEqual([]);
      expect(report.felt).toBeGreaterThan(3);
      expect(report.codes).toHaveProperty("STORE_FAILED");
      expect(report.codes).toHaveProperty("STORE_FULL");
    });
  },
);
