/** Forms are taken once: the same again meanwhile gets the same answer, and afterwards none. */
import { describe, expect, it } from "vitest";
import { createSentForms } from "../../src/view/reading.js";

const formOf = (owner: string, once: string, fields: Record<string, string> = {}, here = "/new") => ({
  ...{ owner, here },
  form: new URLSearchParams({ csrf: owner, once, ...fields }),
});

describe("createSentForms", () => {
  it("the same form while it is under way gets the same answer, and what it does is done once", async () => {
    const sent = createSentForms();
    let acts = 0;
    let end: (answer: string) => void = () => undefined;
    const act = () => (acts++, new Promise<string>((resolve) => (end = resolve)));
    const [first, second] = [sent.once(formOf("ann", "a"), act), sent.once(formOf("ann", "a"), act)];
    // With the same id, but not the same form.
    expect(sent.once(formOf("ann", "a", { name: "x" }), act)).toBeUndefined();
    expect(sent.once(formOf("ann", "a", {}, "/keys/1"), act)).toBeUndefined();
    end("made");
    expect([await first, await second, acts]).toEqual(["made", "made", 1]);
    expect(sent.once(formOf("ann", "a"), act)).toBeUndefined();
  });

  it("a form that failed may be sent again", async () => {
    const sent = createSentForms();
    const fail = () => Promise.reject(new Error("no"));
    const both = [sent.once(formOf("ann", "a"), fail), sent.once(formOf("ann", "a"), fail)];
    for (const one of both) await expect(one).rejects.toThrow("no");
    await expect(sent.once(formOf("ann", "a"), () => Promise.resolve("done"))).resolves.toBe("done");
  });

  it("who sends most loses the memory of its own oldest forms, and nobody else's", async () => {
    const sent = createSentForms();
    const act = () => Promise.resolve("done");
    for (const id of ["a", "b"]) await sent.once(formOf("bob", id), act);
    for (let i = 0; i <= 10_000; i++) await sent.once(formOf("ann", String(i)), act);
    for (const id of ["a", "b"]) expect(sent.once(formOf("bob", id), act)).toBeUndefined();
    expect(sent.once(formOf("ann", "10000"), act)).toBeUndefined();
    await expect(sent.once(formOf("ann", "0"), act)).resolves.toBe("done");
  });

  it("owners come and go, and the memory stays as small", async () => {
    const sent = createSentForms();
    const act = () => Promise.resolve("done");
    for (let i = 0; i < 10_001; i++) await sent.once(formOf(`owner ${i}`, "a"), act);
    await expect(sent.once(formOf("owner 0", "a"), act)).resolves.toBe("done");
    expect(sent.once(formOf("owner 10000", "a"), act)).toBeUndefined();
  });
});
