/** A connection to PostgreSQL that ends after a write: no operation may read as if nothing had been changed. */
import type { Socket } from "node:net";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createKeyring, isKeystileError } from "../../../src/index.js";
import { postgresStore, type PostgresStore } from "../../../src/stores/postgres/index.js";
import { OPERATIONS, stageOperations } from "../../keyring/writing-operations.js";
import { noPostgresServer, startPostgres, type TestPostgres } from "../../servers/postgres.js";
import { type Proxy, startProxy } from "../../servers/proxy.js";

/** Statements that write, and what their answers say if they wrote nothing. */
const WRITES = /\.(?:write_v2|insert_keys_v1)\(/;
const WROTE_NOTHING = /"(?:conflict|taken)"/;
/** Whether the client still gets the answer of the last write. */
const CUTS = ["after its answer", "before its answer"] as const;

describe.skipIf(noPostgresServer !== undefined)("a connection to PostgreSQL that ends after a write", () => {
  let server: TestPostgres;
  let proxy: Proxy;
  let direct: PostgresStore;
  let broken: PostgresStore;
  let staged: Awaited<ReturnType<typeof stageOperations>>;
  /** Gives all tables the rows that they had at first. */
  let restore = "";
  const pools: pg.Pool[] = [];
  /** The writes that the server has made, and after which of them connections end. */
  let made = 0;
  let end: { readonly writes: number; readonly cut: (typeof CUTS)[number] };
  const writing = new WeakSet<Socket>();
  const onData = (piece: Buffer, from: "client" | "server", client: Socket): void => {
    if (from === "client") {
      if (WRITES.test(piece.toString("latin1"))) writing.add(client);
      return;
    }
    if (!writing.delete(client) || WROTE_NOTHING.test(piece.toString("latin1"))) return;
    if (++made !== end.writes) return;
    // New connections are accepted: whoever sends a write again whose answer was lost is found out.
    if (end.cut === "before its answer") proxy.cut();
    else
      setImmediate(() => {
        proxy.set("refuse");
        proxy.cut();
      });
  };

  beforeAll(async () => {
    server = await startPostgres();
    proxy = await startProxy(server.port, onData);
    const url = new URL(await server.newDatabase());
    for (const port of [server.port, proxy.port]) {
      url.port = String(port);
      const pool = new pg.Pool({ connectionString: url.href, max: 6 });
      pool.on("error", () => undefined);
      pools.push(pool);
    }
    // Not prepared, so that each statement has its text.
    direct = postgresStore(pools[0]!, { prepared: false });
    await direct.setUp();
    staged = await stageOperations(direct);
    const { rows } = await pools[0]!.query<{ name: string }>(
      "SELECT tablename AS name FROM pg_tables WHERE schemaname = 'keystile'",
    );
    const eachTable = (sql: string) => rows.map(({ name }) => sql.replaceAll("%", name)).join(";");
    await pools[0]!.query(`CREATE SCHEMA saved; ${eachTable("CREATE TABLE saved.% AS TABLE keystile.%")}`);
    restore = `SET session_replication_role = replica; ${eachTable("DELETE FROM keystile.%")};
      ${eachTable("INSERT INTO keystile.% OVERRIDING SYSTEM VALUE TABLE saved.%")}; RESET session_replication_role`;
  }, 60_000);
  afterAll(async () => {
    await direct.close();
    await Promise.all(pools.map((pool) => pool.end()));
    await proxy.close();
    await server.close();
  });

  /** @param writes after which connections end */
  const stage = async (writes: number, cut: (typeof CUTS)[number]): Promise<void> => {
    await pools[0]!.query(restore);
    broken = postgresStore(pools[1]!, { prepared: false });
    // Opened before the write.
    await broken.readMany("apis", []);
    [made, end] = [0, { writes, cut }];
  };
  const close = async (): Promise<void> => {
    proxy.set("pass");
    await broken.close();
  };

  it.each(Object.keys(OPERATIONS))("%s responds, or says outcomeUnknown", async (name) => {
    for (let writes = 1; ; writes++) {
      await stage(writes, "after its answer");
      try {
        await OPERATIONS[name]!(broken, staged);
        // Not one write more: there was nothing left to fail.
        if (made < writes) return;
      } catch (error) {
        expect(isKeystileError(error) && { code: error.code, outcomeUnknown: error.outcomeUnknown }).toEqual({
          code: "STORE_UNAVAILABLE",
          outcomeUnknown: true,
        });
      } finally {
        await close();
      }
    }
  });

  it.each(CUTS)(
    "credits, cut %s: nothing is credited twice by a caller who repeats what is known to have failed",
    async (cut) => {
      await stage(1, cut);
      const { updateCredits, updateIdentityCredits } = createKeyring(broken);
      const { keyId } = staged;
      const change = { operation: "increment", value: 5 } as const;
      for (const credit of [
        () => updateCredits({ keyId, ...change }),
        () => updateIdentityCredits({ identity: "ann", ...change }),
      ]) {
        made = 0;
        const answers: unknown[] = [];
        for (let isDone = false; !isDone && answers.length < 3;) {
          answers.push(
            await credit().catch((error: unknown) =>
              isKeystileError(error) && error.outcomeUnknown === true ? "unknown" : "failed",
            ),
          );
          isDone = answers.at(-1) !== "failed";
          proxy.set("pass");
        }
        expect(answers).toEqual([cut === "after its answer" ? { remaining: 15 } : "unknown"]);
      }
      const { getKey, getIdentity } = createKeyring(direct);
      expect((await getKey({ keyId })).credits?.remaining).toBe(15);
      expect((await getIdentity({ identity: "ann" })).credits?.remaining).toBe(15);
      await close();
    },
  );
});
