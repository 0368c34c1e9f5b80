/** JSON of values nested more deeply than `JSON.stringify` has stack for. */

/** What is still to be written. */
type Piece = { readonly text: string } | { readonly value: unknown };

/** As `JSON.stringify`, of what `JSON.parse` made and of objects that hold such, however deep. */
export function deepJson(value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return withoutStack(value);
  }
}

function withoutStack(root: unknown): string {
  const written: string[] = [];
  const pending: Piece[] = [{ value: root }];
  for (let piece = pending.pop(); piece !== undefined; piece = pending.pop()) {
    if ("text" in piece) written.push(piece.text);
    else if (typeof piece.value !== "object" || piece.value === null) written.push(JSON.stringify(piece.value));
    else for (const part of piecesOf(piece.value).reverse()) pending.push(part);
  }
  return written.join("");
}

function piecesOf(value: object): Piece[] {
  const isArray = Array.isArray(value);
  const inner = Object.entries(value)
    .filter(([, item]) => item !== undefined)
    .flatMap(([name, item], i): Piece[] => [
      { text: `${i > 0 ? "," : ""}${isArray ? "" : `${JSON.stringify(name)}:`}` },
      { value: item },
    ]);
  return [{ text: isArray ? "[" : "{" }, ...inner, { text: isArray ? "]" : "}" }];
}
