/** The lines that the engine is expected to print, to hold beside a real log. */

import { find } from "./element.js";

export class StartupLog {
  #root;
  #text;

  /** @param {HTMLElement} root */
  constructor(root) {
    this.#root = root;
    this.#text = find(root, "pre", HTMLPreElement);
  }

  /** @param {readonly string[]} lines */
  update(lines) {
    this.#root.hidden = lines.length === 0;
    this.#text.textContent = lines.join("\n");
  }
}
