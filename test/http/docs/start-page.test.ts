/** `GET /` leads people to the documentation; to programs there is nothing. */
import { describe, expect, it } from "vitest";
import { createHandler } from "../../../src/http/index.js";
import { memoryStore } from "../../../src/index.js";

describe("GET /", () => {
  const handler = createHandler(memoryStore());
  const ask = (method: string, accept: string) => handler(new Request("http://a/", { method, headers: { accept } }));

  it("is a page for browsers", async () => {
    const response = await ask("GET", "text/html,application/xhtml+xml");
    expect([response.status, response.headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"]);
    const text = await response.text();
    for (const path of ["/docs", "/openapi.json", "/ready"]) expect(text).toContain(`href="${path}"`);
  });

  it.each([
    ["GET", "application/json"],
    ["GET", "*/*"],
    ["POST", "text/html"],
  ])("%s with %s is a 404", async (method, accept) => {
    expect((await ask(method, accept)).status).toBe(404);
  });
});
