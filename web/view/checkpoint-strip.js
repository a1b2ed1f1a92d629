/**
 * What the checkpoint stores, to scale: a bar of its parts in model order, the format of each as a pattern, and the list
 * of the parts with the arithmetic of every amount.
 * @import { CheckpointPart, Figure, PlanReport } from "../report.d.ts"
 * @import { NumberFormat } from "../format.js"
 */

import { element } from "./element.js";
import { detailsOf } from "./figure-row.js";

/**
 * @typedef {object} PartText
 * @property {string} key
 * @property {string} width of its stretch of the bar, a CSS length
 * @property {"32" | "16" | "8" | "4" | "other"} pattern by the width of one value
 * @property {boolean} served
 * @property {string} label
 * @property {string} format
 * @property {string} amount
 * @property {string} share
 * @property {string} params
 * @property {string} sentence all of it
 * @property {Figure[]} figures
 */

/**
 * The parts of a report as text, in the order of the bar.
 * @param {PlanReport} report
 * @param {NumberFormat} format
 * @returns {PartText[]}
 */
export function partTexts({ checkpoint, figures }, format) {
  return (checkpoint?.parts ?? []).map((part) => {
    const found = [figures[part.bytes_figure], figures[part.params_figure]];
    const [amount = "", params = ""] = found.map((figure) => (figure ? amountText(figure, format) : ""));
    const share = format.percent(part.ratio);
    const counted = part.num_params === 0 ? "no parameters" : paramsText(params, part);
    const loaded = part.served ? "" : ", not loaded";
    return {
      key: part.bytes_figure,
      width: `${part.ratio * 100}%`,
      pattern: patternOf(part.bits),
      served: part.served,
      label: part.label,
      format: part.format_label + loaded,
      amount,
      share,
      params: counted,
      sentence: `${part.label}, ${part.format_label}${loaded}: ${amount}, ${share} of what is stored, ${counted}`,
      figures: found.filter((figure) => figure !== undefined),
    };
  });
}

/**
 * @param {string} params
 * @param {CheckpointPart} part
 */
function paramsText(params, { num_params }) {
  return num_params === null ? "parameters not known" : `${params} parameters`;
}

/**
 * @param {Figure} figure
 * @param {NumberFormat} format
 */
function amountText(figure, format) {
  const { number, unit } = format.figure(figure);
  return unit === "" ? number : `${number} ${unit}`;
}

/** @param {number | null} bits @returns {PartText["pattern"]} */
function patternOf(bits) {
  if (bits === null) return "other";
  if (bits > 16) return "32";
  if (bits > 8) return "16";
  return bits > 4 ? "8" : "4";
}

/** The bar and the list below it: to name a part of one is to name it in the other. */
export class CheckpointStrip {
  #format;
  #bar = element("div", { class: "strip-bar", attributes: { role: "img" } });
  #readout = element("p", { class: "strip-readout" });
  #total = element("p", { class: "strip-total" });
  #list = element("ul", { class: "strip-list" });
  /** @type {Map<string, PartView>} */
  #views = new Map();
  #drawn = "";

  /**
   * @param {HTMLElement} root holds the heading already
   * @param {NumberFormat} format
   * @param {AbortSignal} signal
   */
  constructor(root, format, signal) {
    this.#format = format;
    const head = element("div", { class: "strip-head" }, this.#readout, this.#total);
    root.append(element("div", { class: "strip" }, head, this.#bar), this.#list);
    for (const part of [this.#bar, this.#list]) {
      for (const type of ["pointerover", "focusin", "click"]) {
        part.addEventListener(type, (event) => this.#name(event.target), { signal });
      }
      for (const type of ["pointerleave", "focusout"]) {
        part.addEventListener(type, () => this.#name(null), { signal });
      }
    }
  }

  /** @param {PlanReport} report */
  update(report) {
    const parts = partTexts(report, this.#format);
    const total = report.figures["model.weight_bytes"];
    const totalText = total === undefined ? "" : `${amountText(total, this.#format)} stored`;
    const text = JSON.stringify([parts, totalText]);
    // A plan is made at every move of a slider; the checkpoint stays the same.
    if (text === this.#drawn) return;
    this.#drawn = text;
    this.#total.textContent = totalText;
    const views = parts.map((part) => {
      const view = this.#views.get(part.key) ?? new PartView();
      view.update(part, this.#format);
      return view;
    });
    this.#views = new Map(parts.map(({ key }, place) => [key, /** @type {PartView} */ (views[place])]));
    this.#bar.setAttribute("aria-label", `To scale. ${parts.map(({ sentence }) => sentence).join(". ")}.`);
    this.#bar.replaceChildren(...views.map(({ stretch }) => stretch));
    this.#list.replaceChildren(...views.map(({ entry }) => entry));
    this.#name(null);
  }

  /** @param {EventTarget | null} target */
  #name(target) {
    const node = target instanceof Element ? target.closest(".strip-stretch, .strip-list > li") : null;
    let said = "";
    for (const { stretch, entry, sentence } of this.#views.values()) {
      const named = node !== null && (node === stretch || node === entry);
      stretch.classList.toggle("named", named);
      entry.classList.toggle("named", named);
      if (named) said = sentence;
    }
    this.#readout.textContent = said;
  }
}

/** One part: its stretch of the bar and its entry in the list, which opens. */
class PartView {
  stretch = element("span", { class: "strip-stretch" });
  entry = element("li");
  sentence = "";
  #row = element("summary");
  #body = element("div", { class: "strip-details" });

  constructor() {
    this.entry.append(element("details", { class: "strip-part" }, this.#row, this.#body));
  }

  /**
   * @param {PartText} part
   * @param {NumberFormat} format
   */
  update({ width, pattern, served, label, format: stored, amount, share, params, sentence, figures }, format) {
    this.sentence = sentence;
    this.stretch.style.inlineSize = width;
    for (const node of [this.stretch, this.entry]) {
      node.dataset.pattern = pattern;
      node.dataset.served = String(served);
    }
    const inside = element("span", { class: "strip-inside-format", text: stored });
    this.stretch.replaceChildren(element("span", { class: "strip-inside" }, `${label} `, inside));
    this.#row.replaceChildren(
      element("span", { class: "strip-swatch" }),
      element("span", { class: "strip-label", text: label }),
      " ",
      element("span", { class: "strip-format", text: stored }),
      " ",
      element("span", { class: "strip-amount", text: amount }),
      " ",
      element("span", { class: "strip-share", text: share }),
      " ",
      element("span", { class: "strip-params", text: params }),
    );
    this.#body.replaceChildren(
      ...figures.map((figure) =>
        element(
          "div",
          { class: "figure-details" },
          element("p", { class: "strip-figure", text: figure.label }),
          element("dl", {}, ...detailsOf(figure, format)),
        ),
      ),
    );
  }
}
