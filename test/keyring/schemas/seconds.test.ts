/**
 * Seconds where milliseconds are asked for: every integer of every request is a time, a length of time or neither, and
 * each of the first two is refused, or where the contract takes it, warned of.
 */
import { describe, expect, it } from "vitest";
import { createAnalytics } from "../../../src/analytics/analytics.js";
import { isKeystileError } from "../../../src/contracts/errors.js";
import { OPERATIONS } from "../../../src/http/operations/index.js";
import { createServer } from "../../../src/http/index.js";
import { createKeyring, createRatelimits, createVerifier, forOwner, memoryStore } from "../../../src/index.js";
import type { JsonSchema } from "../../../src/keyring/schemas/json-schema.js";
import { explainSeconds, explainShort, secondsIn } from "../../../src/lib/seconds.js";
import { apiKey } from "../../../src/middleware/web.js";
import { problems } from "../support.js";

const SECONDS = 1_700_000_000;
/** Every integer that a request may have, by its name: what it is. */
const TIMES = ["expires", "expiresBefore", "expiresFrom", "from", "to", "createdAt"];
const LENGTHS = ["duration", "expiration", "expiresIn", "maxAge", "within"];
const NUMBERS = [
  ...["amount", "byteLength", "cost", "creditsBelow", "limit", "refillDay", "remaining", "rollover", "value"],
  ...["credits", "priority"],
];
/** Fields in which any length is taken by the contract, or an earlier part of it decides. */
const TAKEN_OVER_HTTP = ["createKey", "updateKey", "migrateKeys", "rerollKey", "verifyKey", "explainKey"];

/** Paths of all integers of a schema, such as `ratelimits[0].duration`. */
function integersOf({ type, properties = {}, items }: JsonSchema, path = ""): string[] {
  if ([type].flat().includes("integer")) return [path];
  const inside = Object.entries(properties).flatMap(([name, part]) =>
    integersOf(part, path === "" ? name : `${path}.${name}`),
  );
  return items === undefined ? inside : [...inside, ...integersOf(items, `${path}[0]`)];
}

const locationOf = (path: string): string => (path.startsWith("[") ? `body${path}` : `body.${path}`);

/** A body with one value in it. */
function bodyWith(path: string, value: number): unknown {
  const parts = path.split(/\.|(?=\[0\])/);
  return parts.reduceRight<unknown>((inner, part) => (part === "[0]" ? [inner] : { [part]: inner }), value);
}

const FIELDS = Object.values(OPERATIONS).flatMap(({ name, request }) => {
  const whole = request.items === undefined ? request : { items: request.items };
  return integersOf(whole).map((path) => ({ name, path, field: path.split(".").at(-1) ?? path }));
});
const SUSPECT = FIELDS.filter(({ field }) => !NUMBERS.includes(field));

describe("a time or a length of time in seconds", () => {
  it("every integer of a request over HTTP is known as a time, a length, or neither", () => {
    const known = [...TIMES, ...LENGTHS, ...NUMBERS];
    expect(FIELDS.filter(({ field }) => !known.includes(field))).toEqual([]);
    expect(SUSPECT.length).toBeGreaterThan(10);
  });

  it.each(SUSPECT)("$name: $path is refused, or warned of, over HTTP", ({ name, path, field }) => {
    const [value, verb] = [TIMES.includes(field) ? SECONDS : 60, name.split(".")[1] as string];
    const body = bodyWith(path, value);
    let refused: unknown;
    try {
      OPERATIONS[name]!.validate(body);
    } catch (error) {
      refused = isKeystileError(error) && error.errors.find(({ location }) => location === locationOf(path));
    }
    const isTaken = TAKEN_OVER_HTTP.includes(verb) && secondsIn(body) !== undefined;
    const fix = `did you mean ${value * 1_000}?`;
    if (isTaken)
      expect(secondsIn(body)).toMatchObject({
        name: path.split(/\W/).find((part) => part !== "keys" && part !== "0" && part !== ""),
        fix,
      });
    else expect(refused).toMatchObject({ fix });
  });

  const store = memoryStore();
  const methods = { ...createKeyring(store), ...createRatelimits(store) } as unknown as Readonly<
    Record<string, ((body: unknown) => Promise<unknown>) | undefined>
  >;
  const ofLibrary = SUSPECT.filter(({ name, path }) => {
    const [group, verb = ""] = name.split(".");
    // A verification takes any length, and imports by the contract's form take any time.
    return group !== "analytics" && methods[verb] !== undefined && !path.startsWith("keys[0].expires");
  });

  it.each([...ofLibrary, { name: "keys.createKey", path: "expiresIn", field: "expiresIn" }])(
    "$name: $path is refused in the library, and the same in milliseconds is told",
    async ({ name, path, field }) => {
      const value = TIMES.includes(field) ? SECONDS : 60;
      const act = methods[name.split(".")[1] as string]!;
      const error: unknown = await act(bodyWith(path, value)).catch((thrown: unknown) => thrown);
      const found = isKeystileError(error) && error.errors.find(({ location }) => location === locationOf(path));
      expect(found).toMatchObject({ fix: `did you mean ${value * 1_000}?` });
    },
  );

  it("queries of counts, removals of counts and the keys of an owner refuse it", async () => {
    const analytics = createAnalytics(store);
    expect(await problems(analytics.query({ from: SECONDS, to: SECONDS + 1 }))).toEqual(["query.from", "query.to"]);
    await expect(analytics.prune("day", SECONDS)).rejects.toThrow(TypeError);
    const mine = forOwner(createKeyring(store), "acme", { apiId: "api_docs" });
    expect(await problems(mine.rotate({ keyId: "key_1", overlap: 60 }))).toEqual(["body.overlap"]);
    expect(await problems(mine.create({ expiresIn: 60 }))).toEqual(["body.expiresIn"]);
    expect(await problems(mine.usage({ by: "day", from: SECONDS }))).toEqual(["body.from"]);
  });

  it("options refuse it when they are given: guards, ceilings, limits of requests", async () => {
    const verifier = createVerifier(store);
    const limit = { name: "requests", limit: 10, duration: 60 };
    expect(() => apiKey(verifier, { ratelimits: [limit] }, () => new Response())).toThrow("did you mean 60000?");
    const keyring = createKeyring(store);
    for (const ceiling of [{ expiresIn: 60 }, { ratelimits: [{ ...limit, autoApply: true }] }])
      expect(() => forOwner(keyring, "acme", { apiId: "api_docs", ceiling })).toThrow(
        /ceiling\.(expiresIn|ratelimits)/,
      );
    expect(() => createServer(store, { requestLimit: { limit: 10, duration: 60 } })).toThrow(RangeError);
    await verifier.close();
  });

  it("0 is none in both, and a second is none that is meant as a minute", () => {
    expect([explainShort(0), explainShort(1_000), explainSeconds(0), explainSeconds(1e11)]).toEqual([
      ...[undefined, undefined, undefined, undefined],
    ]);
    expect(secondsIn({ keys: [{ expires: 0 }, { ratelimits: [{ duration: 999 }] }] })).toMatchObject({
      name: "ratelimits",
      fix: "did you mean 999000?",
    });
    for (const body of [undefined, null, 1, [], { keys: 1, ratelimits: [null] }])
      expect(secondsIn(body)).toBeUndefined();
  });
});
