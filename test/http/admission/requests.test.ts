import { describe, expect, it } from "vitest";
import { Requests } from "../../../src/http/admission/requests.js";

/** Requests that note when they are ended. */
function requests(max: number) {
  const all = new Requests(max);
  const ended: string[] = [];
  return {
    all,
    ended,
    add(account: string, name: string, isAnswered = false) {
      const request = {
        isAnswered,
        end() {
          ended.push(name);
          all.remove(account, request);
        },
      };
      all.add(account, request);
      return request;
    },
  };
}

describe("Requests", () => {
  it("up to the bound none is ended; beyond it the oldest of the account with the most", () => {
    const { all, ended, add } = requests(5);
    for (const name of ["a1", "a2", "a3"]) add("a", name);
    for (const name of ["b1", "b2"]) add("b", name);
    expect(ended).toEqual([]);
    for (const name of ["c1", "c2", "c3"]) add("c", name);
    expect([all.size, ended]).toEqual([5, ["a1", "a2", "c1"]]);
  });

  it("whoever floods ends its own, and those that are answered meanwhile are no longer the oldest", () => {
    const { all, ended, add } = requests(100);
    const quiet = add("quiet", "quiet");
    for (let i = 0; i < 1_000; i++) {
      const quick = add("flood", "quick");
      add("flood", `slow${i}`);
      all.remove("flood", quick);
    }
    expect(ended).toEqual(Array.from({ length: 902 }, (_, i) => `slow${i}`));
    all.remove("quiet", quiet);
    all.remove("quiet", quiet);
    expect(all.size).toBe(98);
  });

  it("endUnread ends those that wait to be read, oldest first, while there are too many", () => {
    const { all, ended, add } = requests(100);
    for (const [name, isAnswered] of [
      ["performs", false],
      ["a", true],
      ["b", true],
      ["c", true],
    ] as const)
      add("one", name, isAnswered);
    add("other", "other", true);
    all.endUnread("one", () => ended.length < 2);
    expect(ended).toEqual(["a", "b"]);
    all.endUnread("one", () => true);
    all.endUnread("nobody", () => true);
    expect(ended).toEqual(["a", "b", "c"]);
  });
});
