/**
 * Leases of keys that draw on several accounts, in memory and in a file. PostgreSQL: `stores/postgres/wallets.test.ts`.
 */
import { memoryStore } from "../../src/stores/memory.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { playWalletLeases } from "./wallet-leases-play.js";

playWalletLeases("memory", { open: memoryStore, whole: 300, steps: 60 });
playWalletLeases("SQLite", { open: () => sqliteStore(":memory:"), whole: 60, steps: 60 });
