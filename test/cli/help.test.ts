import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { toKebab } from "../../src/cli/io/failures.js";
import { OPERATIONS } from "../../src/http/operations/index.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { createVerifier } from "../../src/verify/verifier.js";
import { folder, run, runAs } from "./support.js";

/** Every command there is, found by reading the help of the one above. */
async function commands(path: readonly string[] = []): Promise<(readonly string[])[]> {
  const { stdout } = await run([...path, "--help"]);
  const list = /\nCommands:\n([\s\S]*?)(\n\n|$)/.exec(stdout)?.[1] ?? "";
  const names = [...list.matchAll(/^ {2}([a-zA-Z-]+)/gm)]
    .map(([, name = ""]) => name)
    .filter((name) => name !== "help");
  const below = await Promise.all(names.map((name) => commands([...path, name])));
  return [path, ...below.flat()];
}

describe("help", () => {
  it("is there for every command, on stdout and 80 columns wide, with an example for each that does something", async () => {
    const all = await commands();
    const groups = [
      "",
      "api",
      "apis",
      "keys",
      "migrations",
      "namespaces",
      "root-keys",
      ...new Set(Object.keys(OPERATIONS).map((name) => `api ${toKebab(name.split(".")[0]!)}`)),
    ];
    expect(all.length).toBe(groups.length + Object.keys(OPERATIONS).length + 26);
    for (const path of all) {
      const { code, stdout, stderr } = await run([...path, "--help"]);
      expect([path, code, stderr]).toEqual([path, 0, ""]);
      expect(stdout).toMatch(/^Usage: keystile/);
      if (!groups.includes(path.join(" "))) expect(stdout).toMatch(/\n {2}\$ keystile /);
      expect(stdout.split("\n").filter((line) => line.length > 80 && !/^ {2}\$ /.test(line))).toEqual([]);
    }
  });

  it("fits a narrow terminal, and numbers can be read", async () => {
    for (const path of [[], ["serve"], ["import"], ["api", "keys", "create-key"], ["api", "ratelimit", "limit"]]) {
      const { stdout } = await run([...path, "--help"], { columns: 60, isTTY: true });
      // Examples are there to be copied; an address, or what has no space, cannot be wrapped.
      expect(stdout.split("\n").filter((line) => line.length > 60 && !/^ {2}\$ |:\/\/|^ *\S+$/.test(line))).toEqual([]);
    }
    const { stdout } = await run(["api", "ratelimit", "limit", "--help"]);
    expect(stdout).toContain("1,000–2,592,000,000");
  });

  it("leads to a key that the guarded route of the README lets in", async () => {
    const db = join(folder(), "keys.db");
    const steps = (await run(["--help"])).stdout.match(/(?<=^ {2}\$ keystile )(apis|keys) create .*/gm) ?? [];
    const made = [];
    for (const step of steps) made.push(await run(step.replace("keys.db", db).split(" ")));
    expect(made.map(({ code }) => code)).toEqual([0, 0]);
    const [, asked = ""] = /apiKey\(verifier, (\{.*?\})\)/.exec(readFileSync("README.md", "utf8")) ?? [];
    const { apiId, permissions } = JSON.parse(asked.replaceAll(/(\w+):/g, '"$1":')) as Record<
      "apiId" | "permissions",
      string
    >;
    const store = sqliteStore(db);
    const key = made[1]!.stdout.trim().split("\n").at(-1)!;
    expect(await createVerifier(store).verify({ key, permissions }, { apiId })).toMatchObject({
      code: "VALID",
    });
    await store.close();
  });

  it("lists the exit codes, and the five global flags of contract 4.2", async () => {
    expect((await run(["--help"])).stdout).toMatch(/ 0 {2}done\n {2}1 [^$]*\n {2}2 .*\n {2}3 /);
    const { stdout } = await run(["api", "keys", "migrate-keys", "--help"]);
    for (const flag of [
      "--root-key",
      "--api-url",
      "--config",
      "--output",
      "--body",
      "--migration-id",
      "--api-id",
      "--keys",
    ]) {
      expect(stdout).toContain(flag);
    }
    expect(stdout).toContain("process list");
  });

  it("api: lists every operation under its group, each on a line that may go on below its summary", async () => {
    const { stdout } = await run(["api", "--help"]);
    const [, wrappedList = ""] = stdout.split("\nOperations:\n");
    const list = wrappedList.replace(/\n {3,}/g, " ");
    const groups = list.split("\n\n").map((group) => group.trimEnd().split("\n"));
    const said = groups.flatMap((lines) =>
      lines.map((line) => /^ {2}(\S+ \S+) {2,}(\S.*)$/.exec(line)?.slice(1).join(": ")),
    );
    const operations = Object.values(OPERATIONS).map(
      ({ name, summary }) => `${name.split(".").map(toKebab).join(" ")}: ${summary}`,
    );
    expect(said.sort()).toEqual(operations.sort());
    for (const lines of groups) expect(new Set(lines.map((line) => line.trim().split(" ")[0])).size).toBe(1);
  });

  it("--version says the package's", async () => {
    const { default: manifest } = await import("../../package.json", { with: { type: "json" } });
    expect(await run(["--version"])).toEqual({ code: 0, stdout: `${manifest.version}\n`, stderr: "" });
  });

  it.each([[["help"]], [["help", "api"]], [["api", "keys", "help", "verify-key"]], [["api", "help", "keys"]]])(
    "%j: help that was asked for is no fault",
    async (argv) => {
      const { code, stdout, stderr } = await run(argv);
      expect([code, stderr]).toEqual([0, ""]);
      expect(stdout).toMatch(/^Usage: keystile/);
    },
  );

  it.each([
    [[]],
    [["serv"]],
    [["api"]],
    [["api", "keys"]],
    [["api", "keys", "verify"]],
    [["api", "keys", "verify-key", "--colour", "red"]],
    [["api", "keys", "verify-key", "--key"]],
    [["api", "keys", "verify-key", "--key", "k", "--output", "yaml"]],
    [["api", "keys", "verify-key", "--key", "k", "more"]],
    [["doctor"]],
    [["root-keys", "revoke", "--db", "x"]],
    [["migrations", "create", "--db", "x"]],
  ])("usage error %j: 2, nothing on stdout, a word on stderr", async (argv) => {
    const { code, stdout, stderr } = await runAs("root_1", argv);
    expect([code, stdout, stderr.length > 20]).toEqual([2, "", true]);
  });

  const SECRET = "sk_live_CANARY9f8e7d6c5b4a";
  const WORDS = "rootCanarySecretWithoutAnyDigit";
  const VERIFY = ["api", "keys", "verify-key"];
  const CREATE = ["root-keys", "create", "--db", "x", "--permission", "p"];
  it.each([
    [[SECRET], "unknown command '…'"],
    [[WORDS], "unknown command '…'"],
    [[`serve'\n${SECRET}`], "unknown command '…'"],
    [[`serve=${SECRET}`], "unknown command 'serve=…'"],
    [["api", SECRET], "unknown command '…'"],
    [["api", "keys", SECRET], "unknown command '…'"],
    [[`--${SECRET}`], "unknown option '…'"],
    [[`-${SECRET}`], "unknown option '…'"],
    [[`--${WORDS}`], "unknown option '…'"],
    [[...VERIFY, `--${SECRET}=x`], "unknown option '…=…'"],
    [[...VERIFY, `--kye=${SECRET}`], "unknown option '--kye=…'"],
    [[...VERIFY, `--kye=a'\n${SECRET}`], "unknown option '--kye=…'"],
    [[...VERIFY, "--kye", SECRET], "unknown option '--kye'\n(Did you mean --key?)"],
    [[...VERIFY, "--key", "k", SECRET], "too many arguments"],
    [
      [...VERIFY, "--key", "k", "--output", SECRET],
      "'--output <form>' argument '…' is invalid. Allowed choices are json.",
    ],
    [
      [...VERIFY, "--output", `x' is invalid.\n${SECRET}`],
      "'--output <form>' argument '…' is invalid. Allowed choices are json.",
    ],
    [
      ["api", "keys", "migrate-keys", "--batch-size", SECRET],
      "argument '…' is invalid. must be an integer from 1 to 10000",
    ],
    [["serve", "--port", SECRET], "'--port <port>' argument '…' is invalid. must be an integer from 0 to 65535"],
    [["serve", "--request-limit", SECRET], "argument '…' is invalid. must be calls and seconds"],
    [["serve", "--trusted-proxy", SECRET], "argument '…' is invalid. must be an IP address"],
    [[...CREATE, "--expires", SECRET], "argument '…' is invalid. must be Unix milliseconds"],
    [["srve"], "unknown command 'srve'\n(Did you mean serve?)"],
    [["api", "keys", "verify"], "unknown command 'verify'"],
  ])("%j repeats no secret in the wrong place, and still says what is wrong", async (argv, message) => {
    const { code, stdout, stderr } = await run(argv);
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toContain(message);
    expect(stderr).not.toMatch(new RegExp(`CANARY|${WORDS}`));
  });

  it("takes global flags before the operation as well", async () => {
    const { code, stderr } = await run([
      "api",
      "--root-key",
      "root_1",
      "--api-url",
      "nonsense",
      "keys",
      "get-key",
      "--key-id",
      "key_1",
    ]);
    expect([code, stderr]).toEqual([
      2,
      "error: --api-url: must be an http or https address, such as http://127.0.0.1:5397\n",
    ]);
  });
});
