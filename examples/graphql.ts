import { serve } from "@hono/node-server";
import { type ExecutionArgs, GraphQLError } from "graphql";
import { getComplexity } from "graphql-query-complexity";
import { createSchema, createYoga, type Plugin } from "graphql-yoga";
import { createGuard } from "keystile/web";
import { apiId, tell, verifier } from "./keys.js";

const typeDefs = `
  type Document { id: ID!  text: String!  related(first: Int! = 3): [Document!]! }
  type Query { documents(first: Int! = 10): [Document!]! }
`;
const documents = (_: unknown, { first }: { first: number }) =>
  Array.from({ length: Math.min(Math.max(first, 0), 100) }, (_, i) => ({ id: String(i), text: "…" }));
const schema = createSchema({ typeDefs, resolvers: { Query: { documents }, Document: { related: documents } } });

/** Credits by type and field; a field that is not here is free. */
const COSTS: Readonly<Record<string, number>> = { "Query.documents": 1, "Document.text": 2 };

const guard = createGuard<Request>(verifier, { apiId, permissions: "documents.read" });

/** Charges an operation before it runs. */
const charge: Plugin["onExecute"] = async ({ args, setResultAndStopExecution }) => {
  const { document: query, variableValues, operationName } = args as ExecutionArgs;
  const { request } = args.contextValue;
  const cost = getComplexity({
    ...{ schema, query, variables: variableValues ?? {}, ...(operationName && { operationName }) },
    estimators: [
      // A list costs what is asked of each row, `first` times; a `first` below one must not make a query cheaper.
      ({ type, field, args, childComplexity }) =>
        (COSTS[`${type.name}.${field.name}`] ?? 0) + Math.max(1, (args["first"] as number) ?? 1) * childComplexity,
    ],
  });
  const header = (name: string) => request.headers.get(name);
  const decision = await guard.check({ request, memory: {}, header }, () => [{ cost }]);
  if (decision.outcome !== "refuse") return;
  const { refusal, headers } = decision;
  const { code, status, detail } = refusal;
  setResultAndStopExecution({
    errors: [new GraphQLError(detail, { extensions: { code, http: { status, headers } } })],
  });
};

const yoga = createYoga({ schema, plugins: [{ onExecute: charge, onSubscribe: charge }] });

serve({ fetch: yoga.fetch, port: Number(process.env["PORT"] ?? 0), hostname: "127.0.0.1" }, ({ port }) =>
  tell(`http://127.0.0.1:${port}/graphql`, {
    rest: `-H "Content-Type: application/json" -d '{"query":"{ documents(first: 2) { text } }"}' `,
  }),
);
