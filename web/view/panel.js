/**
 * One of the four numbers: its state, its headline, its lines, and the rest of its figures on demand.
 * @import { Figure, State } from "../report.d.ts"
 * @import { NumberFormat } from "../format.js"
 */

import { element, setText, shape } from "./element.js";
import { FigureRow } from "./figure-row.js";

/**
 * @typedef {{ kind: "figure", key: string, figure: Figure }} FigureLine
 * @typedef {{ kind: "fact", key: string, label: string, text: string, notes: readonly string[] }} FactLine a statement in words
 * @typedef {FigureLine | FactLine} Line
 *
 * @typedef {object} PanelContent
 * @property {State | null} state null: this panel has no state
 * @property {string} word the state in words
 * @property {Line | null} headline
 * @property {Line[]} lines
 * @property {Line[]} more what is shown on demand
 */

/** A statement in words, with its notes on demand. */
class FactRow {
  #label = element("span", { class: "figure-label" });
  #text = element("span", { class: "figure-number" });
  #notes = element("ul", { class: "fact-notes" });
  #summary = element("summary");
  #plain = element("div", { class: "fact-plain" });
  #details = element("details", {}, this.#summary, this.#notes);
  #headline;

  /** @param {"headline" | "line"} size */
  constructor(size) {
    this.#headline = size === "headline";
    this.element = element("div", { class: `figure figure-${size} fact` });
  }

  /** @param {FactLine} line */
  update({ label, text, notes }) {
    setText(this.#label, label);
    setText(this.#text, text);
    const value = element("span", { class: "figure-value" }, this.#text);
    const parts = this.#headline ? [value, " ", this.#label] : [this.#label, " ", value];
    (notes.length > 0 ? this.#summary : this.#plain).replaceChildren(...parts);
    this.#notes.replaceChildren(...notes.map((note) => element("li", { text: note })));
    const body = notes.length > 0 ? this.#details : this.#plain;
    if (body.parentNode !== this.element) this.element.replaceChildren(body);
  }
}

export class Panel {
  #format;
  #stateText = element("span", { class: "state-word" });
  #state = element("p", { class: "state" });
  #headline = element("div", { class: "panel-headline" });
  #lines = element("div", { class: "panel-lines" });
  #moreLines = element("div", { class: "panel-lines" });
  #moreSummary = element("summary");
  #more = element("details", { class: "panel-more" }, this.#moreSummary, this.#moreLines);
  /** @type {Map<string, FigureRow | FactRow>} */
  #rows = new Map();

  /**
   * @param {HTMLElement} root holds the heading already
   * @param {NumberFormat} format
   */
  constructor(root, format) {
    this.#format = format;
    root.querySelector("header")?.append(this.#state);
    root.append(this.#headline, this.#lines, this.#more);
    this.#more.hidden = true;
  }

  /** @param {PanelContent} content */
  update({ state, word, headline, lines, more }) {
    if (state !== null) {
      this.#state.dataset.state = state;
      setText(this.#stateText, word);
      this.#state.replaceChildren(shape(state), this.#stateText);
    }
    this.#place(this.#headline, headline === null ? [] : [headline], "headline");
    this.#place(this.#lines, lines, "line");
    this.#place(this.#moreLines, more, "line");
    this.#more.hidden = more.length === 0;
    this.#moreSummary.textContent = `${more.length} more`;
  }

  /**
   * @param {HTMLElement} parent
   * @param {Line[]} lines
   * @param {"headline" | "line"} size
   */
  #place(parent, lines, size) {
    const wanted = lines.map((line) => this.#row(line, size));
    const same =
      wanted.length === parent.childElementCount &&
      wanted.every((node, place) => parent.children[place] === node);
    if (!same) parent.replaceChildren(...wanted);
  }

  /**
   * @param {Line} line
   * @param {"headline" | "line"} size
   */
  #row(line, size) {
    const id = `${line.kind} ${size} ${line.key}`;
    let row = this.#rows.get(id);
    if (!row) {
      row = line.kind === "figure" ? new FigureRow(this.#format, size) : new FactRow(size);
      this.#rows.set(id, row);
    }
    if (line.kind === "figure" && row instanceof FigureRow) row.update(line.figure);
    if (line.kind === "fact" && row instanceof FactRow) row.update(line);
    return row.element;
  }
}
