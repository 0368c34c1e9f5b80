/** Variables of the environment, whatever command is run. */
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { fakeServer, folder, ROOT_KEY, run } from "../support.js";

const FOLDER = folder();
const COMMANDS = [
  ["console", "--db", join(FOLDER, "none.db")],
  ["serve", "--port", "0", "--db", join(FOLDER, "none.db")],
  ["api", "keys", "verify-key", "--key", "sk_1"],
  ["keys", "list", "--db", join(FOLDER, "none.db")],
  ["doctor", "--db", join(FOLDER, "none.db")],
];

describe("variables whose names are misspelt", () => {
  it.each([
    ["KEYSTILE_READONLY", "KEYSTILE_READ_ONLY"],
    ["KEYSTILE_TRUSTED_PROXIES", "KEYSTILE_TRUSTED_PROXY"],
    ["KEYSTILE_LIMITTER", "KEYSTILE_LIMITER"],
    ["KEYSTILE_ROOTKEY", "KEYSTILE_ROOT_KEY"],
    ["KEYSTILE_APIURL", "KEYSTILE_API_URL"],
  ])("%s: every command refuses it, and names %s", async (name, meant) => {
    for (const argv of COMMANDS) {
      const { code, stdout, stderr } = await run(argv, { env: { [name]: "1", KEYSTILE_ROOT_KEY: ROOT_KEY } });
      expect([code, stdout]).toEqual([2, ""]);
      expect(stderr).toContain(`\n  ${name}; did you mean ${meant}?\n`);
    }
  });

  it("those of other commands, of other programs and of Kubernetes for its services are fine, and help is shown", async () => {
    const env = {
      KEYSTILE_READ_ONLY: "1",
      KEYSTILE_LIMITER: "memory",
      KEYSTILES: "1",
      KEYSTILE_COLOUR_OF_ALL: "1",
      KEYSTILE_SERVICE_HOST: "10.0.0.1",
      KEYSTILE_SERVICE_PORT_HTTP: "80",
      KEYSTILE_PORT_80_TCP_ADDR: "10.0.0.1",
      KEYSTILE_CONSOLE_SERVICE_HOST: "10.0.0.2",
      KEYSTILE_CONSOLE_PORT: "tcp://10.0.0.2:80",
    };
    const { fetch } = fakeServer(() => ({ data: { valid: true, code: "VALID" } }));
    const argv = ["api", "keys", "verify-key", "--key", "sk_1"];
    expect(await run(argv, { fetch, env: { ...env, KEYSTILE_ROOT_KEY: ROOT_KEY } })).toMatchObject({ code: 0 });
    const wrong = await run(argv, { env: { KEYSTILE_PORTS: "1", KEYSTILE_ROOT_KEY: ROOT_KEY } });
    expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining("\n  KEYSTILE_PORTS")]);
    expect(await run(["serve", "--help"], { env: { KEYSTILE_LIMITTER: "1" } })).toMatchObject({ code: 0 });
  });

  it.each([
    ["console", "KEYSTILE_READ_ONLY"],
    ["serve", "KEYSTILE_METRICS"],
    ["serve", "KEYSTILE_DB"],
  ])("%s: an empty %s is refused, and is not off", async (command, name) => {
    const { code, stderr } = await run([command], { env: { [name]: "" } });
    expect([code, stderr]).toEqual([2, expect.stringMatching(`error: ${name}: must (be 1 or 0|not be empty)`)]);
  });
});
