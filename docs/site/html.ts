/** Between text and HTML. */

const ENTITIES: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };

export function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"]/g, (character) => ENTITIES[character] ?? "");
}

/** The text that HTML shows, on one line. */
export function textOf(html: string): string {
  const characters = new Map(Object.entries(ENTITIES).map(([character, entity]) => [entity, character]));
  return html
    .replaceAll(/<[^>]*>/g, "")
    .replaceAll(/&[a-z]+;|&#39;/g, (entity) => characters.get(entity) ?? (entity === "&#39;" ? "'" : entity))
    .replaceAll(/\s+/g, " ")
    .trim();
}
