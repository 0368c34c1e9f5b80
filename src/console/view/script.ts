/** The script of the console: comforts without which everything works. */
import { COPY_SCRIPT } from "../../view/copy.js";

/** With that of all pages. */
export const SCRIPT = `"use strict";
${COPY_SCRIPT}const menu = document.querySelector(".ks-menu"), current = menu?.querySelector("[aria-current]");
const middleOf = (element) => element.getBoundingClientRect().left + element.clientWidth / 2;
// Not by scrollIntoView, from where the Tab key would go on.
if (current) menu.scrollLeft += middleOf(current) - middleOf(menu);
for (const form of document.querySelectorAll("form.ks-live")) {
  let timer, asked = 0;
  const search = async () => {
    const address = form.action + "?" + new URLSearchParams(new FormData(form));
    const turn = ++asked;
    const answer = await fetch(address, { credentials: "same-origin" });
    if (!answer.ok || answer.redirected || turn !== asked) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const found = page.getElementById("ks-found");
    if (!found || turn !== asked) return;
    document.getElementById("ks-found").replaceWith(document.adoptNode(found));
    history.replaceState(null, "", address);
  };
  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => search().catch(() => {}), 150);
  });
}
`;
