/** What every statement adds up to. */
import { expect } from "vitest";
import type { Statement, StatementSums } from "../../src/index.js";

const SUMS = ["opening", "refills", "granted", "adjustments", "spent", "forfeited", "expired", "closing"] as const;
export const balanceOf = (of: StatementSums) =>
  of.opening + of.refills + of.granted + of.adjustments - of.spent - of.forfeited - of.expired;
export const sumOf = (all: Statement, ...kinds: Statement["lines"][number]["kind"][]) =>
  all.lines.filter(({ kind }) => kinds.includes(kind)).reduce((sum, { credits }) => sum + credits, 0);

/** Each account and all together balance, and the lines add up to the sums. */
export function expectBalanced(all: Statement): void {
  expect(balanceOf(all)).toBe(all.closing);
  for (const one of all.accounts) expect(balanceOf(one)).toBe(one.closing);
  for (const name of SUMS)
    expect(
      all.accounts.reduce((sum, one) => sum + (one.isCap === true ? 0 : one[name]), 0),
      name,
    ).toBe(all[name]);
  expect(all.days.reduce((sum, day) => sum + day.spent, 0)).toBe(all.spent);
  expect(sumOf(all, "refill")).toBe(all.refills);
  expect(sumOf(all, "grant")).toBe(all.granted);
  expect(sumOf(all, "adjustment", "moved", "unexplained")).toBe(all.adjustments);
  expect(sumOf(all, "unexplained")).toBe(all.unexplained);
  expect(0 - sumOf(all, "forfeited")).toBe(all.forfeited);
  expect(0 - sumOf(all, "expired")).toBe(all.expired);
  const times = all.lines.map(({ time }) => time);
  expect(times).toEqual([...times].sort((a, b) => a - b));
}
