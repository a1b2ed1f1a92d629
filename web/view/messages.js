/** Sentences: the one error that stands in the way, and lists of notes. */

import { element } from "./element.js";

/**
 * @typedef {object} Trouble
 * @property {string} message what was found
 * @property {string} [hint] what to do
 * @property {string | null} [link] where it is done
 * @property {boolean} [quiet] good to know, and nothing to do
 */

/** The error sentence with its next step; the page around it stays. */
export class AlertView {
  #root;

  /** @param {HTMLElement} root */
  constructor(root) {
    this.#root = root;
  }

  /** @param {Trouble | null} trouble */
  update(trouble) {
    if (trouble === null) {
      this.#root.replaceChildren();
      return;
    }
    const text = [trouble.message, trouble.hint ?? ""].filter((part) => part !== "").join(" ");
    if (this.#root.textContent === text) return;
    this.#root.replaceChildren(sentence(trouble));
  }
}

/** Quiet sentences, one a line. */
export class NoteList {
  #root;

  /** @param {HTMLElement} root */
  constructor(root) {
    this.#root = root;
  }

  /** @param {readonly Trouble[]} notes */
  update(notes) {
    this.#root.replaceChildren(
      ...notes.map((note) => element("li", { class: note.quiet ? "quiet" : "" }, sentence(note))),
    );
  }
}

/** @param {Trouble} trouble */
function sentence({ message, hint, link }) {
  const text = hint === undefined || hint === "" ? message : `${message} ${hint}`;
  if (link === undefined || link === null) return element("span", { text });
  const anchor = element("a", {
    text: new URL(link).host,
    attributes: { href: link, target: "_blank", rel: "noopener noreferrer" },
  });
  return element("span", {}, `${text} `, anchor);
}
