/** The examples of the documentation: each request passes the validation of its operation, each answer its schema. */
import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, expect, it } from "vitest";
import { operationPage } from "../../../src/http/docs/html.js";
import { requestSample, sampleOf } from "../../../src/http/docs/samples.js";
import { explain, fieldAt } from "../../../src/http/operations/fields.js";
import { OPERATIONS } from "../../../src/http/operations/index.js";
import type { JsonSchema } from "../../../src/keyring/schemas/json-schema.js";

const operations = Object.values(OPERATIONS);

/** How many schemas the text of a name is true of, if several. */
const KINDS = {
  accounts: 2,
  actor: 2,
  amount: 3,
  apiId: 5,
  cost: 3,
  createdAt: 2,
  credits: 4,
  description: 2,
  duration: 4,
  expires: 7,
  externalId: 5,
  grantId: 2,
  hash: 2,
  id: 3,
  identifier: 2,
  ipAllowlist: 3,
  keyId: 5,
  limit: 4,
  limits: 2,
  meta: 3,
  month: 2,
  name: 7,
  namespace: 2,
  permissions: 4,
  priority: 2,
  ratelimits: 5,
  reason: 2,
  refill: 3,
  refillDay: 2,
  remaining: 5,
  reserved: 2,
  reset: 2,
  roleId: 2,
  roles: 3,
  rollover: 2,
  rootKeyId: 2,
  slug: 2,
  start: 2,
  state: 3,
  tags: 2,
  timeZone: 2,
};

describe("docs: examples of operations", () => {
  it.each(operations.map((operation) => [operation.name, operation] as const))("%s", (_name, operation) => {
    const request = requestSample(operation);
    expect(() => operation.validate(request)).not.toThrow();
    const ajv = new Ajv2020({ strict: false, validateFormats: false });
    for (const [schema, sample] of [
      [operation.request, request],
      [operation.answer, sampleOf(operation.answer, "data", false)],
    ] as const) {
      const validate = ajv.compile(schema);
      validate(sample);
      expect(validate.errors).toBeNull();
    }
  });

  it("a control: a sample that breaks its schema is found", () => {
    const { answer } = OPERATIONS["keys.verifyKey"]!;
    const validate = new Ajv2020({ strict: false, validateFormats: false }).compile(answer);
    expect(validate({ ...(sampleOf(answer, "data", false) as object), code: "PERHAPS" })).toBe(false);
  });
});

/** The properties of a schema, by their paths, that say nothing of themselves. */
function unexplained({ properties = {}, items }: JsonSchema, path: string): string[] {
  return [
    ...Object.entries(properties).flatMap(([name, part]) => [
      ...(part.description === undefined ? [`${path}.${name}`] : []),
      ...unexplained(part, `${path}.${name}`),
    ]),
    ...(items === undefined ? [] : unexplained(items, `${path}[]`)),
  ];
}

describe("docs: texts of properties", () => {
  it("every property of every request and answer has one", () => {
    const all = operations.flatMap(({ name, request, answer }) => [
      ...unexplained(request, `${name} request`),
      ...unexplained(answer, `${name} answer`),
    ]);
    expect(all).toEqual([]);
  });

  it("a control: a property without one is found, at any depth; one of its object goes before one of its name", () => {
    const text = { type: "string" };
    const schema = {
      properties: { ratelimits: { items: { properties: { name: text, newField: text } } }, name: text },
    };
    const explained = explain(schema, "keys.createKey");
    expect(unexplained(explained, "request")).toEqual(["request.ratelimits[].newField"]);
    const of = explained.properties!["ratelimits"]!.items!.properties!["name"]!.description;
    expect(of).not.toBe(explained.properties!["name"]!.description);
  });
});

/** What differs between properties of one name that have its one text: an object's own schema, without texts. */
function kindsByName(): Record<string, number> {
  const kinds = new Map<string, Set<string>>();
  const add = ({ properties = {}, items }: JsonSchema): void => {
    for (const [name, part] of Object.entries(properties)) {
      if (part.description === fieldAt(name)?.[0]) {
        const kind = JSON.stringify(part, (key, value: unknown) =>
          key === "description" || key === "default" ? undefined : value,
        );
        kinds.set(name, (kinds.get(name) ?? new Set()).add(kind));
      }
      add(part);
    }
    if (items !== undefined) add(items);
  };
  for (const { request, answer } of operations) {
    add(request);
    add(answer);
  }
  return Object.fromEntries([...kinds].map(([name, { size }]) => [name, size]));
}

describe("docs: one text for several properties", () => {
  it("a property of another schema than those of its name has a text of its own, or their text was read and fits", () => {
    const several = Object.entries(kindsByName()).filter(([, kinds]) => kinds > 1);
    expect(
      Object.fromEntries(several),
      "read the text of the name in fields.ts: if it is not true of the new property, give it one under `object.name`",
    ).toEqual(KINDS);
  });
});

describe("docs: the page of an operation", () => {
  const pageOf = (name: string): string => operationPage(operations.find((one) => one.name === name)!);

  it("shows nested fields, a request for curl, an answer, and the errors with their pages", () => {
    const createKey = pageOf("keys.createKey");
    for (const field of ["credits.refill.interval", "ratelimits[].autoApply", "externalId"])
      expect(createKey).toContain(`<code>${field}</code>`);
    expect(createKey).toContain("curl &quot;$KEYSTILE_API_URL/v2/keys.createKey&quot; \\\n");
    expect(createKey).toContain("&quot;keyId&quot;: &quot;key_9mKp2XwZ&quot;");
    expect(createKey).toMatch(/<li>403 <a href="\/docs\/errors\/[\w-]+">/);
    expect(pageOf("keys.verifyKey")).toMatch(/<li>422 /);
    expect(createKey).not.toMatch(/<li>422 /);
  });

  it("every operation has all of it", () => {
    for (const { name } of operations) {
      const text = pageOf(name);
      for (const part of ["<h2>Request</h2><pre><code>curl", "<h2>Answer", "<h2>Errors</h2><ul><li>400 "])
        expect([name, part, text.replaceAll("\n", "").includes(part)]).toEqual([name, part, true]);
    }
  });
});
