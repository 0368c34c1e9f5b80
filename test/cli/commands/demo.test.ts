import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createKeyring } from "../../../src/keyring/keyring.js";
import { sqliteStore } from "../../../src/stores/sqlite/index.js";
import { folder, run } from "../support.js";

const FOLDER = folder();

describe("demo", () => {
  it("shows every outcome within 80 columns, says what it made and where, and run again what persisted", async () => {
    const path = join(FOLDER, "first");
    const first = await run(["demo", path]);
    expect([first.code, first.stderr]).toEqual([0, ""]);
    expect(first.stdout).toContain("6. All as expected\n");
    expect(first.stdout).toContain(`made in ${path}, which you may delete: keys.db, demo.json\n`);
    const again = await run(["demo", path]);
    expect([again.code, again.stderr]).toEqual([0, ""]);
    expect(again.stdout).toContain("1. What the first run left in the file\n");
    expect(again.stdout).toContain("0 imported; refused: 10,013 ALREADY_EXISTS, 5 UNKNOWN_ROLE\n");
    const lines = `${first.stdout}${again.stdout}`.split("\n").filter((line) => !line.includes(path));
    expect(lines.filter((line) => line.length > 80)).toEqual([]);
    expect(`${first.stdout}${again.stdout}`).not.toMatch(/✗/);
    expect(readdirSync(path).sort()).toEqual(["demo.json", "keys.db"]);
  });

  it("ends with 1 and names what is not as it must be", async () => {
    const path = join(FOLDER, "changed");
    await run(["demo", path]);
    const store = sqliteStore(join(path, "keys.db"));
    const keyring = createKeyring(store);
    const [ada] = (await keyring.searchKeys({ externalId: "analytical_engines" })).data;
    await keyring.updateCredits({ keyId: ada!.keyId, operation: "increment", value: 1 });
    await store.close();
    const { code, stdout } = await run(["demo", path]);
    expect(code).toBe(1);
    expect(stdout).toContain("This was not as expected\n  Ada's notebook: its balance is still 999,960\n");
  });

  it("takes no folder that has something else in it", async () => {
    writeFileSync(join(FOLDER, "letter"), "");
    const { code, stderr } = await run(["demo", FOLDER]);
    expect([code, stderr]).toEqual([2, expect.stringContaining("is not empty, and no demo ended there")]);
  });
});
