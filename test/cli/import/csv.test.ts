import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readCsv } from "../../../src/cli/import/csv.js";
import { runs } from "../../runs.js";

/** In chunks of `size` bytes, which may split a character. */
async function* chunks(text: string, size: number): AsyncIterable<Uint8Array> {
  const bytes = new TextEncoder().encode(text);
  for (let i = 0; i < bytes.length; i += size) yield bytes.subarray(i, i + size);
}

async function read(text: string, size = 65_536) {
  const rows = [];
  for await (const row of readCsv(chunks(text, size), "--keys")) rows.push(row);
  return rows;
}

describe("readCsv", () => {
  it("reads cells by column, quoted ones over several lines, and numbers rows by their first line", async () => {
    const text =
      'hash,name,meta\r\na,"Ann ""the"" first",\r\n\r\nb,"two\n\nlines, one cell","{""plan"":""pro""}"\r\nc, x ,1';
    expect(await read(text)).toEqual([
      { number: 2, value: { hash: "a", name: 'Ann "the" first' } },
      { number: 4, value: { hash: "b", name: "two\n\nlines, one cell", meta: '{"plan":"pro"}' } },
      { number: 7, value: { hash: "c", name: " x ", meta: "1" } },
    ]);
    expect(await read("hash,name\n")).toEqual([]);
  });

  it.each([
    ['a,b"c\nd,e', "column 4: a quotation mark in a cell that does not begin with one"],
    ['a,"b"c\nd,e', "column 3: there is text after the closing quotation mark"],
    ['"a\nb"c,\nd,e', "column 2 of its last line: there is text after the closing quotation mark"],
    ["a\nd,e", "has 1 cells, and the header 2"],
    ["a,b,c\nd,e", "has 3 cells, and the header 2"],
  ])("%j: the row fails at its column, and the next one is read", async (rows, problem) => {
    const all = await read(`hash,name\n${rows}\n`);
    expect(all[0]).toEqual({ number: 2, problem });
    expect(all.at(-1)).toMatchObject({ value: { hash: "d", name: "e" } });
  });

  it("a quotation mark that is never closed takes what follows, at most 1 MiB", async () => {
    expect(await read('hash,name\na,b\nc,"d\ne,f\n')).toEqual([
      { number: 2, value: { hash: "a", name: "b" } },
      { number: 3, problem: "column 3: its quotation mark is never closed" },
    ]);
    const [long, ...rest] = await read(`hash,name\na,"b\n${"c,d\n".repeat(400_000)}`);
    expect(long).toEqual({ number: 2, problem: "more than 1 MiB; is a quotation mark not closed?" });
    expect(rest.at(-1)).toEqual({ number: 400_002, value: { hash: "c", name: "d" } });
  });

  it("a line that is no UTF-8 fails alone", async () => {
    const bytes = Buffer.concat([Buffer.from("hash\n"), Buffer.from([0xff, 0x0a]), Buffer.from("b\n")]);
    const rows = [];
    const source = (async function* () {
      yield bytes;
    })();
    for await (const row of readCsv(source, "--keys")) rows.push(row);
    expect(rows).toEqual([
      { number: 2, problem: "not UTF-8" },
      { number: 3, value: { hash: "b" } },
    ]);
  });

  it.each([
    ["a,a", "line 1: column 2 has the name of another"],
    ["hash,", "line 1: column 2 has no name; CSV begins with a header"],
    ["2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae", "line 1: column 1 has no name"],
    ['"hash', "line 1: column 1: its quotation mark is never closed"],
    ['ha"sh,b', "line 1: column 3: a quotation mark"],
  ])("header %j is refused, without its text", async (header, message) => {
    await expect(read(`${header}\n`)).rejects.toThrow(`--keys: ${message}`);
  });

  it("what is written by the rules is read as it was, in chunks of any size", async () => {
    const cell = fc.string({ unit: fc.constantFrom("a", '"', ",", "\n", "ü", " ") }).filter((text) => text !== "");
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(cell, cell)), fc.integer({ min: 1, max: 20 }), async (rows, size) => {
        const quoted = (text: string) => `"${text.replaceAll('"', '""')}"`;
        const text = ["one,two", ...rows.map((cells) => cells.map(quoted).join(","))].join("\n");
        expect((await read(text, size)).map(({ value }) => value)).toEqual(rows.map(([one, two]) => ({ one, two })));
      }),
      { numRuns: runs(100) },
    );
  });
});
