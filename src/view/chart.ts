/** Bars by day: those that passed, and below them those that were refused. */
import { html, type Html } from "./html.js";

const HEIGHT = 40;

export const most = (values: readonly number[]): number => Math.max(0, ...values);

/**
 * Two rows of bars, each on its own scale: refusals are few, and are what one looks for. Not for screen readers, which
 * have a table of the same beside it.
 * @param refused of the same days as `valid`
 */
export function chart(valid: readonly number[], refused: readonly number[]): Html {
  const bars = (values: readonly number[], kind: string, bottom: number): Html[] =>
    values.map((value, i) => {
      const height = value === 0 ? 0 : Math.max(1, (value / most(values)) * HEIGHT);
      return html`<rect class="${kind}" x="${i * 10 + 1}" y="${(bottom - height).toFixed(1)}" width="8" height="${height.toFixed(1)}" />`;
    });
  return html`<svg class="ks-chart" viewBox="0 0 ${valid.length * 10} ${HEIGHT * 2 + 6}" preserveAspectRatio="none" aria-hidden="true">${bars(valid, "ks-valid", HEIGHT)}${bars(refused, "ks-refused", HEIGHT * 2 + 4)}</svg>`;
}
