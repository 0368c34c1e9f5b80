/**
 * What the package exports: can every type that a signature names be imported, and does every export say what it is
 * for?
 */
import { join, relative } from "node:path";
import ts from "typescript";
import { ROOT } from "./source.js";

/** The files of `src` that programs import. */
export const ENTRIES = [
  "src/index.ts",
  "src/stores/sqlite/index.ts",
  "src/edge/index.ts",
  "src/ratelimit/redis/index.ts",
  "src/http/index.ts",
  "src/console/index.ts",
  "src/portal/index.ts",
  "src/testing/index.ts",
  "src/stores/kit.ts",
  "src/middleware/express.ts",
  "src/middleware/hono.ts",
  "src/middleware/fastify.ts",
  "src/middleware/web.ts",
  "src/middleware/nest.ts",
  "src/middleware/trpc.ts",
  "src/otel/otel.ts",
];

/** @param entries files of `src` that programs import @returns a line a fault */
export function findSurfaceFaults(entries: readonly string[]): string[] {
  const config = ts.readConfigFile(join(ROOT, "tsconfig.json"), (path) => ts.sys.readFile(path)).config as object;
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, ROOT);
  const program = ts.createProgram(
    entries.map((entry) => join(ROOT, entry)),
    { ...options, noEmit: true },
  );
  const checker = program.getTypeChecker();
  const whole = (symbol: ts.Symbol): ts.Symbol =>
    symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
  const exported = new Set<ts.Symbol>();
  for (const entry of entries) {
    const module = checker.getSymbolAtLocation(program.getSourceFile(join(ROOT, entry))!)!;
    for (const symbol of checker.getExportsOfModule(module)) exported.add(whole(symbol));
  }
  const faults = new Set<string>();
  for (const symbol of exported) {
    if (symbol.getDocumentationComment(checker).length === 0) faults.add(`${symbol.name} says nothing of itself`);
    for (const declaration of symbol.declarations ?? []) {
      for (const named of typesNamedIn(declaration, checker)) {
        const type = whole(named);
        const file = type.declarations?.[0]?.getSourceFile().fileName ?? "";
        const isOurs =
          relative(ROOT, file).startsWith("src") &&
          (type.flags & ts.SymbolFlags.TypeParameter) === 0 &&
          // Declared for every program, which needs no import to extend it.
          !type.declarations?.some(isGlobal);
        if (isOurs && !exported.has(type)) faults.add(`${symbol.name} names ${type.name}, which cannot be imported`);
      }
    }
  }
  return [...faults].sort();
}

/** Types in a signature; bodies of functions are no part of it. */
function typesNamedIn(declaration: ts.Declaration, checker: ts.TypeChecker): ts.Symbol[] {
  const found: ts.Symbol[] = [];
  const walk = (node: ts.Node): void => {
    if (ts.isBlock(node)) return;
    const name = ts.isTypeReferenceNode(node)
      ? node.typeName
      : ts.isExpressionWithTypeArguments(node)
        ? node.expression
        : undefined;
    const symbol = name && checker.getSymbolAtLocation(name);
    if (symbol !== undefined) found.push(symbol);
    ts.forEachChild(node, walk);
  };
  walk(declaration);
  return found;
}

/** Whether a declaration stands in `declare global`. */
function isGlobal(node: ts.Node): boolean {
  const isScope = ts.isModuleDeclaration(node) && (node.flags & ts.NodeFlags.GlobalAugmentation) !== 0;
  return isScope || (node.parent !== undefined && isGlobal(node.parent));
}
