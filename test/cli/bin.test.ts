/** The bin on a Node that is earlier than the rest of it takes. */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { ROOT } from "../structure/source.js";

/** An earlier Node ends with a SyntaxError where a module has no such export; here, where one of two is imported. */
const earlier = (version: string) => `
  import { register } from "node:module";
  Object.defineProperty(process, "versions", { value: { ...process.versions, node: "${version}" } });
  const hooks = 'export const resolve = (name, context, next) => {' +
    ' if (name === "commander" || name === "node:util") throw new SyntaxError("no such export"); return next(name, context); };';
  register("data:text/javascript," + encodeURIComponent(hooks));`;

describe("keystile, on another Node", () => {
  it.each(["18.20.8", "20.11.1"])("bin: Node %s is told which Node is taken, before anything is loaded", (version) => {
    const preload = `data:text/javascript,${encodeURIComponent(earlier(version))}`;
    const argv = ["--import", "tsx", "--import", preload, join(ROOT, "src", "cli", "bin.ts"), "--version"];
    const { status, stdout, stderr } = spawnSync(process.execPath, argv, { cwd: ROOT, encoding: "utf8" });
    expect({ status, stdout, stderr }).toEqual({
      status: 3,
      stdout: "",
      stderr: `error: keystile takes Node 20.12 or later; this is ${version}\n`,
    });
  });
});
