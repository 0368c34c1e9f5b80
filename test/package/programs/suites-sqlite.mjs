// The suites of stores and limiters on files, with whatever driver a path is opened with.
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { sqliteLimiter, sqliteStore } from "keystile/sqlite";
import { limiterSuite, sharedStoreSuite, storeSuite } from "keystile/testing";

const folder = mkdtempSync(join(tmpdir(), "keystile-suites-"));
after(() => rmSync(folder, { recursive: true }));
let files = 0;
const newPath = () => join(folder, `${++files}.db`);
const options = { durability: "process" };
// Where a new file is not the subject: making the tables takes half the time of a test.
const empty = newPath();
await sqliteStore(empty, options).close();
const emptyPath = () => {
  const path = newPath();
  copyFileSync(empty, path);
  return path;
};

storeSuite({ describe, it }, "a path", () => sqliteStore(newPath(), options));
// A thread for each test of the other suite would take longer than all of the rest.
const writer = process.env.TEST_WRITER === "thread" ? { writer: "thread" } : {};
sharedStoreSuite({ describe, it }, "a path, opened twice", () => {
  const path = emptyPath();
  const patient = { ...options, busyTimeout: 30_000 };
  return [sqliteStore(path, patient), sqliteStore(path, { ...patient, ...writer })];
});
limiterSuite({ describe, it }, "a path", () => sqliteLimiter({ path: newPath() }));
