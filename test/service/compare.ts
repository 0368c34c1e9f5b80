/** Pictures of pages, compared so that fonts and random ids do not matter. */
import type { Browser } from "playwright-core";

/** Ids are random and fonts differ between machines, so pictures are compared as tiles of some letters each. */
const TILES = { width: 40, height: 39 };
/** Mean difference of brightness of all tiles, of 255. Another font makes up to 1.3, a missing chart 5.7 and more. */
export const TOLERANCE = 3.5;

// In the browser, which reads pictures anyway; as text, since this file is compiled without the types of browsers.
const COMPARE = `async (pictures, { width, height }) => {
  const [one, two] = await Promise.all(pictures.map(async (base64) => {
    const image = new Image();
    image.src = "data:image/png;base64," + base64;
    await image.decode();
    const context = new OffscreenCanvas(width, height).getContext("2d");
    context.imageSmoothingQuality = "high";
    context.drawImage(image, 0, 0, width, height);
    return context.getImageData(0, 0, width, height).data;
  }));
  const brightness = (data, at) => 0.299 * data[at] + 0.587 * data[at + 1] + 0.114 * data[at + 2];
  let sum = 0;
  for (let at = 0; at < one.length; at += 4) sum += Math.abs(brightness(one, at) - brightness(two, at));
  return sum / (width * height);
}`;

/** How far two pictures are apart, to be compared with {@link TOLERANCE}. */
export async function differenceOf(browser: Browser, ...pictures: readonly [Buffer, Buffer]): Promise<number> {
  const page = await browser.newPage();
  const texts = pictures.map((picture) => picture.toString("base64"));
  const found = await page.evaluate<number>(`(${COMPARE})(${JSON.stringify(texts)}, ${JSON.stringify(TILES)})`);
  await page.close();
  return found;
}
