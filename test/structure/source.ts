/** Reads the sources as trees: what each imports, exports and names. */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, posix, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";

/** The repository's top folder. */
export const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..", "..");

/** One source file, read once. */
export interface Source {
  /** From the top folder, with `/`: `src/contracts/errors.ts`. */
  readonly path: string;
  readonly lines: number;
  /** Files of the repository that it imports, as paths. */
  readonly imports: readonly string[];
  /** Packages and Node modules that it imports, as written. */
  readonly packages: readonly string[];
  /** All identifiers in it. */
  readonly names: ReadonlySet<string>;
  readonly hasDefaultExport: boolean;
  /** It passes on what other files export. */
  readonly isBarrel: boolean;
}

/** All of `src`. */
export function readSources(): Source[] {
  return readdirSync(join(ROOT, "src"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(".ts"))
    .map((entry) => join(entry.parentPath, entry.name))
    .map((file) => parse(relative(ROOT, file).split(sep).join("/"), readFileSync(file, "utf8")))
    .sort((a, b) => (a.path < b.path ? -1 : 1));
}

export function parse(path: string, text: string): Source {
  const tree = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  const specifiers = new Set<string>();
  const names = new Set<string>();
  let hasDefaultExport = false;
  let isBarrel = false;

  const visit = (node: ts.Node): void => {
    if (ts.isIdentifier(node) && !isGlobalAugmentation(node.parent)) names.add(node.text);
    const specifier = specifierOf(node);
    if (specifier !== undefined) specifiers.add(specifier);
    if (ts.isExportDeclaration(node) && node.moduleSpecifier) isBarrel = true;
    if (ts.isExportAssignment(node) || isDefault(node)) hasDefaultExport = true;
    ts.forEachChild(node, visit);
  };
  visit(tree);

  const pathOf = (specifier: string): string => posix.join(posix.dirname(path), specifier.replace(/\.js$/, ".ts"));
  const local = [...specifiers].filter((specifier) => specifier.startsWith("."));
  return {
    path,
    lines: text.replace(/\n$/, "").split("\n").length,
    imports: local.map(pathOf),
    packages: [...specifiers].filter((specifier) => !specifier.startsWith(".")),
    names,
    hasDefaultExport,
    isBarrel,
  };
}

/** `declare global`: its `global` is a word of the language, not the name that Node knows. */
function isGlobalAugmentation(node: ts.Node): boolean {
  return ts.isModuleDeclaration(node) && (node.flags & ts.NodeFlags.GlobalAugmentation) !== 0;
}

/**
 * Whatever way a module is named: `import`, `export … from`, `import()`, `typeof import()`, `require()`,
 * `getBuiltinModule()`.
 */
function specifierOf(node: ts.Node): string | undefined {
  if (ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) return textOf(node.moduleSpecifier);
  if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) return textOf(node.argument.literal);
  if (ts.isCallExpression(node) && /^import$|require$|getBuiltinModule$/.test(node.expression.getText()))
    return textOf(node.arguments[0]);
  return undefined;
}

function textOf(node: ts.Node | undefined): string | undefined {
  return node && ts.isStringLiteralLike(node) ? node.text : undefined;
}

function isDefault(node: ts.Node): boolean {
  if (ts.isExportSpecifier(node)) return node.name.text === "default";
  return (
    ts.canHaveModifiers(node) &&
    (ts.getModifiers(node) ?? []).some((modifier) => modifier.kind === ts.SyntaxKind.DefaultKeyword)
  );
}
