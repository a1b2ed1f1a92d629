/**
 * The memory of one card, to scale: what lies past the card's edge is drawn past it.
 * @import { BarSegment, Figure, PlanReport } from "../report.d.ts"
 * @import { NumberFormat } from "../format.js"
 */

import { element, setText } from "./element.js";
import { BAR_PREFIX } from "./four-numbers.js";

export class MemoryBar {
  #root;
  #format;
  #card = element("ul", { class: "bar-card" });
  #past = element("div", { class: "bar-past" }, element("span", { text: "past the card’s edge" }));
  #edge = element("p", { class: "bar-edge" });
  #readout = element("p", { class: "bar-readout" });
  #track = element("div", { class: "bar-track" }, this.#card, this.#past, this.#edge, this.#readout);
  #legend = element("ul", { class: "bar-legend" });
  /** @type {Map<string, SegmentView>} */
  #segments = new Map();

  /**
   * @param {HTMLElement} root
   * @param {NumberFormat} format
   * @param {AbortSignal} signal
   */
  constructor(root, format, signal) {
    this.#root = root;
    this.#format = format;
    root.append(this.#track, this.#legend);
    for (const type of ["pointerover", "focusin", "click"]) {
      this.#card.addEventListener(type, (event) => this.#name(event.target), { signal });
    }
    for (const type of ["pointerleave", "focusout"]) {
      this.#card.addEventListener(type, () => this.#name(null), { signal });
    }
  }

  /** @param {PlanReport} report */
  update({ memory, figures }) {
    const bar = memory?.bar ?? [];
    this.#root.dataset.empty = String(bar.length === 0);
    const extent = bar.reduce((sum, { ratio }) => sum + ratio, 0);
    const over = Math.max(1, extent);
    this.#root.dataset.over = String(over > 1);
    this.#track.style.setProperty("--extent", String(over));
    setText(this.#edge, cardText(figures["memory.gpu_total_bytes"], this.#format));
    const views = bar.map((segment) => this.#segment(segment, figures[BAR_PREFIX + segment.key]));
    place(
      this.#card,
      views.map((view) => view.part),
    );
    place(
      this.#legend,
      views.map((view) => view.entry),
    );
    this.#name(null);
  }

  /**
   * @param {BarSegment} segment
   * @param {Figure | undefined} figure
   */
  #segment(segment, figure) {
    let view = this.#segments.get(segment.key);
    if (!view) {
      view = new SegmentView(segment.key);
      this.#segments.set(segment.key, view);
    }
    view.update(segment, figure, this.#format);
    return view;
  }

  /** @param {EventTarget | null} target */
  #name(target) {
    const part = target instanceof Element ? target.closest("li") : null;
    let said = "";
    for (const view of this.#segments.values()) {
      const named = part !== null && view.part === part;
      view.entry.classList.toggle("named", named);
      if (named) said = view.sentence;
    }
    this.#readout.textContent = said;
  }
}

/** One part of the bar with its entry in the list below. */
class SegmentView {
  #button = element("button", { attributes: { type: "button" } });
  #amount = element("span", { class: "bar-amount" });
  #label = element("span", { class: "bar-label" });
  #share = element("span", { class: "bar-share" });
  #inside = element("span", { class: "bar-inside" });
  sentence = "";

  /** @param {string} key */
  constructor(key) {
    this.part = element("li", { class: "bar-segment" }, this.#button);
    this.#button.append(this.#inside);
    this.entry = element(
      "li",
      {},
      element("span", { class: "bar-swatch" }),
      this.#label,
      " ",
      this.#amount,
      " ",
      this.#share,
    );
    this.part.dataset.key = key;
    this.entry.dataset.key = key;
  }

  /**
   * @param {BarSegment} segment
   * @param {Figure | undefined} figure
   * @param {NumberFormat} format
   */
  update({ label, ratio }, figure, format) {
    const share = format.percent(ratio);
    const text = figure === undefined ? null : format.figure(figure);
    const amount = text === null ? "" : `${text.mark}${text.number} ${text.unit}`;
    this.part.style.inlineSize = `${ratio * 100}%`;
    setText(this.#label, label);
    setText(this.#amount, amount);
    setText(this.#share, share);
    this.#inside.textContent = amount === "" ? share : amount;
    this.sentence = `${label}: ${amount === "" ? "" : `${amount}, `}${share} of the card`;
    this.#button.setAttribute("aria-label", this.sentence);
  }
}

/**
 * @param {Figure | undefined} figure
 * @param {NumberFormat} format
 */
function cardText(figure, format) {
  if (figure === undefined) return "";
  const { number, unit } = format.figure(figure);
  return `card ${number} ${unit}`;
}

/**
 * Puts nodes in place and leaves those alone that are there already, so that a width can move.
 * @param {Element} parent
 * @param {Element[]} nodes
 */
function place(parent, nodes) {
  const same =
    nodes.length === parent.childElementCount &&
    nodes.every((node, index) => parent.children[index] === node);
  if (!same) parent.replaceChildren(...nodes);
}
