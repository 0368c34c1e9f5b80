/** The type of `meta` where a framework declares its request once for a program: the program registers it. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript";
import { afterAll, describe, expect, it } from "vitest";

const root = process.cwd();
const folder = mkdtempSync(join(root, "test", ".registered-"));
afterAll(() => rmSync(folder, { recursive: true }));

const PROGRAM = `
  import express from "express";
  import fastify from "fastify";
  import { Hono } from "hono";
  import { createVerifier, type JsonObject, memoryStore } from "../../src/index.js";
  import { apiKey as guardExpress } from "../../src/middleware/express.js";
  import { apiKey as guardFastify } from "../../src/middleware/fastify.js";
  import { apiKey as guardHono } from "../../src/middleware/hono.js";
  import type { NestRequest } from "../../src/middleware/nest.js";
  declare global { namespace Keystile { interface Register { meta: { plan: string } } } }
  type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? A : never;
  const is = <B>() => <A>(value: Same<A, B>) => value;
  const meta = is<{ plan: string } | undefined>();
  const verifier = createVerifier(memoryStore());
  express().get("/", guardExpress(verifier), (req) => void meta(req.apiKey?.meta));
  fastify().register(guardFastify(verifier)).get("/", (request) => void meta(request.apiKey?.meta));
  new Hono().get("/", guardHono(verifier), (c) => (meta(c.var.apiKey?.meta), c.text("")));
  export const nest = (request: NestRequest) => meta(request.apiKey?.meta);
  // @ts-expect-error it is no longer any JSON
  export const other = (request: NestRequest) => is<JsonObject | undefined>()(request.apiKey?.meta);
`;

function faultsOf(text: string): string[] {
  const path = join(folder, "program.ts");
  writeFileSync(path, text);
  const config = ts.readConfigFile(join(root, "tsconfig.json"), (file) => ts.sys.readFile(file)).config as object;
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root);
  const checked = ts.createProgram([path], options);
  const source = checked.getSourceFile(path);
  return checked
    .getSemanticDiagnostics(source)
    .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, "\n"));
}

describe("Keystile.Register", () => {
  it("types `meta` in Express, Fastify, Hono and Nest", () => {
    expect(faultsOf(PROGRAM)).toEqual([]);
  });
});
