/** Health: whether the store can be relied on, and what it and the verifier have counted. */
import { number, words } from "../../view/format.js";
import { html, type Part } from "../../view/html.js";
import { badge, facts, section, table, type Tone } from "../../view/parts.js";
import type { Content, Page, View } from "../view/view.js";

async function show(view: View): Promise<Content> {
  const { ok, problems, warnings, counters } = await view.health();
  const state =
    ok === true
      ? badge("good", "All is well")
      : badge(ok === false ? "bad" : "plain", ok === false ? "Something is wrong" : "Unknown");
  const found =
    (tone: Tone, level: string) =>
    (text: string): Part[] => [badge(tone, level), text];
  const findings = [...problems.map(found("bad", "Problem")), ...warnings.map(found("warn", "Warning"))];
  const numbers = Object.entries(counters).filter(([, value]) => value !== 0);
  const zeros = Object.entries(counters).filter(([, value]) => value === 0);
  const rest =
    zeros.length > 0 && html`<p class="ks-hint ks-below">Zero: ${zeros.map(([name]) => words(name)).join(", ")}.</p>`;
  return {
    title: "Health",
    about: state,
    body: html`${section("Findings", table("Findings", ["Level", "What"], findings, "No problem is found."))}
      ${section("Technical", html`<p class="ks-lead">What this process counted since it began.</p>${facts(numbers.map(([name, value]) => [words(name), number(value)]))}${rest}`)}`,
  };
}

/** The page about health. */
export const healthPages: readonly Page[] = [{ path: "/health", show }];
