/** The catalogue of faults: contract 2.4, 7, ruling G3. */
import { describe, expect, it } from "vitest";
import { badRequest, isKeystileError, KeystileError, listProblemTypes } from "../../src/contracts/errors.js";

describe("errors: the catalogue", () => {
  it("contract 7: types and titles as the specification names them", () => {
    const type = (code: ConstructorParameters<typeof KeystileError>[0]) => {
      const { type, status, title } = new KeystileError(code, "x");
      return `${status} ${title} ${type}`;
    };
    expect(type("PERMISSIONS_QUERY_SYNTAX")).toBe("400 Bad Request user/bad_request/permissions_query_syntax_error");
    expect(type("AUTH_MISSING")).toBe("401 Unauthorized keystile/authentication/missing");
    expect(type("AUTH_MALFORMED")).toBe("401 Unauthorized keystile/authentication/malformed");
    expect(type("AUTH_KEY_NOT_FOUND")).toBe("401 Unauthorized keystile/authentication/key_not_found");
    expect(type("CALLER_FORBIDDEN")).toBe("403 Forbidden forbidden");
    expect(type("PROTECTED_RESOURCE")).toBe("403 Forbidden keystile/application/protected_resource");
    expect(type("TOO_MANY_REQUESTS")).toBe("429 Too Many Requests user/too_many_requests");
    expect(type("INTERNAL")).toBe("500 Internal Server Error application/internal");
  });

  it("listProblemTypes: each type once, by status, fit for a path, with a title of its status", () => {
    const types = listProblemTypes();
    expect(new Set(types.map(({ type }) => type)).size).toBe(types.length);
    expect(types.map(({ status }) => status)).toEqual(types.map(({ status }) => status).sort((a, b) => a - b));
    const titles = new Map<number, string>();
    for (const { type, status, title, code } of types) {
      expect(type).toMatch(/^[a-z_]+(\/[a-z_]+)*$/);
      expect(titles.get(status) ?? title).toBe(title);
      titles.set(status, title);
      expect(new KeystileError(code, "x")).toMatchObject({ code, type, status, title, errors: [] });
    }
  });

  it("KeystileError is recognised by its brand, and keeps its cause", () => {
    const cause = new Error("disk");
    const error = new KeystileError("INTERNAL", "x", { cause });
    expect([isKeystileError(error), error.cause, error.detail, error.name]).toEqual([
      true,
      cause,
      "x",
      "KeystileError",
    ]);
    for (const other of [cause, null, undefined, "x", { code: "INTERNAL" }]) expect(isKeystileError(other)).toBe(false);
  });

  it("a clone is none any more, and has neither code nor status; JSON keeps all that programs judge by", () => {
    const error = new KeystileError("NOT_FOUND", "there is no such API", {
      errors: [{ location: "body.apiId", message: "is unknown" }],
    });
    const clone: unknown = structuredClone(error);
    expect([isKeystileError(clone), (clone as Error).message, Object.keys(clone as Error)]).toEqual([
      false,
      error.message,
      [],
    ]);
    const { code, status, title, type, detail, errors } = error;
    expect(JSON.parse(JSON.stringify(error))).toEqual({
      name: "KeystileError",
      code,
      status,
      title,
      type,
      detail,
      errors,
    });
  });

  it("badRequest names the first problem and counts the rest", () => {
    const problems = [1, 2, 3].map((i) => ({ location: `body.a${i}`, message: "is required" }));
    const error = badRequest(problems);
    expect([error.detail, error.status, error.errors]).toEqual(["body.a1: is required (and 2 more)", 400, problems]);
    expect(badRequest(problems.slice(0, 1), "PERMISSIONS_QUERY_SYNTAX")).toMatchObject({
      code: "PERMISSIONS_QUERY_SYNTAX",
      detail: "body.a1: is required",
    });
  });
});
