/** A whole number to type, with a slider that steps through round amounts. */

/** Steps of an octave that a thumb can hit. */
const STEPS = [1, 1.5];

/**
 * Round numbers of users up to `max`, which is itself the last: 1 2 3 4 6 8 12 16 …
 * @param {number} max
 */
export function userStops(max) {
  return [1, ...octaves(2, max)];
}

/**
 * Round lengths in tokens up to `max`, which is itself the last: 512 768 1024 1536 …
 * @param {number} max
 */
export function tokenStops(max) {
  return octaves(512, max);
}

/**
 * @param {number} first
 * @param {number} max
 */
function octaves(first, max) {
  const all = [];
  for (let base = first; base < max; base *= 2) {
    for (const step of STEPS) if (base * step < max) all.push(base * step);
  }
  return [...all, max];
}

/**
 * The place of the stop that is nearest to an amount, by ratio.
 * @param {readonly number[]} all rising
 * @param {number} amount
 */
export function nearestStop(all, amount) {
  let best = 0;
  for (const [place, stop] of all.entries()) {
    if (Math.abs(Math.log(stop / amount)) < Math.abs(Math.log((all[best] ?? stop) / amount))) best = place;
  }
  return best;
}

export class AmountInput {
  #box;
  #slider;
  /** @type {readonly number[]} */
  #stops = [];
  #describe;

  /**
   * Emits `amount` from the number box, with the text as detail, whenever the reader changes it.
   * @param {HTMLInputElement} box
   * @param {HTMLInputElement} slider
   * @param {(amount: number) => string} describe an amount in words, for who hears the slider
   * @param {AbortSignal} signal
   */
  constructor(box, slider, describe, signal) {
    this.#box = box;
    this.#slider = slider;
    this.#describe = describe;
    slider.addEventListener("input", () => this.#slide(), { signal });
    box.addEventListener("input", () => this.#type(), { signal });
    box.addEventListener("change", () => this.#leave(), { signal });
  }

  /** @param {readonly number[]} all rising */
  setStops(all) {
    if (all.length === this.#stops.length && all.every((stop, place) => stop === this.#stops[place])) return;
    this.#stops = all;
    this.#slider.max = String(all.length - 1);
    this.#follow();
  }

  /**
   * Shows an amount; a box that the reader is typing in is left alone.
   * @param {string} text
   */
  set(text) {
    if (document.activeElement !== this.#box || this.#box.value === "") this.#box.value = text;
    this.#follow();
  }

  #follow() {
    const amount = Number(this.#box.value);
    const known = amount > 0;
    this.#slider.value = String(known ? nearestStop(this.#stops, amount) : 0);
    this.#slider.setAttribute("aria-valuetext", known ? this.#describe(amount) : "not set");
  }

  #slide() {
    const amount = this.#stops[Number(this.#slider.value)];
    if (amount === undefined) return;
    this.#box.value = String(amount);
    this.#slider.setAttribute("aria-valuetext", this.#describe(amount));
    this.#emit();
  }

  /** An empty box is one that is about to be filled: nothing is asked until it is left. */
  #type() {
    if (this.#box.value === "") return;
    this.#follow();
    this.#emit();
  }

  #leave() {
    if (this.#box.value === "") this.#emit();
  }

  #emit() {
    this.#box.dispatchEvent(new CustomEvent("amount", { bubbles: true, detail: this.#box.value.trim() }));
  }
}
