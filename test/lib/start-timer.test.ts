/**
 * What a program waits for settles, also where nothing else keeps the process alive: Node ends one whose event loop is
 * empty, with code 13, in the middle of an `await`.
 */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";

const RUN = promisify(execFile);
const SRC = join(import.meta.dirname, "../../src");

const PROGRAMS: readonly (readonly [title: string, program: string])[] = [
  [
    "close() of a verifier whose counts the store does not take",
    `import { createKeyring, createVerifier, memoryStore } from "${SRC}/index.ts";
     const store = memoryStore();
     const { key } = await createKeyring(store).createApi({ name: "docs" }).then(({ apiId }) => createKeyring(store).createKey({ apiId }));
     let tries = 0;
     store.countOutcomes = () => { if (++tries < 3) throw new Error("the disk is full"); return { outcome: "counted", folded: [] }; };
     const verifier = createVerifier(store, { analytics: { interval: 250 } });
     await verifier.verify({ key });
     await verifier.close();
     console.log("counted", tries);`,
  ],
  [
    "a call of PostgreSQL that is made again after a conflict",
    `import { postgresStore } from "${SRC}/stores/postgres/index.ts";
     let tries = 0;
     const query = async () => {
       if (++tries < 3) throw Object.assign(new Error("deadlock"), { code: "40P01" });
       return { rows: [] };
     };
     const store = postgresStore({ query });
     await store.readMany("roles", ["role_1"]).catch(() => undefined);
     console.log("counted", tries);`,
  ],
];

it.each(PROGRAMS)("%s settles before the process ends", async (_, program) => {
  const { stdout } = await RUN(process.execPath, ["--import", "tsx", "--input-type=module", "-e", program], {
    cwd: join(SRC, ".."),
  });
  expect(stdout).toBe("counted 3\n");
});
