/**
 * Each guarded route of examples/ as a process of its own: it passes, refuses and limits over real HTTP. Their types
 * are checked by `npm run check`. The programs of docs/recipes have tests of their own beside this file.
 */
import { beforeAll, describe, expect, it } from "vitest";
import { buildPrograms, PROGRAMS, type Programs, RECIPES } from "./programs.js";

const programs = PROGRAMS.filter((file) => !RECIPES.includes(file));

describe("examples", () => {
  let built: Programs;
  beforeAll(async () => {
    built = await buildPrograms(programs, "examples");
  });

  it("there is one for each framework", () => {
    const frameworks = ["elysia", "express", "fastify", "h3", "hono", "koa", "nest", "trpc", "web"];
    expect(programs.sort()).toEqual(frameworks.map((name) => `${name}.ts`));
  });

  it.each(programs)("%s: 200, 401, 403 and 429", async (file) => {
    const { keys, url, stop } = await built.start(file);
    try {
      const call = (authorization?: string) =>
        fetch(url, authorization === undefined ? {} : { headers: { authorization } });
      const first = await call(keys.get("may read"));
      expect([first.status, await first.text()]).toEqual([200, expect.stringMatching(/"keyId":"key_\w+"/)]);
      expect((await call()).status).toBe(401);
      expect((await call(keys.get("may not"))).status).toBe(403);
      expect((await call(keys.get("may read"))).status).toBe(200);
      expect((await call(keys.get("may read"))).status).toBe(200);
      const limited = await call(keys.get("may read"));
      expect([limited.status, Number(limited.headers.get("retry-after"))]).toEqual([429, expect.closeTo(19, -1)]);
    } finally {
      await stop();
    }
  });
});
