/** Links and headings of a Markdown text. */

const withoutCode = (markdown: string): string => markdown.replace(/^```[\s\S]*?^```$/gm, "").replace(/`[^`\n]*`/g, "");

/** Where the links and images of a text lead. */
export function linksIn(markdown: string): string[] {
  return [...withoutCode(markdown).matchAll(/\]\(([^()\s]+)\)/g)].map(([, link = ""]) => link);
}

/** The anchors of a text's headings, as GitHub makes them. */
export function anchorsOf(markdown: string): Set<string> {
  const anchors = new Set<string>();
  for (const [, heading = ""] of markdown.replace(/^```[\s\S]*?^```$/gm, "").matchAll(/^#+ +(.+?) *$/gm)) {
    const anchor = heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\- _]/gu, "")
      .replaceAll(" ", "-");
    let free = anchor;
    for (let i = 1; anchors.has(free); i++) free = `${anchor}-${i}`;
    anchors.add(free);
  }
  return anchors;
}
