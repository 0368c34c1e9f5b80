/** Credits of several accounts in the database against a list of credits. */
import { describe, it } from "vitest";
import { playWallets } from "../../credits/wallet-play.js";
import { seedsOf } from "../../model/dice.js";
import { runs } from "../../runs.js";
import { pglite } from "./support.js";

const { open } = pglite();

describe("wallets: random histories against a list of credits", () => {
  it.each(seedsOf(2_028, runs(80)))("postgres, seed %i", async (seed) => {
    await playWallets((await open(1))[0]!, seed, 100);
  });
});
