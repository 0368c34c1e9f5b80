/** `keystile apis` and `keystile keys`, on a database file. */
import { chmodSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createKeyring } from "../../../src/keyring/keyring.js";
import { sqliteStore } from "../../../src/stores/sqlite/index.js";
import { folder, run } from "../support.js";

const db = join(folder(), "keys.db");

describe("apis list, keys list, keys get", () => {
  it("tell ids and names of APIs, and of each key its API; not a text of a key", async () => {
    const store = sqliteStore(db);
    const keyring = createKeyring(store);
    for (let i = 0; i < 101; i++) await keyring.createApi({ name: `api ${i}`, apiId: `api_${1_000 + i}` });
    await keyring.updateApi({ apiId: "api_1001", enabled: false });
    const { keyId, key } = await keyring.createKey({ apiId: "api_1000", name: "a b", externalId: "auth0|1" });
    await store.close();
    chmodSync(db, 0o600);

    const apis = await run(["apis", "list", "--db", db]);
    expect(apis.code).toBe(0);
    const lines = apis.stdout.trim().split("\n");
    expect(lines.slice(0, 3)).toEqual([
      "API       STATE     NAME",
      "api_1000  enabled   api 0",
      "api_1001  disabled  api 1",
    ]);
    expect([lines.length, apis.stderr]).toEqual([51, expect.stringContaining("--limit")]);
    const many = await run(["apis", "list", "--db", db, "--limit", "1000"]);
    expect([many.stdout.trim().split("\n").length, many.stderr]).toEqual([102, ""]);
    const asJson = await run(["apis", "list", "--db", db, "--output", "json"]);
    expect(JSON.parse(asJson.stdout)).toHaveLength(101);

    const keys = await run(["keys", "list", "--db", db, "--api-id", "api_1000"]);
    expect(keys.stdout).toMatch(new RegExp(`^KEY .*\n${keyId}  api_1000  \\S+…  active  auth0\\|1  a b\n$`));
    const none = await run(["keys", "list", "--db", db, "--api-id", "api_1001", "--output", "json"]);
    expect(JSON.parse(none.stdout)).toEqual([]);
    const one = await run(["keys", "get", "--db", db, keyId]);
    expect(one.stdout).toContain(`keyId:        ${keyId}\n`);
    const whole = await run(["keys", "get", "--db", db, keyId, "--output", "json"]);
    expect(JSON.parse(whole.stdout)).toMatchObject({ keyId, apiId: "api_1000" });
    for (const { stdout } of [keys, one]) expect(stdout).not.toContain(key);
  });

  it("a revoked key is shown by its id and listed by its state, with who revoked it and when", async () => {
    const place = join(folder(), "revoked.db");
    const store = sqliteStore(place);
    const keyring = createKeyring(store, { actor: "support" });
    const { apiId } = await keyring.createApi({ name: "docs" });
    const { keyId } = await keyring.createKey({ apiId, name: "theirs" });
    const other = await keyring.createKey({ apiId, name: "other" });
    await keyring.deleteKey({ keyId });
    await store.close();
    const { stdout } = await run(["keys", "get", "--db", place, keyId]);
    expect(stdout).toMatch(/^state: +deleted$/m);
    expect(stdout).toMatch(/^deletedAt: +\d{4}-\d{2}-\d{2}T[^\n]*Z\ndeletedBy: +support$/m);
    const listed = await run(["keys", "list", "--db", place, "--state", "deleted"]);
    expect(listed.stdout).toMatch(new RegExp(`^KEY .*\n${keyId} .*  deleted  -      theirs\n$`));
    const rest = await run(["keys", "list", "--db", place]);
    expect([rest.stdout.includes(keyId), rest.stdout.includes(other.keyId)]).toEqual([false, true]);
    const none = await run(["keys", "list", "--db", place, "--search", "theirs"]);
    expect([none.stdout.includes(keyId), none.stderr]).toEqual([false, expect.stringContaining("--state deleted")]);
    const wrong = await run(["keys", "list", "--db", place, "--state", "gone"]);
    expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining("rotated, expired, forbidden")]);
  });

  it("names with line breaks, as older files may hold them, forge no line", async () => {
    const place = join(folder(), "forged.db");
    const store = sqliteStore(place);
    const { keyId } = await createKeyring(store).createKey({
      apiId: (await createKeyring(store).createApi({ name: "old", apiId: "api_forged" })).apiId,
    });
    const name = "a\napi_other\tb\u2028c\u2029d\re";
    const [[api], [key]] = [await store.readMany("apis", ["api_forged"]), await store.readMany("keys", [keyId])];
    await store.write([
      { table: "apis", row: { ...api!, name } },
      { table: "keys", row: { ...key!, name } },
    ]);
    await store.close();
    for (const argv of [
      ["apis", "list"],
      ["keys", "list", "--api-id", "api_forged"],
    ]) {
      const { stdout } = await run([...argv, "--db", place]);
      expect(stdout).toMatch(/^[A-Z ]+\n[^\n\r\t\u2028\u2029]+a\?api_other\?b\?c\?d\?e\n$/);
    }
  });

  it("name the flag of what is wrong or not there", async () => {
    const bad = await run(["keys", "list", "--db", db, "--api-id", ""]);
    expect([bad.code, bad.stderr]).toEqual([2, expect.stringContaining("body.apiId (--api-id)")]);
    expect((await run(["keys", "get", "--db", db, "key_absent"])).code).toBe(1);
    const absent = ["keys", "list", "--db", db, "--api-id", "api_absent"];
    for (const argv of [absent, [...absent, "--output", "json"]])
      expect(await run(argv)).toMatchObject({ code: 1, stdout: "", stderr: expect.stringContaining("not found") });
  });

  it("read no more of a list once its reader has left, as `head` does", async () => {
    const list = ["apis", "list", "--db", db];
    const { code, stdout, stderr } = await run(list, { leavesAfter: 2 });
    expect([code, stdout.split("\n").length - 1, stderr]).toEqual([0, 2, ""]);
    const asJson = await run([...list, "--output", "json"], { leavesAfter: 2 });
    expect([asJson.code, asJson.stdout]).toEqual([0, expect.stringMatching(/^\[\n\{.*\}$/)]);
  });

  it("make a file for the first API, and keys in it", async () => {
    const first = join(folder(), "first.db");
    const made = await run(["apis", "create", "--db", first, "--api-id", "api_documents", "documents"]);
    expect([made.code, made.stdout]).toEqual([0, "api_documents\n"]);
    expect(await run(["keys", "create", "--db", first, "--api-id", "api_documents"])).toMatchObject({ code: 0 });
    const nowhere = await run(["apis", "create", "--db", folder(), "documents"]);
    expect([nowhere.code, nowhere.stderr]).toEqual([2, expect.stringContaining("is a folder; name a file in it")]);
  });

  it("make an API and a key, disable it and revoke it, in the file", async () => {
    const made = await run(["apis", "create", "--db", db, "my api", "--output", "json"]);
    const { apiId } = JSON.parse(made.stdout) as { apiId: string };
    const flags = [
      "--api-id",
      apiId,
      "--name",
      "first",
      "--external-id",
      "acme",
      "--permission",
      "a.b",
      "--credits",
      "0",
    ];
    const created = await run(["keys", "create", "--db", db, ...flags]);
    expect(created).toMatchObject({ code: 0, stderr: expect.stringContaining("shown this once") });
    const [keyId = "", key = ""] = created.stdout.split("\n");
    const list = async (...flags: string[]) =>
      (await run(["keys", "list", "--db", db, "--api-id", apiId, ...flags])).stdout.split("\n")[1] ?? "";
    expect(await list("--state", "exhausted", "--external-id", "acme")).toContain(
      `${keyId}  ${apiId}  ${key.slice(0, 4)}…  exhausted  acme   first`,
    );
    expect(await list("--search", "nothing")).toBe("");
    expect(await run(["keys", "disable", "--db", db, keyId])).toMatchObject({ code: 0, stdout: `disabled ${keyId}\n` });
    expect(await list("--state", "disabled")).toContain(keyId);
    expect(await run(["keys", "revoke", "--db", db, keyId])).toMatchObject({ code: 0, stdout: `revoked ${keyId}\n` });
    expect(await list()).toBe("");
    expect((await run(["keys", "revoke", "--db", db, keyId])).code).toBe(1);
    const short = await run(["apis", "create", "--db", db, "ab"]);
    expect([short.code, short.stderr]).toEqual([2, expect.stringContaining("<name>")]);
  });

  it("stop all keys of an owner: a dry run says which, and then they are", async () => {
    const { stdout: api } = await run(["apis", "create", "--db", db, "many", "--output", "json"]);
    const { apiId } = JSON.parse(api) as { apiId: string };
    for (let i = 0; i < 3; i++)
      await run(["keys", "create", "--db", db, "--api-id", apiId, ...(i < 2 ? ["--external-id", "leaver"] : [])]);
    const disable = (...argv: string[]) => run(["keys", "disable", "--db", db, ...argv]);
    const dry = await disable("--external-id", "leaver", "--dry-run");
    expect([dry.stdout.match(/would be disabled key_/g)?.length, dry.stderr]).toEqual([
      2,
      expect.stringContaining("2 would be disabled, 0 unchanged, 0 not found"),
    ]);
    const done = await disable("--external-id", "leaver", "--output", "json", "--reason", "left the company");
    const lines = done.stdout.trim().split("\n");
    expect(lines.map((line) => (JSON.parse(line) as { outcome: string }).outcome)).toEqual(["changed", "changed"]);
    const store = sqliteStore(db);
    const { data } = await createKeyring(store).listAudit({ operation: "changeKeys", limit: 1 });
    await store.close();
    expect(data).toMatchObject([{ count: 2, reason: "left the company" }]);
    expect((await disable("--external-id", "leaver")).stderr).toContain("0 disabled, 2 unchanged, 0 not found");
    expect((await run(["keys", "enable", "--db", db, "--api-id", apiId])).stderr).toContain("2 enabled, 1 unchanged");
    expect(await disable()).toMatchObject({ code: 2, stderr: expect.stringContaining("must select keys") });
    for (const lost of ["--search", "--external-id"])
      expect(await run(["keys", "revoke", "--db", db, "--api-id", apiId, lost, ""])).toMatchObject({
        code: 2,
        stdout: "",
      });
  });

  it.each(["disable", "enable", "revoke"])(
    "%s an owner or a text that no key has: is 1, as an id that is unknown is",
    async (name) => {
      const place = join(folder(), "none.db");
      await run(["apis", "create", "--db", place, "--api-id", "api_none", "none"]);
      await run(["keys", "create", "--db", place, "--api-id", "api_none", "--external-id", "acme"]);
      for (const filter of [
        ["--external-id", "acmee"],
        ["--external-id", "acme", "--search", "nothing"],
        ["--search", "nothing"],
      ])
        for (const more of [[], ["--dry-run"], ["--output", "json"]])
          expect(await run(["keys", name, "--db", place, ...filter, ...more])).toMatchObject({
            code: 1,
            stdout: "",
            stderr: expect.stringContaining("error: no key was found\n"),
          });
      // Of an API that is there no key may be in a state.
      expect(await run(["keys", name, "--db", place, "--api-id", "api_none", "--state", "rotated"])).toMatchObject({
        code: 0,
        stderr: expect.stringContaining("0 unchanged, 0 not found"),
      });
    },
  );

  it("going on after a batch that was the last one is no failure", async () => {
    const place = join(folder(), "cursor.db");
    const store = sqliteStore(place);
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "many" });
    await keyring.createKey({ apiId, externalId: "acme" });
    const last = await keyring.createKey({ apiId, externalId: "acme" });
    const { pagination } = await keyring.searchKeys({ externalId: "acme", limit: 1 });
    await keyring.deleteKey({ keyId: last.keyId });
    const { data } = await keyring.searchKeys({ externalId: "acme" });
    await keyring.deleteKey({ keyId: data[0]!.keyId });
    await store.close();
    const flags = ["--db", place, "--external-id", "acme", "--cursor", pagination.cursor!];
    expect(await run(["keys", "disable", ...flags])).toMatchObject({ code: 0 });
  });

  it("make a key with a balance that is refilled, in all its fields", async () => {
    const made = await run(["apis", "create", "--db", db, "refilled", "--output", "json"]);
    const { apiId } = JSON.parse(made.stdout) as { apiId: string };
    const create = ["keys", "create", "--db", db, "--api-id", apiId, "--output", "json"];
    const refill = { interval: "weekly", amount: 100, refillDay: 1, timeZone: "Europe/Berlin", rollover: 20 };
    const { stdout } = await run([...create, "--credits", "5", "--refill", JSON.stringify(refill)]);
    const { keyId } = JSON.parse(stdout) as { keyId: string };
    const { stdout: shown } = await run(["keys", "get", "--db", db, keyId, "--output", "json"]);
    expect(JSON.parse(shown)).toMatchObject({ credits: { remaining: 5, refill } });
    const without = await run([...create, "--refill", JSON.stringify(refill)]);
    expect([without.code, without.stderr]).toEqual([2, expect.stringContaining("--refill: goes with --credits")]);
    const bad = await run([...create, "--credits", "5", "--refill", '{"interval":"weekly","amount":1}']);
    expect([bad.code, bad.stderr]).toEqual([2, expect.stringContaining("body.credits.refill.refillDay (--credits)")]);
  });

  it("a row is cut where the terminal ends", async () => {
    const { stdout } = await run(["apis", "list", "--db", db], { columns: 20 });
    const lines = stdout.trimEnd().split("\n");
    expect(lines.every((line) => line.length <= 20)).toBe(true);
    expect(lines[1]).toBe("api_1000  enabled  …");
  });
});
