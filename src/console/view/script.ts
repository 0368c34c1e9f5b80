/** The script of the console: comforts without which everything works. */
import { COPY_SCRIPT } from "../../view/copy.js";
import { CLICK_SCRIPT } from "../../view/form.js";

/** With that of all pages. */
export const SCRIPT = `"use strict";
${CLICK_SCRIPT}${COPY_SCRIPT}// Sent by POST, by Enter or as it is pasted: the text of a key belongs in no address. Ids are no keys.
const mayBeKey = (text) => !/^[a-z]+_[1-9A-HJ-NP-Za-km-z]{22}$/.test(text) &&
  /^(?=.*[a-z])(?=.*[A-Z])[\\w-]{16,}$|[0-9a-z]{24}/.test(text);
const read = async (address) => {
  const answer = await fetch(address, { credentials: "same-origin" });
  if (answer.ok && !answer.redirected) return new DOMParser().parseFromString(await answer.text(), "text/html");
};
// What takes long: the next part joins the rows of this one, or the whole is asked for again.
const goOn = async (part) => {
  const { more } = part.dataset;
  if (more === undefined) await new Promise((resolve) => setTimeout(resolve, 500));
  const next = (await read(more ?? location.href))?.getElementById(part.id);
  if (!next || !part.isConnected) return;
  const rows = more === undefined ? [] : part.querySelectorAll("tbody > tr"), body = next.querySelector("tbody");
  if (rows.length > 0)
    if (body) body.prepend(...rows);
    else next.querySelector(".ks-empty")?.replaceWith(part.querySelector("table"));
  part.replaceWith(document.adoptNode(next));
  if (next.matches(".ks-going")) return goOn(next);
};
const goOnIn = (where) => Promise.all([...where.querySelectorAll(".ks-going")].map((part) => goOn(part)));
goOnIn(document).catch(() => {});
for (const form of document.querySelectorAll("form.ks-live")) {
  let timer, asked = 0;
  const texts = () => [...form.querySelectorAll("input:not([type=hidden])")].map((field) => field.value.trim());
  const search = async () => {
    const fields = new FormData(form);
    fields.delete("csrf");
    const address = form.action + "?" + new URLSearchParams(fields);
    const turn = ++asked;
    const page = await read(address), found = page?.getElementById("ks-found");
    if (!found || turn !== asked) return;
    // What one field has may change the choices of another.
    for (const one of form.querySelectorAll("select")) {
      const other = page.getElementById(one.id);
      if (other && one !== document.activeElement) one.innerHTML = other.innerHTML;
    }
    document.getElementById("ks-found").replaceWith(document.adoptNode(found));
    history.replaceState(null, "", address);
    return goOnIn(found);
  };
  form.addEventListener("input", ({ inputType }) => {
    clearTimeout(timer);
    ++asked;
    if (form.method === "post" && texts().some(mayBeKey)) {
      if (inputType === "insertFromPaste") form.requestSubmit();
      return;
    }
    if (document.getElementById("ks-found")) timer = setTimeout(() => search().catch(() => {}), 150);
  });
}
`;
