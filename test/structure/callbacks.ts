/** Every callback that a program may give to the package, found in the types of its options. */
import { readFileSync } from "node:fs";
import { join, posix } from "node:path";
import ts from "typescript";
import { readSources, ROOT } from "./source.js";
import { ENTRIES } from "./surface.js";

/** What a program may implement and pass in, of which each method is a callback; stores have suites of their own. */
const PORTS: ReadonlySet<string> = new Set([
  "Authenticator",
  "Caller",
  "IoredisClient",
  "Limiter",
  "NodeRedisClient",
  "NodeRedisCluster",
  "PostgresClient",
]);

type Declared = ts.InterfaceDeclaration | ts.TypeAliasDeclaration;

/** The text of an entry point, and of the files of which it exports everything. */
function exportedText(path: string): string {
  const text = readFileSync(join(ROOT, path), "utf8");
  const wholes = [...text.matchAll(/export (?:type )?\* from "(\..*)\.js"/g)];
  return [text, ...wholes.map(([, file]) => exportedText(posix.join(posix.dirname(path), `${file!}.ts`)))].join("\n");
}

/**
 * @returns `Interface.member` for each, and the names of the options that must be functions where options are checked
 */
export function findCallbacks(): { readonly callbacks: readonly string[]; readonly checked: ReadonlySet<string> } {
  const paths = readSources()
    .map(({ path }) => path)
    .filter((path) => !/^src\/(testing|cli)\//.test(path));
  const declared = new Map<string, Declared>();
  const checked = new Set<string>();
  for (const path of paths) {
    const text = readFileSync(join(ROOT, path), "utf8");
    for (const [, name] of text.matchAll(/(\w+): callable\b/g)) checked.add(name!);
    for (const statement of ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true).statements)
      if (ts.isInterfaceDeclaration(statement) || ts.isTypeAliasDeclaration(statement))
        declared.set(statement.name.text, statement);
  }
  const exported = new Set(
    [...ENTRIES, "src/stores/postgres/index.ts"].flatMap((path) => exportedText(path).match(/\w+/g) ?? []),
  );

  const isOptions = (name: string): boolean => name.endsWith("Options");
  const isCallable = (node: ts.Node, seen: ReadonlySet<string>): boolean => {
    if (ts.isFunctionTypeNode(node) || ts.isMethodSignature(node)) return true;
    if (ts.isTypeReferenceNode(node)) {
      const name = node.typeName.getText();
      const type = declared.get(name);
      // Those have rows of their own.
      if (type !== undefined && !seen.has(name) && !isOptions(name) && !PORTS.has(name)) {
        const members = ts.isInterfaceDeclaration(type) ? type.members : [type.type];
        if (members.some((member) => isCallable(member, new Set([...seen, name])))) return true;
      }
    }
    return ts.forEachChild(node, (child) => isCallable(child, seen) || undefined) ?? false;
  };

  /** Members of other options that these have as well: `extends Pick<KeyringOptions, "clock">`. */
  const picked = ({ expression, typeArguments }: ts.ExpressionWithTypeArguments): readonly ts.TypeElement[] => {
    if (expression.getText() !== "Pick") return [];
    const [from, names] = typeArguments!.map((type) => type.getText());
    const type = declared.get(from!);
    if (type === undefined || !ts.isInterfaceDeclaration(type)) return [];
    return type.members.filter(({ name }) => name !== undefined && names!.includes(`"${name.getText()}"`));
  };

  const callbacks: string[] = [];
  const visited = new Set<string>();
  const visit = (name: string): void => {
    const type = declared.get(name);
    if (visited.has(name) || type === undefined || !ts.isInterfaceDeclaration(type)) return;
    visited.add(name);
    const bases = (type.heritageClauses ?? []).flatMap(({ types }) => [...types]);
    for (const base of bases) visit(base.expression.getText());
    for (const member of [...type.members, ...bases.flatMap(picked)])
      if (member.name !== undefined && isCallable(member, new Set([name])))
        callbacks.push(`${name}.${member.name.getText()}`);
  };
  for (const name of declared.keys()) if ((isOptions(name) && exported.has(name)) || PORTS.has(name)) visit(name);
  return { callbacks: callbacks.sort(), checked };
}
