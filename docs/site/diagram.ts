/**
 * Flowcharts of Mermaid as HTML: a box for each subgraph, then each node with its arrows. Understands what the pages of
 * docs/ use, and refuses the rest; Mermaid itself is 20 MB, and would have to run in the reader's browser.
 */
import { escapeHtml } from "./html.js";

interface Arrow {
  readonly from: string;
  readonly label: string;
  readonly to: string;
}

const NODE = String.raw`(\w+)(?:\[\(([^)]*)\)\]|\[([^\]]*)\]|\{([^}]*)\}|\(\[([^\]]*)\]\))?`;
const LINE = new RegExp(String.raw`^${NODE}(?: (?:-->|-- ([^>]*?) -->|-\. ([^>]*?) \.->) ${NODE})?$`);

export function drawDiagram(text: string): string {
  const labels = new Map<string, string>();
  const boxes: { readonly title: string; readonly nodes: string[] }[] = [];
  const arrows: Arrow[] = [];
  let open: string[] | undefined;
  const [head = "", ...lines] = text.trim().split("\n");
  if (!head.startsWith("flowchart ")) throw new Error(`a diagram must be a flowchart: ${head}`);
  for (const line of lines.map((one) => one.trim())) {
    const [, title] = /^subgraph \w+\[(.*)\]$/.exec(line) ?? [];
    if (title !== undefined) {
      open = [];
      boxes.push({ title, nodes: open });
    } else if (line === "end") {
      open = undefined;
    } else {
      const found = LINE.exec(line);
      if (found === null) throw new Error(`a diagram has a line that the site cannot draw: ${line}`);
      const [, from = "", a, b, c, d, label, dotted, to, e, f, g, h] = found;
      const said = a ?? b ?? c ?? d;
      if (said !== undefined || !labels.has(from)) labels.set(from, said ?? from);
      if (to === undefined) open?.push(from);
      else {
        const target = e ?? f ?? g ?? h;
        if (target !== undefined || !labels.has(to)) labels.set(to, target ?? to);
        arrows.push({ from, label: label ?? dotted ?? "", to });
      }
    }
  }
  const name = (node: string): string => escapeHtml(labels.get(node) ?? node);
  const box = ({ title, nodes }: (typeof boxes)[number]): string =>
    `<div class="box"><strong>${escapeHtml(title)}</strong><ul>${nodes.map((node) => `<li>${name(node)}</li>`).join("")}</ul></div>`;
  const arrow = ({ label, to }: Arrow, next: string | undefined): string =>
    `<li>${label === "" ? "" : `<em>${escapeHtml(label)}</em> `}${to === next ? "↓" : `→ ${name(to)}`}</li>`;
  const sources = [...new Set(arrows.map(({ from }) => from))];
  const rows = sources.map(
    (source, i) =>
      `<li><strong>${name(source)}</strong><ul>${arrows
        .filter(({ from }) => from === source)
        .map((one) => arrow(one, sources[i + 1]))
        .join("")}</ul></li>`,
  );
  const drawn = boxes.length === 0 ? "" : `<div class="boxes">${boxes.map(box).join("")}</div>`;
  return `<figure class="diagram">${drawn}<ol>${rows.join("")}</ol></figure>\n`;
}
