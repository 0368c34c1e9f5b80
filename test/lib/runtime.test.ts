/** Which runtimes keystile takes. */
import { expect, it } from "vitest";
import { assertRuntime, EARLIEST_NODE, isEarlierNode } from "../../src/lib/runtime.js";

it("Node before 20.12 is told apart by its version", () => {
  for (const version of ["18.20.8", "20.0.0", "20.11.1", ""]) expect(isEarlierNode(version), version).toBe(true);
  for (const version of ["20.12.0", "20.20.0", "22.0.0", "26.1.0"]) expect(isEarlierNode(version), version).toBe(false);
});

it("a runtime without isWellFormed is refused with what it should be", () => {
  expect(() => assertRuntime()).not.toThrow();
  const { isWellFormed } = String.prototype;
  try {
    Reflect.deleteProperty(String.prototype, "isWellFormed");
    expect(() => assertRuntime()).toThrow(`keystile takes Node ${EARLIEST_NODE} or later`);
  } finally {
    Object.defineProperty(String.prototype, "isWellFormed", {
      value: isWellFormed,
      writable: true,
      configurable: true,
    });
  }
});
