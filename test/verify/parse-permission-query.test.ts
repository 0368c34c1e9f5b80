/** parsePermissionQuery: judges a query as a verification does, before there is one. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isKeystileError, parsePermissionQuery } from "../../src/index.js";
import { world } from "../spec/support.js";

const thrownBy = (act: () => unknown): unknown => {
  try {
    act();
  } catch (error) {
    return isKeystileError(error) ? { code: error.code, errors: error.errors } : error;
  }
  return undefined;
};

describe("parsePermissionQuery", () => {
  it("returns the permissions that the query names, each once", () => {
    const text = "documents.read AND (admin or editor) AND admin";
    expect(parsePermissionQuery(text)).toEqual({
      text,
      permissions: ["documents.read", "admin", "editor"],
      tree: {
        kind: "and",
        left: {
          kind: "and",
          left: { kind: "permission", name: "documents.read" },
          right: {
            kind: "or",
            left: { kind: "permission", name: "admin" },
            right: { kind: "permission", name: "editor" },
          },
        },
        right: { kind: "permission", name: "admin" },
      },
    });
  });

  it("says where a mistake is", () => {
    expect(thrownBy(() => parsePermissionQuery("a AND"))).toMatchObject({
      code: "PERMISSIONS_QUERY_SYNTAX",
      errors: [{ location: "body.permissions", message: expect.stringContaining("position 5"), position: 5 }],
    });
    expect(thrownBy(() => parsePermissionQuery(undefined as never))).toMatchObject({ code: "BAD_REQUEST" });
  });

  it("accepts and refuses what a verification does, in the same words", async () => {
    const { verifier, create } = await world();
    const { key } = await create();
    const words = fc.constantFrom("a", "AND", "OR", "(", ")", " ", "é", "b.c", "x".repeat(500));
    await fc.assert(
      fc.asyncProperty(fc.array(words, { maxLength: 6 }), async (parts) => {
        const text = parts.join("");
        const rejected = await verifier.verify({ key, permissions: text }).then(
          () => undefined,
          (error: unknown) =>
            thrownBy(() => {
              throw error;
            }),
        );
        expect(thrownBy(() => parsePermissionQuery(text))).toEqual(rejected);
      }),
      { numRuns: 300 },
    );
  });
});
