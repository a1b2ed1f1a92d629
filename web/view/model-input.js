/**
 * The model's name: typed, picked from the catalog's suggestions, or pasted as an address of the Hub.
 * @import { Catalog } from "../report.d.ts"
 */

import { modelName } from "../state.js";
import { element } from "./element.js";

export class ModelInput {
  #box;
  #list;

  /**
   * Emits `model` with the text to plan with: `owner/name`, or with `@revision`, or as typed where it names no model.
   * @param {HTMLInputElement} box
   * @param {HTMLDataListElement} list
   * @param {AbortSignal} signal
   */
  constructor(box, list, signal) {
    this.#box = box;
    this.#list = list;
    box.addEventListener("change", () => this.#emit(), { signal });
    // A picked suggestion and a pasted address are whole: they apply without waiting for Enter.
    box.addEventListener("input", (event) => this.#input(event), { signal });
  }

  /** @param {Catalog["models"]} models */
  setSuggestions(models) {
    this.#list.replaceChildren(
      ...models.map(({ id, gated }) =>
        element("option", { attributes: gated ? { value: id, label: `${id} (gated)` } : { value: id } }),
      ),
    );
  }

  /** @param {string} text */
  set(text) {
    if (document.activeElement !== this.#box || this.#box.value === "") this.#box.value = text;
  }

  /** @param {Event} event */
  #input(event) {
    const how = event instanceof InputEvent ? event.inputType : "insertReplacementText";
    if (how === "insertReplacementText" || how === "insertFromPaste") this.#emit();
  }

  #emit() {
    const text = modelName(this.#box.value.trim());
    this.#box.value = text;
    this.#box.dispatchEvent(new CustomEvent("model", { bubbles: true, detail: text }));
  }
}
