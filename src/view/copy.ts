/** A text that is copied with a button, where the browser runs scripts, and selected by hand elsewhere. */
import { html, type Html, type Part } from "./html.js";

/** The words of a {@link copyField}. */
export interface CopyWords {
  readonly label: Part;
  readonly copy: Part;
  readonly copied: Part;
  /** Where the browser does not let a page copy: the text is selected. */
  readonly byHand: Part;
}

/** A field with a text to be copied. @param id of the field on its page */
export const copyField = (id: string, value: string, { label, copy, copied, byHand }: CopyWords): Html => html`
  <div class="ks-field"><label for="${id}">${label}</label><div class="ks-copy">
  <input class="ks-secret" id="${id}" value="${value}" readonly autofocus spellcheck="false" autocomplete="off">
  <button type="button" class="ks-button ks-primary" data-copy="${id}" data-copied="${copied}" data-by-hand="${byHand}" hidden>${copy}</button></div></div>`;

/** Script of the button of a {@link copyField}. */
export const COPY_SCRIPT = `for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const source = document.getElementById(button.dataset.copy);
    const label = button.textContent;
    try {
      await navigator.clipboard.writeText(source.value);
      button.textContent = button.dataset.copied;
    } catch {
      source.select();
      button.textContent = button.dataset.byHand;
    }
    setTimeout(() => (button.textContent = label), 2000);
  });
}
`;
