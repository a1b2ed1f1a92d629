/**
 * One line on what is still on its way: the engine, and the model's headers. It keeps its place when it is empty.
 * @import { NumberFormat } from "../format.js"
 */

import { unreachable } from "../protocol.js";
import { find } from "./element.js";

/**
 * @typedef {{ stage: "idle" | "download" | "start" | "ready" | "failed", loaded: number, total: number }} EngineProgress bytes
 * @typedef {{ stage: "none" }
 *   | { stage: "listing" }
 *   | { stage: "waiting", secondsLeft: number }
 *   | { stage: "headers", done: number, of: number, bytes: number }
 *   | { stage: "done" }} ModelProgress
 */

export class LoadStatus {
  #engine;
  #model;
  #format;

  /**
   * @param {HTMLElement} root
   * @param {NumberFormat} format
   */
  constructor(root, format) {
    this.#engine = find(root, '[data-part="engine"]', HTMLElement);
    this.#model = find(root, '[data-part="model"]', HTMLElement);
    this.#format = format;
  }

  /** @param {EngineProgress} progress */
  engine({ stage, loaded, total }) {
    switch (stage) {
      case "idle":
      case "ready":
      case "failed":
        this.#engine.textContent = "";
        break;
      case "download":
        this.#engine.textContent =
          total > 0
            ? `Engine: ${this.#format.megabytes(loaded)} of ${this.#format.megabytes(total)} MB`
            : "Engine: connecting";
        break;
      case "start":
        this.#engine.textContent = "Engine: starting Python";
        break;
      default:
        unreachable(stage, "engine stage of an unknown kind");
    }
  }

  /** @param {ModelProgress} progress */
  model(progress) {
    switch (progress.stage) {
      case "none":
      case "done":
        this.#model.textContent = "";
        break;
      case "listing":
        this.#model.textContent = "Hub: listing files";
        break;
      case "waiting":
        this.#model.textContent = `Hub: asks to wait ${this.#format.number(progress.secondsLeft)} s`;
        break;
      case "headers":
        this.#model.textContent = `Headers: ${this.#format.number(progress.done)} of ${this.#format.number(progress.of)}, ${this.#format.megabytes(progress.bytes)} MB`;
        break;
      default:
        unreachable(progress, "model stage of an unknown kind");
    }
  }
}
