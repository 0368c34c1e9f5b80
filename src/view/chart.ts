/** Bars by day: those that passed, and below them those that were refused. */
import { number } from "./format.js";
import { html, type Html, type Part } from "./html.js";

const HEIGHT = 40;

export const most = (values: readonly number[]): number => Math.max(0, ...values);

/** One row of bars, as high as a line of text, with the same in words. */
export function spark(values: readonly number[]): Html {
  const highest = Math.max(1, most(values));
  const bars = values.map((value, i) => {
    const height = value === 0 ? 0 : Math.max(1, (value / highest) * 16);
    return html`<rect class="ks-valid" x="${i * 5}" y="${(16 - height).toFixed(1)}" width="4" height="${height.toFixed(1)}" />`;
  });
  const sum = values.reduce((all, value) => all + value, 0);
  return html`<span class="ks-trend"><svg class="ks-spark" viewBox="0 0 ${values.length * 5} 16" aria-hidden="true">${bars}</svg> ${number(sum)}</span>`;
}

/**
 * Two rows of bars, each on its own scale with its highest value beside it: refusals are few, and are what one looks
 * for. Not for screen readers, which have a table of the same beside it.
 * @param refused of the same days as `passed`
 * @param options `texts` says something of each day while the pointer is over it; `write` formats the highest values
 */
export function chart(
  passed: readonly number[],
  refused: readonly number[],
  { texts = [], write = number }: { readonly texts?: readonly Part[]; readonly write?: (value: number) => string } = {},
): Html {
  const bars = (values: readonly number[], kind: string, bottom: number): Html[] =>
    values.map((value, i) => {
      const height = value === 0 ? 0 : Math.max(1, (value / most(values)) * HEIGHT);
      return html`<rect class="${kind}" x="${i * 10 + 1}" y="${(bottom - height).toFixed(1)}" width="8" height="${height.toFixed(1)}" />`;
    });
  const whole = HEIGHT * 2 + 6;
  const width = passed.length * 10;
  const line = (y: number): Html => html`<rect class="ks-track" x="0" y="${y}" width="${width}" height="0.5" />`;
  const over = texts.map(
    (text, i) =>
      html`<rect class="ks-over" x="${i * 10}" y="0" width="10" height="${whole}"><title>${text}</title></rect>`,
  );
  const axis = [passed, refused].map((values) => html`<span><i>${write(most(values))}</i><i>0</i></span>`);
  return html`<div class="ks-plot"><p class="ks-axis" aria-hidden="true">${axis}</p><svg class="ks-chart" viewBox="0 0 ${width} ${whole}" preserveAspectRatio="none" aria-hidden="true">${line(HEIGHT)}${line(whole - 2)}${bars(passed, "ks-valid", HEIGHT)}${bars(refused, "ks-refused", HEIGHT * 2 + 4)}${over}</svg></div>`;
}

/**
 * What is left at the end of each day.
 * @param left by day
 * @param known how many of these days have begun; the others are a forecast, in pale
 * @param texts what is said of each day where the pointer is over it
 */
export function burnDown(left: readonly number[], known: number, texts: readonly Part[]): Html {
  const highest = Math.max(1, most(left));
  const bars = left.map((value, i) => {
    const height = Math.max(value > 0 ? 1 : 0, (value / highest) * HEIGHT);
    const kind = i < known ? "ks-valid" : "ks-track";
    return html`<rect class="${kind}" x="${i * 10 + 1}" y="${(HEIGHT - height).toFixed(1)}" width="8" height="${height.toFixed(1)}"><title>${texts[i]}</title></rect>`;
  });
  return html`<div class="ks-plot"><p class="ks-axis" aria-hidden="true"><span><i>${number(highest)}</i><i>0</i></span></p><svg class="ks-chart" viewBox="0 0 ${left.length * 10} ${HEIGHT}" preserveAspectRatio="none" aria-hidden="true">${bars}</svg></div>`;
}
