/**
 * Released steps of the schemas stay as they are: databases that have taken one never take it again. What a step is
 * made of stands in several modules, so its whole text is held: of one that is a function, the statements that it gives
 * a file without rows.
 */
import { createHash } from "node:crypto";
import Database from "better-sqlite3";
import { expect, it } from "vitest";
import { STEPS as POSTGRES_STEPS } from "../../src/stores/postgres/schema.js";
import type { Handle } from "../../src/stores/sqlite/connection/handle.js";
import { STEPS as SQLITE_STEPS } from "../../src/stores/sqlite/connection/schema.js";

const CHANGED = "a released step changed: leave it as it was, and add a step";

/** The first 16 digits of the SHA-256 of each step, in order. A new step adds its own. */
const RELEASED = {
  postgres: ["bc9cd5cff425cc39", "0f81643c0464a39e"],
  sqlite: [
    "3534ed09af31b335",
    "6cf8fe9e44bcc6f2",
    "6f1ab12f6324d31c",
    "9ab8b9f9f8967d71",
    "a95b896e5bb71156",
    "654de89cbf32dfed",
    "75f8aaceb85a34b6",
    "743b13c25fb5fa9f",
    "3d164b7694a08d75",
  ],
} as const;

const digestOf = (text: string): string => createHash("sha256").update(text).digest("hex").slice(0, 16);

it("steps of PostgreSQL are as they were released", () => {
  const digests = POSTGRES_STEPS.map((step) => digestOf(step('"keystile"')));
  expect(digests, CHANGED).toEqual(RELEASED.postgres);
});

it("steps of SQLite are as they were released", () => {
  const db = new Database(":memory:");
  const given: string[] = [];
  const handle: Handle = {
    exec(sql) {
      given.push(sql);
      return db.exec(sql);
    },
    prepare(sql) {
      given.push(sql);
      return db.prepare(sql) as ReturnType<Handle["prepare"]>;
    },
  };
  const digests = SQLITE_STEPS.map((step) => {
    given.length = 0;
    if (typeof step === "string") handle.exec(step);
    else step(handle);
    return digestOf(given.join("\n"));
  });
  db.close();
  expect(digests, CHANGED).toEqual(RELEASED.sqlite);
});
