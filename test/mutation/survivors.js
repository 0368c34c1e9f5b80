/**
 * Writes down each fault that survives as soon as it is known: a whole folder takes an hour, and its report comes last.
 */
import { appendFileSync, mkdirSync, rmSync } from "node:fs";
import { relative } from "node:path";
import process from "node:process";
import { declareClassPlugin, PluginKind } from "@stryker-mutator/api/plugin";
import { mutatedFolder } from "./folders.js";

const FOLDER = ".cache/stryker";

class Survivors {
  static inject = [];
  path = `${FOLDER}/${mutatedFolder()}.survivors.txt`;

  onMutationTestingPlanReady() {
    mkdirSync(FOLDER, { recursive: true });
    rmSync(this.path, { force: true });
  }

  onMutantTested({ status, fileName, location, mutatorName, replacement }) {
    if (status !== "Survived" && status !== "NoCoverage") return;
    const place = `${relative(process.cwd(), fileName)}:${location.start.line}:${location.start.column}`;
    appendFileSync(this.path, `${place} ${status} ${mutatorName}: ${replacement}\n`);
  }
}

export const strykerPlugins = [declareClassPlugin(PluginKind.Reporter, "survivors", Survivors)];
