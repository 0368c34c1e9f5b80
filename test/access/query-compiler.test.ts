/**
 * Compiling permission queries: the error that refuses one, and the memory of those used last. Contract 4.1-5, ruling
 * B2.
 */
import { describe, expect, it } from "vitest";
import { compileQuery, createGrants, createQueryCompiler } from "../../src/access/permission-query.js";
import { isKeystileError, type KeystileError } from "../../src/contracts/errors.js";

function syntaxError(query: string): KeystileError {
  try {
    compileQuery(query);
  } catch (error) {
    if (isKeystileError(error)) return error;
    throw error;
  }
  throw new Error("compiled");
}

describe("queries: errors", () => {
  it("contract 4.1-5: a malformed query is a 400 at body.permissions with a type of its own", () => {
    const error = syntaxError("a AND");
    expect(error).toMatchObject({ code: "PERMISSIONS_QUERY_SYNTAX", status: 400, title: "Bad Request" });
    expect(error.type).toBe("user/bad_request/permissions_query_syntax_error");
    expect(error.errors).toEqual([
      {
        location: "body.permissions",
        message: 'found the end of the query at position 5, expected a permission name or "("',
        fix: "put a permission name after the last operator, or remove the operator",
      },
    ]);
    expect(error.errors[0]?.position).toBe(5);
    expect(error.message).toBe(`body.permissions: ${error.errors[0]?.message}`);
  });

  it.each([
    ["a.".repeat(499) + "!!", 998],
    ["a".repeat(999) + "!", 999],
    ["(".repeat(1_000), 1_000],
    ["a ".repeat(500), 2],
    [" ".repeat(1_000), 1_000],
    ["((((a AND ".repeat(100), 1_000],
  ])("A051, ruling B2: a hostile query is one plain error (%#)", (query, position) => {
    expect(syntaxError(query).errors).toHaveLength(1);
    expect(syntaxError(query).message).toContain(` at position ${position}, expected `);
  });

  it("ruling B2: what is no fault of the query rises as it is", () => {
    expect(() => compileQuery("(".repeat(1_000_000))).toThrow(RangeError);
  });
});

describe("createQueryCompiler: memory", () => {
  it("createQueryCompiler: the same text answers the same query, another text another", () => {
    const compile = createQueryCompiler();
    expect(compile("a AND b")).toBe(compile(["a", "AND", "b"].join(" ")));
    expect(compile("a AND b")).not.toBe(compile("a OR b"));
    expect(compile("a OR b").satisfiedBy(createGrants(["b"]))).toBe(true);
    expect(createQueryCompiler()("a AND b")).not.toBe(compile("a AND b"));
  });

  it("createQueryCompiler: at most `size` queries are remembered, the least recently used is forgotten", () => {
    const compile = createQueryCompiler(2);
    const [first, second] = [compile("a"), compile("b")];
    expect(compile("a")).toBe(first);
    compile("c");
    expect(compile("a")).toBe(first);
    expect(compile("b")).not.toBe(second);
  });

  it("createQueryCompiler: 1,000 queries are remembered by default, errors never", () => {
    const compile = createQueryCompiler();
    const queries = Array.from({ length: 1_000 }, (_, i) => compile(`p${i}`));
    for (let i = 0; i < 1_000; i++) expect(() => compile(`p${i} p`)).toThrow();
    expect(queries.every((query, i) => compile(`p${i}`) === query)).toBe(true);
    compile("p1000");
    expect(compile("p1")).toBe(queries[1]);
    expect(compile("p0")).not.toBe(queries[0]);
  });

  it("createQueryCompiler: the same error is thrown anew each time", () => {
    const compile = createQueryCompiler();
    const errors = [1, 2].map(() => {
      try {
        return compile("a b");
      } catch (error) {
        return error;
      }
    });
    expect(errors.every(isKeystileError)).toBe(true);
    expect(errors[0]).not.toBe(errors[1]);
  });
});
