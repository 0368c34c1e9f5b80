/** Search, the choice of light and dark, and a button that copies code. The pages are whole without it. */
import MiniSearch from "minisearch";
import { INDEX_OPTIONS, searchIn } from "./search-options.ts";

const root = document.currentScript.dataset.root;
const SHOWN = 12;

function addSearch() {
  const box = document.querySelector(".search");
  const input = box.querySelector("input");
  const list = box.querySelector("ul");
  let index;
  let chosen = -1;

  // When it is first needed: as a script, since pages that are opened as files may not fetch.
  const load = () => {
    if (index !== undefined) return;
    index = null;
    const script = document.createElement("script");
    script.src = `${root}/search-index.js`;
    script.onload = () => {
      index = MiniSearch.loadJS(self.searchIndex, INDEX_OPTIONS);
      show();
    };
    document.head.append(script);
  };
  const choose = (i) => {
    const items = [...list.querySelectorAll("[role=option]")];
    chosen = items.length === 0 ? -1 : (i + items.length) % items.length;
    for (const [j, item] of items.entries()) item.setAttribute("aria-selected", String(j === chosen));
    items[chosen]?.scrollIntoView({ block: "nearest" });
    if (chosen < 0) input.removeAttribute("aria-activedescendant");
    else input.setAttribute("aria-activedescendant", items[chosen].id);
  };
  const close = () => {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
  };
  const show = () => {
    const query = input.value.trim();
    if (query === "" || !index) return close();
    const found = searchIn(index, query).slice(0, SHOWN);
    list.replaceChildren(...found.map(itemOf));
    if (found.length === 0) list.append(Object.assign(document.createElement("li"), { textContent: "Nothing found" }));
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
    choose(0);
  };
  const itemOf = ({ id, page, heading, start }, i) => {
    const item = document.createElement("li");
    item.id = `found${i}`;
    item.setAttribute("role", "option");
    const link = Object.assign(document.createElement("a"), { href: `${root}/${id}`, tabIndex: -1 });
    const title = Object.assign(document.createElement("strong"), { textContent: heading });
    const where = heading === page ? "" : page;
    link.append(title, ` ${where}`, Object.assign(document.createElement("small"), { textContent: start }));
    item.append(link);
    return item;
  };

  box.hidden = false;
  input.addEventListener("focus", load);
  input.addEventListener("input", () => {
    load();
    show();
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") choose(chosen + 1);
    else if (event.key === "ArrowUp") choose(chosen - 1);
    else if (event.key === "Escape") close();
    else if (event.key === "Enter") {
      list.querySelector("[aria-selected=true] a")?.click();
      close();
    } else return;
    event.preventDefault();
  });
  document.addEventListener("click", (event) => {
    if (!box.contains(event.target) || event.target.closest("a")) close();
  });
  document.addEventListener("keydown", (event) => {
    const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName);
    const isAsked = (event.key === "/" && !isTyping) || (event.key === "k" && (event.ctrlKey || event.metaKey));
    if (!isAsked) return;
    event.preventDefault();
    input.focus();
    input.select();
  });
}

function addTheme() {
  const button = document.querySelector(".theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const html = document.documentElement;
  const isDark = () => (html.dataset.theme ? html.dataset.theme === "dark" : dark.matches);
  const show = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Show the ${isDark() ? "light" : "dark"} colours`);
    // Pictures that come in both.
    for (const source of document.querySelectorAll("picture source")) source.media = isDark() ? "all" : "not all";
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    html.dataset.theme = isDark() ? "light" : "dark";
    try {
      localStorage.setItem("theme", html.dataset.theme);
    } catch {
      // It lasts for this page then.
    }
    show();
  });
  dark.addEventListener("change", show);
  show();
}

function addCopies() {
  if (navigator.clipboard === undefined) return;
  for (const block of document.querySelectorAll("pre")) {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: "Copy" });
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(block.querySelector("code").textContent.trimEnd());
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 2_000);
    });
    const frame = Object.assign(document.createElement("div"), { className: "code" });
    block.replaceWith(frame);
    frame.append(block, button);
  }
}

// A menu on narrow screens; beside the text it is always open.
const wide = matchMedia("(min-width: 60rem)");
const menu = document.querySelector(".menu");
const fold = () => (menu.open = wide.matches);
wide.addEventListener("change", fold);
fold();
menu.dataset.ready = "";
// The list scrolls by itself, the page stays where it is.
const nav = document.querySelector("nav.pages");
const current = nav.querySelector("[aria-current]");
if (current !== null && wide.matches) nav.scrollTop = current.offsetTop - nav.clientHeight / 2;

addSearch();
addTheme();
addCopies();
