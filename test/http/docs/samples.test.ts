/** The examples of the documentation: each request passes the validation of its operation, each answer its schema. */
import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, expect, it } from "vitest";
import { referencePage } from "../../../src/http/docs/html.js";
import { requestSample, sampleOf } from "../../../src/http/docs/samples.js";
import { OPERATIONS } from "../../../src/http/operations/index.js";

const operations = Object.values(OPERATIONS);

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

describe("docs: the page of operations", () => {
  const page = referencePage(operations);
  const section = (name: string): string => page.split(`<h2 id="${name}">`)[1]?.split("<h2 ")[0] ?? "";

  it("shows nested fields, an example of request and answer, and the errors with their pages", () => {
    const createKey = section("keys.createKey");
    for (const field of ["credits.refill.interval", "ratelimits[].autoApply", "externalId"])
      expect(createKey).toContain(`<code>${field}</code>`);
    expect(createKey).toContain("POST /v2/keys.createKey");
    expect(createKey).toContain("&quot;keyId&quot;: &quot;key_9mKp2XwZ&quot;");
    expect(createKey).toMatch(/<li>403 <a href="\/docs\/errors\/[\w-]+">/);
    expect(section("keys.verifyKey")).toMatch(/<li>422 /);
    expect(createKey).not.toMatch(/<li>422 /);
  });

  it("every operation has all of it", () => {
    for (const { name } of operations) {
      const text = section(name);
      for (const part of ["<h3>Request</h3><pre>", "<h3>Answer", "<pre><code>200", "<h3>Errors</h3><ul><li>400 "])
        expect([name, part, text.replaceAll("\n", "").includes(part)]).toEqual([name, part, true]);
    }
  });
});
