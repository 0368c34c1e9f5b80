/** The SQLite store with a writer thread before the suites of every store. Slow: each test starts a thread or two. */
import { sqliteStore } from "../../../src/stores/sqlite/index.js";
import { buildWriter } from "../../rigs/workers.js";
import { PATIENT } from "../../rigs/workers/patience.js";
import { sharedStoreSuite, storeSuite } from "../suite.js";
import { emptyFiles, temporaryPaths } from "./support.js";

const newPath = temporaryPaths();
const path = await emptyFiles();
const writer = await buildWriter();

storeSuite("sqlite with a writer thread", () => sqliteStore(newPath(), { writer }));
sharedStoreSuite("sqlite, each with a writer thread", () => {
  const file = path();
  return [sqliteStore(file, { ...PATIENT, writer }), sqliteStore(file, { ...PATIENT, writer })];
});
sharedStoreSuite("sqlite, one with a writer thread, the other without", () => {
  const file = path();
  return [sqliteStore(file, { ...PATIENT, writer }), sqliteStore(file, PATIENT)];
});
