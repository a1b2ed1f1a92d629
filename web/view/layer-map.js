/**
 * The layers in order, one cell each: above what a layer keeps of the past, below how it feeds forward. Shapes tell the
 * kinds apart; the list beside them has their counts and the arithmetic of their caches.
 * @import { Figure, LayerKind, PlanReport } from "../report.d.ts"
 * @import { NumberFormat } from "../format.js"
 */

import { element } from "./element.js";
import { FigureRow } from "./figure-row.js";

const SVG = "http://www.w3.org/2000/svg";
/** Every so many cells have their number above them. */
const NUMBERED = 10;

/**
 * @typedef {object} Cell
 * @property {number} index
 * @property {number} place of its kind
 * @property {string} sentence
 */

/**
 * The cells of a report; none where its layers are not understood.
 * @param {PlanReport} report
 * @returns {Cell[]}
 */
export function layerCells({ checkpoint }) {
  const kinds = checkpoint?.layer_kinds ?? [];
  return (checkpoint?.layers ?? []).map((place, index) => ({
    index,
    place,
    sentence: `Layer ${index}: ${kinds[place]?.label ?? ""}`,
  }));
}

/** @param {LayerKind} kind "52 layers: 0–4, 6–10, … 60–61" */
export function countText({ count, layers }) {
  return count === 1 ? `layer ${layers}` : `${count} layers: ${layers}`;
}

export class LayerMap {
  #format;
  #pattern = element("p", { class: "layer-pattern" });
  #cells = element("div", { class: "layer-cells", attributes: { role: "img" } });
  #readout = element("p", { class: "layer-readout" });
  #list = element("ul", { class: "layer-kinds" });
  /** @type {Element[]} */
  #nodes = [];
  /** @type {Cell[]} */
  #drawnCells = [];
  #drawn = "";

  /**
   * @param {HTMLElement} root holds the heading already
   * @param {NumberFormat} format
   * @param {AbortSignal} signal
   */
  constructor(root, format, signal) {
    this.#format = format;
    root.append(this.#pattern, this.#cells, this.#readout, this.#list);
    for (const part of [this.#cells, this.#list]) {
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
    const kinds = report.checkpoint?.layer_kinds ?? [];
    const figures = kinds.map((kind) => kind.figures.flatMap((key) => report.figures[key] ?? []));
    const pattern = report.checkpoint?.layer_pattern ?? "";
    const text = JSON.stringify([kinds, report.checkpoint?.layers, pattern, figures]);
    if (text === this.#drawn) return;
    this.#drawn = text;
    this.#pattern.textContent = pattern;
    this.#drawnCells = layerCells(report);
    this.#nodes = this.#drawnCells.flatMap(({ index, place }) => {
      const kind = kinds[place];
      return kind === undefined ? [] : [cell(kind, index, place)];
    });
    this.#cells.hidden = this.#nodes.length === 0;
    this.#readout.hidden = this.#nodes.length === 0;
    this.#cells.setAttribute("aria-label", pattern);
    this.#cells.replaceChildren(...this.#nodes);
    this.#list.replaceChildren(
      ...kinds.map((kind, place) => this.#kind(kind, place, figures[place] ?? [])),
    );
    this.#name(null);
  }

  /**
   * @param {LayerKind} kind
   * @param {number} place
   * @param {Figure[]} figures
   */
  #kind(kind, place, figures) {
    const rows = figures.map((figure) => {
      const row = new FigureRow(this.#format, "line");
      row.update(figure);
      return row.element;
    });
    const entry = element(
      "li",
      {},
      element(
        "p",
        { class: "layer-kind" },
        symbol(kind),
        element("span", { class: "layer-label", text: kind.label }),
        " ",
        element("span", { class: "layer-count", text: countText(kind) }),
      ),
      ...(kind.note === "" ? [] : [element("p", { class: "layer-note", text: kind.note })]),
      ...rows,
    );
    entry.dataset.place = String(place);
    return entry;
  }

  /** @param {EventTarget | null} target a cell names itself, an entry of the list all cells of its kind */
  #name(target) {
    const node = target instanceof Element ? target.closest(".layer-cell, .layer-kinds > li") : null;
    const found = node instanceof HTMLElement ? node : null;
    const isCell = found?.classList.contains("layer-cell") ?? false;
    const { place } = found?.dataset ?? {};
    let said = "";
    this.#nodes.forEach((each, index) => {
      const its = this.#drawnCells[index];
      if (each === found) said = its?.sentence ?? "";
      each.classList.toggle("named", isCell ? each === found : String(its?.place) === place);
    });
    for (const entry of this.#list.children)
      entry.classList.toggle("named", entry instanceof HTMLElement && entry.dataset.place === place);
    this.#readout.textContent = said;
  }
}

/**
 * @param {LayerKind} kind
 * @param {number} index
 * @param {number} place
 */
function cell(kind, index, place) {
  const node = element("span", { class: "layer-cell" }, symbol(kind));
  node.dataset.place = String(place);
  if (index % NUMBERED === 0) node.dataset.index = String(index);
  return node;
}

/**
 * What a layer keeps above how it feeds forward. It says nothing that the label beside it does not say.
 * @param {LayerKind} kind
 */
function symbol({ shape, ffn }) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "layer-symbol");
  svg.setAttribute("viewBox", "0 0 16 24");
  svg.setAttribute("aria-hidden", "true");
  svg.dataset.shape = shape;
  svg.append(use(`#layer-${shape}`, 0, 16));
  if (ffn !== "none") svg.append(use(`#feed-${ffn}`, 18, 6));
  return svg;
}

/**
 * @param {string} href
 * @param {number} y
 * @param {number} height
 */
function use(href, y, height) {
  const node = document.createElementNS(SVG, "use");
  for (const [name, value] of Object.entries({ href, y, width: 16, height })) {
    node.setAttribute(name, String(value));
  }
  return node;
}
