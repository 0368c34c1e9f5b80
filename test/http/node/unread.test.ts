import { describe, expect, it } from "vitest";
import { createUnread } from "../../../src/http/node/unread.js";

const made = () => {
  const calls: string[] = [];
  const socket = (name: string) => ({
    setTimeout: (ms: number) => calls.push(`${name} ${ms}`),
    destroy: () => calls.push(`${name} cut`),
  });
  return { unread: createUnread({ timeout: 500, maxBytes: 100 }), socket, calls };
};

describe("unread answers", () => {
  it("beyond the bound the connection with most bytes is cut, and no other", () => {
    const { unread, socket, calls } = made();
    const [a, b, c] = [socket("a"), socket("b"), socket("c")];
    unread.add(a, 30);
    unread.add(b, 30);
    unread.add(b, 30);
    expect(calls).toEqual([]);
    unread.add(c, 20);
    expect(calls).toEqual(["b cut"]);
    // What was cut counts no more, also when its responses end.
    unread.remove(b, 60, false);
    unread.add(c, 50);
    expect(calls).toEqual(["b cut"]);
    unread.add(a, 1);
    expect(calls).toEqual(["b cut", "c cut"]);
  });

  it("whoever still waits at a sweep has the timeout, once; it ends with the waiting unless Node has set another", () => {
    const { unread, socket, calls } = made();
    const [a, b] = [socket("a"), socket("b")];
    unread.add(a, 1);
    unread.remove(a, 1, true);
    unread.sweep();
    expect(calls).toEqual([]);
    unread.add(a, 1);
    unread.add(b, 1);
    unread.sweep();
    unread.sweep();
    expect(calls).toEqual(["a 500", "b 500"]);
    unread.remove(a, 1, true);
    unread.remove(b, 1, false);
    expect(calls).toEqual(["a 500", "b 500", "a 0"]);
  });
});
