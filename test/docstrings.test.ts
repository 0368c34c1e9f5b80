/** What an editor shows of the public interfaces: every verb, every bound of a request, every code of an error. */
import { join } from "node:path";
import ts from "typescript";
import { describe, expect, it } from "vitest";
import { listProblemTypes } from "../src/contracts/errors.js";
import { ROOT } from "./structure/source.js";
import { ENTRIES } from "./structure/surface.js";

const config = ts.readConfigFile(join(ROOT, "tsconfig.json"), (path) => ts.sys.readFile(path)).config as object;
const { options } = ts.parseJsonConfigFileContent(config, ts.sys, ROOT);
const DOORS = ENTRIES.map((path) => join(ROOT, path));
const program = ts.createProgram(DOORS, { ...options, noEmit: true });
const checker = program.getTypeChecker();

/** The docstring of a symbol as an editor shows it: none where the comment stands beside the token before it. */
function docOf(symbol: ts.Symbol): string {
  return ts.displayPartsToString(symbol.getDocumentationComment(checker));
}

/** Every export of these doors by name. */
function exportsOf(doors: readonly string[]): Map<string, ts.Symbol> {
  const whole = (symbol: ts.Symbol) =>
    symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
  const modules = doors.map((door) => checker.getSymbolAtLocation(program.getSourceFile(door)!)!);
  return new Map(
    modules.flatMap((module) => checker.getExportsOfModule(module)).map((symbol) => [symbol.name, whole(symbol)]),
  );
}
const FRONT = exportsOf(DOORS.slice(0, 1));

/** `Interface.member` for every member written in a file that `path` fits, and that `keep` takes. */
function silentMembers(path: RegExp, keep: (member: ts.TypeElement) => boolean): string[] {
  const silent: string[] = [];
  const visit = (owner: string, node: ts.Node): void => {
    if (ts.isTypeElement(node) && keep(node) && node.name !== undefined) {
      const symbol = checker.getSymbolAtLocation(node.name)!;
      if (docOf(symbol) === "") silent.push(`${owner}.${symbol.name}`);
    }
    ts.forEachChild(node, (child) => visit(owner, child));
  };
  for (const [name, symbol] of FRONT) {
    for (const declaration of symbol.declarations ?? []) {
      const isType = ts.isInterfaceDeclaration(declaration) || ts.isTypeAliasDeclaration(declaration);
      if (isType && path.test(declaration.getSourceFile().fileName)) visit(name, declaration);
    }
  }
  return silent;
}

/**
 * The same of every property of a type of such a file, wherever it was written: what it has from the table of fields
 * too.
 */
function silentProperties(path: RegExp): string[] {
  return [...FRONT].flatMap(([name, symbol]) => {
    const isThere = symbol.declarations?.some((declaration) => path.test(declaration.getSourceFile().fileName));
    const type = checker.getDeclaredTypeOfSymbol(symbol);
    if (isThere !== true || (type.flags & (ts.TypeFlags.Object | ts.TypeFlags.Intersection)) === 0) return [];
    const properties = checker.getPropertiesOfType(type).filter(({ declarations = [] }) => declarations.some(isOurs));
    return properties.filter((property) => docOf(property) === "").map((property) => `${name}.${property.name}`);
  });
}
function isOurs(declaration: ts.Declaration): boolean {
  return /\/src\//.test(declaration.getSourceFile().fileName);
}

describe("docstrings: what an editor shows", () => {
  it("every method of a public interface says what it does", () => {
    expect(FRONT.size).toBeGreaterThan(100);
    expect(silentMembers(/\/src\//, ts.isMethodSignature)).toEqual([]);
  });

  it("contract 8: every property of a request and of an answer says its unit or bound", () => {
    // Said at the type itself: the two sides of a union, and totals that its docstring counts.
    const atTheType = ["V2KeysUpdateCreditsRequestBody.keyId", "V2KeysUpdateCreditsRequestBody.operation"];
    const totals = ["MigrationTotals.migrated", "MigrationTotals.failed"];
    const said = new Set([...atTheType, ...totals]);
    const path = /\/src\/(keyring\/[a-z-]*(requests|answers)|types)\.ts$/;
    const silent = [...silentMembers(path, ts.isPropertySignature), ...silentProperties(path)];
    expect(silent.filter((member) => !said.has(member))).toEqual([]);
  });

  it("what a body has of a key's row says what the row's field says", () => {
    for (const name of ["V2KeysCreateKeyRequestBody", "V2KeysUpdateKeyRequestBody", "KeyResponseData"]) {
      const field = checker.getDeclaredTypeOfSymbol(FRONT.get(name)!).getProperty("ipAllowlist")!;
      expect(docOf(field), name).toContain("CIDR ranges");
    }
  });

  it("KeystileErrorCode tells each code once", () => {
    const doc = docOf(FRONT.get("KeystileErrorCode")!);
    const told = [...doc.matchAll(/^- `([A-Z_]+)`: \S/gm)].map(([, code]) => code);
    expect(told.sort()).toEqual(
      listProblemTypes()
        .map(({ code }) => code)
        .sort(),
    );
  });

  it("what is public links only to what is public", () => {
    const known = exportsOf(DOORS);
    const dead: string[] = [];
    for (const [name, symbol] of known) {
      for (const declaration of symbol.declarations ?? []) {
        const body = ts.isFunctionDeclaration(declaration) ? (declaration.body?.getFullText() ?? "") : "";
        const text = declaration.getFullText().replace(body, "");
        for (const [, to = ""] of text.matchAll(/\{@link (\w+)/g)) if (!known.has(to)) dead.push(`${name} → ${to}`);
      }
    }
    expect(dead).toEqual([]);
  });
});
