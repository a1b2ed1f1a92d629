/**
 * The cards of the catalog, by vendor. A name that is none of their ids stays as it was given: the core knows what it means.
 * @import { Catalog } from "../report.d.ts"
 */

import { element } from "./element.js";

export class GpuPicker {
  #select;
  #given = element("option", { attributes: { value: "" } });
  /** @type {Set<string>} */
  #ids = new Set();

  /** @param {HTMLSelectElement} select */
  constructor(select) {
    this.#select = select;
  }

  /** @param {Catalog["gpus"]} gpus */
  setCards(gpus) {
    this.#ids = new Set(gpus.map(({ id }) => id));
    const chosen = this.#select.value;
    /** @type {Map<string, HTMLOptGroupElement>} */
    const groups = new Map();
    for (const card of gpus) {
      const group = groups.get(card.vendor) ?? element("optgroup", { attributes: { label: card.vendor } });
      groups.set(card.vendor, group);
      group.append(cardOption(card));
    }
    this.#select.replaceChildren(...groups.values());
    this.set(chosen);
  }

  /** @param {string} name id or name of a card */
  set(name) {
    if (this.#ids.has(name)) {
      this.#given.remove();
    } else {
      this.#given.value = name;
      this.#given.textContent = name === "" ? "choose a card" : name;
      this.#select.prepend(this.#given);
    }
    this.#select.value = name;
  }

  /** The chosen card in words. */
  get text() {
    return this.#select.selectedOptions[0]?.textContent ?? "";
  }
}

/** @param {Catalog["gpus"][number]} card */
function cardOption({ id, name, memory_text, bandwidth_text }) {
  const facts = [memory_text, bandwidth_text].filter((fact) => fact !== "").join(", ");
  return element("option", { text: facts === "" ? name : `${name} · ${facts}`, attributes: { value: id } });
}
