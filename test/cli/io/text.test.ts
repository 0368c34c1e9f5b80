/** Text for terminals. */
import { describe, expect, it } from "vitest";
import type { Io } from "../../../src/cli/io/io.js";
import { hang } from "../../../src/cli/io/text.js";

const wide = (columns?: number): Io => ({ stdout: { columns } }) as Io;

describe("hang", () => {
  it("goes on below the start of the text, after a space or a comma, and cuts what has neither", () => {
    expect(hang(wide(30), 4, "one two three four five six seven")).toBe("one two three four five\n    six seven");
    expect(hang(wide(30), 4, `{"a":${"1".repeat(30)},"b":2}`)).toBe(
      `{"a":${"1".repeat(21)}\n    ${"1".repeat(9)},"b":2}`,
    );
  });

  it("loses nothing, and no line is longer than the terminal", () => {
    const text = JSON.stringify({ name: "requests", list: Array.from({ length: 40 }, (_, i) => i * 997), more: "x y" });
    for (let columns = 24; columns < 90; columns++) {
      const lines = hang(wide(columns), 4, text).split("\n    ");
      expect([columns, lines.join("").replaceAll(" ", "")]).toEqual([columns, text.replaceAll(" ", "")]);
      expect(Math.max(...lines.map(({ length }) => length + 4))).toBeLessThanOrEqual(columns);
    }
  });

  it("where there is no terminal a line is as long as it is", () => {
    expect(hang(wide(), 4, "x ".repeat(200))).toBe("x ".repeat(200));
  });
});
