/** Credits of several accounts in the database: against a list of credits, and leased from a server. */
import { describe, it } from "vitest";
import { playWalletLeases } from "../../credits/wallet-leases-play.js";
import { playWallets } from "../../credits/wallet-play.js";
import { seedsOf } from "../../model/dice.js";
import { runs } from "../../runs.js";
import { noPostgres } from "../../servers/postgres.js";
import { pglite, postgresServer } from "./support.js";

const { open } = pglite();

describe("wallets: random histories against a list of credits", () => {
  it.each(seedsOf(2_028, runs(80)))("postgres, seed %i", async (seed) => {
    await playWallets((await open(1))[0]!, seed, 100);
  });
});

describe.skipIf(noPostgres)("on a server", () => {
  const server = postgresServer();
  playWalletLeases("PostgreSQL", { open: async () => (await server.open(1))[0]!, whole: 12, steps: 60 });
});
