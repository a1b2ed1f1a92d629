/**
 * A token for gated files. It is kept in memory, for this page and one address; it is in no link and no storage.
 * Emits `token` with the text, or null when it is to be forgotten.
 */

import { find } from "./element.js";

export class TokenForm {
  #root;
  #field;
  #note;
  #isSet = false;

  /**
   * @param {HTMLDetailsElement} root
   * @param {AbortSignal} signal
   */
  constructor(root, signal) {
    this.#root = root;
    this.#field = find(root, "input", HTMLInputElement);
    this.#note = find(root, '[data-part="note"]', HTMLElement);
    const forget = find(root, '[data-part="forget"]', HTMLButtonElement);
    find(root, "form", HTMLFormElement).addEventListener("submit", (event) => this.#use(event), { signal });
    forget.addEventListener("click", () => this.#emit(null), { signal });
  }

  /**
   * Shown for gated models, and as long as a token is kept.
   * @param {{ wanted: boolean, host: string, taken: boolean }} place host: where the token goes; taken: whether it may go there
   */
  update({ wanted, host, taken }) {
    this.#root.hidden = !(wanted || this.#isSet);
    this.#note.textContent = taken
      ? `It is sent to ${host} only and forgotten with this tab. One right is enough: read access to public gated repositories.`
      : `This link reads from ${host}; a token is not sent there.`;
    this.#field.disabled = !taken;
  }

  /** @param {SubmitEvent} event */
  #use(event) {
    event.preventDefault();
    const text = this.#field.value.trim();
    if (text !== "") this.#emit(text);
  }

  /** @param {string | null} token */
  #emit(token) {
    this.#isSet = token !== null;
    this.#field.value = "";
    this.#field.placeholder = token === null ? "" : "a token is in use";
    this.#root.dispatchEvent(new CustomEvent("token", { bubbles: true, detail: token }));
  }
}
