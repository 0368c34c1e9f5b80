/** Example command lines for the help of each operation. A test checks that every example is a valid request. */
import type { Json } from "../../contracts/types.js";
import { sampleOf } from "../../http/docs/samples.js";
import type { Flag } from "./flags.js";

/** Optional flags that examples show. */
const SHOWN_OPTIONAL: ReadonlySet<string> = new Set(["value"]);
/** Of commands that need one of several flags, none of which is required by itself: the one that is shown. */
const ONE_OF: Readonly<Record<string, string>> = {
  "keys change-keys": "externalId",
  "analytics get-refusals": "keyId",
  "analytics get-statement": "externalId",
};

/** A command line with each required flag. */
export function exampleOf(command: string, flags: readonly Flag[]): string {
  const shown = flags.filter(
    ({ name, isRequired }) => isRequired || SHOWN_OPTIONAL.has(name) || ONE_OF[command] === name,
  );
  const given = shown.map(({ name, flag, schema }) => `${flag} ${argument(sampleOf(schema, name, true))}`);
  return ["keystile", "api", command, ...given].join(" ");
}

function argument(sample: Json): string {
  const text = typeof sample === "string" ? sample : JSON.stringify(sample);
  if (typeof sample === "object") return `'${text}'`;
  return text.includes(" ") ? `"${text}"` : text;
}
