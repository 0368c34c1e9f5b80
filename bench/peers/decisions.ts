/** How long does it take to decide whether permissions satisfy a query of three names, one AND and one OR? */
import { type Ability, createMongoAbility } from "@casl/ability";
import { newEnforcer, newModelFromString } from "casbin";
import { compileQuery, createGrants, createQueryCompiler } from "../../src/access/permission-query.js";
import { measure, report, type Row, scaled, type Side } from "../harness.js";
import { endless, QUERY, sample } from "../keys.js";
import { grantsOf } from "./contestant.js";

const SUBJECTS = scaled(1_000, 50);
const FLOOR = "by hand: Set.has of the three names, as code";

/** Every second subject lacks what the query needs. */
const isFull = (n: number): boolean => n % 2 === 0;
const grants = Array.from({ length: SUBJECTS }, (_, n) => grantsOf(isFull(n) ? 0 : 1, 1));

/** @param may the decision about subject `n` */
function sideOf(name: string, may: (n: number) => boolean): Side {
  const next = endless(sample(SUBJECTS));
  return {
    name,
    ...(name !== FLOOR && { floor: FLOOR }),
    run(operations) {
      let right = 0;
      for (let i = 0; i < operations; i++) {
        const n = next();
        if (may(n) === isFull(n)) right++;
      }
      return right;
    },
  };
}

const sets = grants.map((names) => new Set(names));
const held = grants.map((names) => createGrants(names));
const query = compileQuery(QUERY);
const compile = createQueryCompiler();

/** Subjects by role, permissions by role: five rules and a line for each subject. The asking by AND and OR is code. */
const enforcer = await newEnforcer(
  newModelFromString(`
[request_definition]
r = sub, act
[policy_definition]
p = sub, act
[role_definition]
g = _, _
[policy_effect]
e = some(where (p.eft == allow))
[matchers]
m = g(r.sub, p.sub) && r.act == p.act
`),
);
await enforcer.addPolicies([0, 1].flatMap((role) => grantsOf(role, 1).map((name) => [`role_${role}`, name])));
await enforcer.addGroupingPolicies(grants.map((_, n) => [`key_${n}`, isFull(n) ? "role_0" : "role_1"]));
const subjects = grants.map((_, n) => `key_${n}`);

const abilities: Ability[] = grants.map((names) =>
  createMongoAbility(
    names.map((name) => {
      const [subject = "", action = ""] = name.split(".");
      return { action, subject };
    }),
  ),
);

const notes: Record<string, string> = {
  "keystile, compiled query": "AND, OR and parentheses in a text of the request; wildcards in grants",
  "keystile, by the query's text": "the same; 1,000 texts remembered",
  "casbin, enforceSync": "one name a call; AND and OR are the caller's code; roles, own matchers",
  "CASL, can": "one name a call; AND and OR are the caller's code; conditions on objects",
};
const rows: Row[] = await measure([
  sideOf(FLOOR, (n) => {
    const set = sets[n]!;
    return set.has("documents.read") && (set.has("billing.view") || set.has("reports.export"));
  }),
  sideOf("keystile, compiled query", (n) => query.satisfiedBy(held[n]!)),
  sideOf("keystile, by the query's text", (n) => compile(QUERY).satisfiedBy(held[n]!)),
  sideOf("casbin, enforceSync", (n) => {
    const may = (name: string): boolean => enforcer.enforceSync(subjects[n]!, name);
    return may("documents.read") && (may("billing.view") || may("reports.export"));
  }),
  sideOf("CASL, can", (n) => {
    const ability = abilities[n]!;
    return ability.can("read", "documents") && (ability.can("view", "billing") || ability.can("export", "reports"));
  }),
]);
report({
  question: "How long does it take to decide whether permissions satisfy a query of three names, one AND and one OR?",
  rows: rows.map((row) => ({
    ...row,
    ...(notes[row.name] !== undefined && { notes: { "what it reads": notes[row.name]! } }),
  })),
});
