/** Errors of work that several calls waited for: each gets one of its own, which says the same. */
import { expect, it } from "vitest";
import { badRequest, KeystileError } from "../../src/contracts/errors.js";
import { copyOfError } from "../../src/lib/copy-error.js";

it.each([
  new KeystileError("STORE_UNAVAILABLE", "it may have been made", { outcomeUnknown: true, cause: new Error("gone") }),
  new KeystileError("STORE_UNAVAILABLE", "it was not made"),
  badRequest([{ location: "body.key", message: "is required" }]),
])("a copy is another error that says all that the first does: %s", (error) => {
  const copy = copyOfError(error) as KeystileError;
  expect(copy).not.toBe(error);
  expect(copy).toBeInstanceOf(KeystileError);
  const { stack: _, ...rest } = Object.getOwnPropertyDescriptors(error);
  const { stack: __, ...copied } = Object.getOwnPropertyDescriptors(copy);
  expect(copied).toEqual(rest);
});

it("any other error stays as it is", () => {
  const error = new Error("gone");
  expect(copyOfError(error)).toBe(error);
});
