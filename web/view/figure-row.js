/**
 * One figure: its label, its number with unit and mark, and its arithmetic on demand. The element stays the same over
 * all answers, so that what the reader has opened stays open.
 * @import { Figure } from "../report.d.ts"
 * @import { NumberFormat } from "../format.js"
 */

import { element, setText } from "./element.js";

export class FigureRow {
  /** @type {NumberFormat} */
  #format;
  #label = element("span", { class: "figure-label" });
  #mark = element("span", { class: "mark", attributes: { "aria-hidden": "true" } });
  #basis = element("span", { class: "visually-hidden" });
  #number = element("span", { class: "figure-number" });
  #band = element("span", { class: "figure-band" });
  #unit = element("span", { class: "figure-unit" });
  #details = element("dl", { class: "figure-details" });

  /**
   * @param {NumberFormat} format
   * @param {"headline" | "line"} size
   */
  constructor(format, size) {
    this.#format = format;
    const value = element(
      "span",
      { class: "figure-value" },
      this.#mark,
      this.#basis,
      this.#number,
      " ",
      this.#unit,
      " ",
      this.#band,
    );
    const summary = element(
      "summary",
      {},
      ...(size === "headline" ? [value, " ", this.#label] : [this.#label, " ", value]),
    );
    this.element = element("details", { class: `figure figure-${size}` }, summary, this.#details);
  }

  /** @param {Figure} figure */
  update(figure) {
    const text = this.#format.figure(figure);
    setText(this.#label, figure.label);
    setText(this.#number, text.number);
    // "Users at 8,192 tokens: 49 users" says it twice.
    this.#unit.textContent = figure.label.toLowerCase().startsWith(text.unit) ? "" : text.unit;
    this.#mark.textContent = text.mark;
    this.#basis.textContent = text.mark === "" ? "" : `${text.word} `;
    setText(this.#band, text.band);
    this.element.dataset.basis = figure.basis;
    this.#details.replaceChildren(...detailsOf(figure, this.#format));
  }
}

/**
 * How a figure comes about, as terms and descriptions of a list.
 * @param {Figure} figure
 * @param {NumberFormat} format
 */
export function detailsOf(figure, format) {
  const { word, meaning } = format.figure(figure);
  return [
    ...term("Arithmetic", figure.arithmetic, "arithmetic"),
    ...term("Basis", `${word}: ${figure.because || meaning}`),
    ...term("Source", figure.source),
    ...term("Check", figure.check),
  ];
}

/**
 * @param {string} name
 * @param {string} text
 * @param {string} [className]
 */
function term(name, text, className = "") {
  if (text === "") return [];
  return [element("dt", { text: name }), element("dd", { text, class: className })];
}
