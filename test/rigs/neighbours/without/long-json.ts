/** In place of parsing in pieces: a long body is parsed at once, and nothing is counted. */
import type { CountedJson } from "../../../../src/http/long-json.js";

export const MAX_BYTES_PER_BYTE = 44;

export const countJson = (text: string): Promise<CountedJson> =>
  Promise.resolve({ text, bytes: text.length, long: new Map() });

export const parseCounted = ({ text }: CountedJson): Promise<unknown> => Promise.resolve(JSON.parse(text) as unknown);
