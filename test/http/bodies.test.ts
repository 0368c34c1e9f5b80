import { describe, expect, it } from "vitest";
import { OPERATIONS } from "../../src/http/operations/index.js";
import { LARGE_BODY_BYTES, longestBytes, SMALL_BODY_BYTES } from "../../src/http/operations/operation.js";
import type { JsonSchema } from "../../src/keyring/schemas/json-schema.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { JSON_TYPE, world, OF_ANYBODY } from "./support.js";

const ADDRESS = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128";
/** Of an import: there is no longest one. */
const KEYS = 1;

/** Characters of a text that has no maximum of its own: escaped, longer than a small body. */
const UNBOUNDED = 22_000;

const LONGEST_ZONE = "America/Argentina/ComodRivadavia";

/** The longest value that a schema accepts; of a name, since some lists have none twice. */
function longest(schema: JsonSchema, name: string, turn = 0): unknown {
  const { enum: values, const: only, properties, items, maxItems = KEYS, maxLength, pattern, type } = schema;
  if (only !== undefined) return only;
  if (values !== undefined) return values.at(-1);
  if (properties !== undefined)
    return Object.fromEntries(
      // A cursor is not any text; without it the page is the first. Nor is the longer of two that exclude each other.
      Object.entries(properties).flatMap(([key, part]) =>
        key === "cursor" || key === "creditsFrom"
          ? []
          : [[key, key === "timeZone" ? LONGEST_ZONE : longest(part, key, turn)]],
      ),
    );
  if (items !== undefined) return Array.from({ length: maxItems }, (_, i) => longest(items, name, i));
  const types = [type].flat();
  if (types.includes("object")) return { m: "m".repeat(65_536 - 8) };
  if (!types.includes("string")) return type === "boolean" ? true : (schema.maximum ?? 1);
  // Text without a maximum is bounded by the body alone.
  if (maxLength === undefined) return schema.minLength === undefined ? ADDRESS : "u".repeat(UNBOUNDED);
  const letter = pattern === undefined && name !== "permissions" ? "𝔘" : "a";
  return turn === 0 || name === "permissions"
    ? letter.repeat(maxLength)
    : String(turn) + letter.repeat(maxLength - String(turn).length);
}

/** JSON with every character of every text escaped. */
function escaped(value: unknown): string {
  if (typeof value === "string")
    return `"${Array.from({ length: value.length }, (_, i) => `\\u${value.charCodeAt(i).toString(16).padStart(4, "0")}`).join("")}"`;
  if (Array.isArray(value)) return `[${value.map(escaped).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  return `{${Object.entries(value)
    .map(([name, part]) => `${escaped(name)}:${escaped(part)}`)
    .join(",")}}`;
}

describe("bodies", () => {
  it.each(Object.values(OPERATIONS))("$name: its longest legal body is read", async (operation) => {
    const { name, request, bodyBytes } = operation;
    const body = longest(request, name);
    operation.validate(body);
    const text = escaped(body);
    // Without its cursor, and imports have no longest body.
    expect(text.length).toBeLessThanOrEqual(longestBytes(request));
    expect(bodyBytes).toBe(text.length + 1_024 * 6 > SMALL_BODY_BYTES ? LARGE_BODY_BYTES : SMALL_BODY_BYTES);
    // A store with an audit trail.
    const { authorization, send, close } = await world({ store: sqliteStore(":memory:") });
    const ask = async (sent: string) =>
      (await send(`/v2/${name}`, { method: "POST", headers: { authorization, ...JSON_TYPE }, body: sent })).status;
    // What is longer than 1 MiB with every character escaped is read in ASCII.
    const sent = text.length <= LARGE_BODY_BYTES ? text : JSON.stringify(body).replaceAll("𝔘", "u");
    // A long text is no query, and was read all the same.
    const accepted = /^analytics\.|changeKeys$/.test(name) ? [400] : [200, 404, 409];
    expect(accepted).toContain(await ask(sent));
    expect([413, sent.length]).toEqual([await ask(sent + " ".repeat(bodyBytes)), sent.length]);
    await close();
  });

  it("of a caller who may do nothing are not parsed, and answered by a 403 whatever they hold", async () => {
    const { rootKeyOf, close } = await world();
    const call = await rootKeyOf("api.other_api.nothing");
    for (const { name } of Object.values(OPERATIONS)) {
      if (OF_ANYBODY.includes(name)) continue;
      expect([name, (await call(name, {})).status]).toEqual([name, 403]);
      expect([name, (await call(name, [null])).status]).toEqual([name, 403]);
      expect([name, (await call(name, { x: "x".repeat(SMALL_BODY_BYTES) })).status]).toEqual([name, 403]);
    }
    await close();
  });

  it("of many wrong properties are answered by at most 100 problems, of more than any has by one", async () => {
    const { call, apiId, close } = await world();
    const wrong = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`x${i}`, 1]));
    const many = await call("keys.createKey", { apiId, ratelimits: [wrong(5_000)], ...wrong(5_000) });
    expect([many.status, many.body.error?.errors]).toEqual([400, expect.objectContaining({ length: 100 })]);
    const more = await call("keys.createKey", { apiId, meta: wrong(16_384) });
    expect(more.body.error?.errors).toEqual([
      { location: "body", message: "must have at most 16384 properties in all" },
    ]);
    await close();
  });
});
