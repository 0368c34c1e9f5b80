/** The check of `keystile doctor` of the rate limits beside a database, if it has any. Writes nothing. */
import { existsSync, realpathSync } from "node:fs";
import { type ClosableHandle, loadDriver, openFile } from "../../stores/sqlite/connection/driver.js";
import { type Handle, select } from "../../stores/sqlite/connection/handle.js";
import { limitsPathOf } from "../../stores/sqlite/limits/limits-file.js";
import { hasTables, LIMITS_VERSION } from "../../stores/sqlite/limits/limits-tables.js";
import { count } from "../io/text.js";
import { CLOCK_TOLERANCE, codeOf, fail, type Finding, ok, warn } from "./finding.js";

/**
 * @param db the database, which exists
 * @param now Unix milliseconds
 */
export function examineLimits(db: string, now: number): Finding[] {
  const path = limitsPathOf(realpathSync(db));
  if (!existsSync(path)) return [];
  let handle: ClosableHandle | undefined;
  try {
    handle = openFile(loadDriver(), path, { readonly: true, fileMustExist: true, timeout: 2_000 });
    return [examineTables(handle, path, now)];
  } catch (error) {
    return [fail("limits", `${path}: does not open (${codeOf(error)}); ${REMOVE}`)];
  } finally {
    handle?.close();
  }
}

const REMOVE = "remove it while no process has it open, and all buckets start full";

function examineTables(handle: Handle, path: string, now: number): Finding {
  if (!hasTables(handle)) return fail("limits", `${path}: has no tables of rate limits; ${REMOVE}`);
  const { version, clock, buckets } = select<{ version: number; clock: number; buckets: number }>(
    handle,
    "SELECT version, clock, buckets FROM keystile_limits",
  ).get() as { version: number; clock: number; buckets: number };
  if (version > LIMITS_VERSION)
    return fail("limits", `${path}: version ${version}, this keystile knows ${LIMITS_VERSION}; upgrade keystile`);
  if (version < LIMITS_VERSION) return fail("limits", `${path}: version ${version}, of an earlier keystile; ${REMOVE}`);
  const rows = select<Record<string, string>>(handle, "PRAGMA quick_check(3)").all();
  const faults = rows.flatMap((row) => Object.values(row)).filter((text) => text !== "ok");
  if (faults.length > 0) return fail("limits", `${path}: damaged: ${faults.join("; ")}; ${REMOVE}`);
  const there = select<{ n: number }>(handle, "SELECT count(*) AS n FROM keystile_buckets").get()?.n;
  if (there !== buckets)
    return fail("limits", `${path}: counts ${buckets} buckets and has ${String(there)}; ${REMOVE}`);
  const ahead = clock - now;
  if (ahead > CLOCK_TOLERANCE)
    return warn(
      "limits",
      `${path}: a clock was ${count(Math.round(ahead / 1_000))} s ahead, and nothing refills until then; ${REMOVE}`,
    );
  return ok("limits", `${path}, ${count(buckets)} buckets`);
}
