/**
 * The only place where a number becomes text. Values come from the core in display units; here they get the reader's
 * digits and separators, and the mark of their basis.
 * @import { Basis, Figure } from "./report.d.ts"
 */

/** The sign before a number, and the words for it. Exact and derived numbers carry no sign. */
const BASES = /** @satisfies {Record<Basis, { mark: string, word: string, meaning: string }>} */ ({
  exact: { mark: "", word: "exact", meaning: "read, not computed" },
  derived: { mark: "", word: "derived", meaning: "arithmetic on what was read" },
  estimated: { mark: "~", word: "estimated", meaning: "a fitted model; the band says how wide" },
  assumed: { mark: "?", word: "assumed", meaning: "taken as given, for the reason stated" },
  unknown: { mark: "", word: "not known", meaning: "withheld" },
});

/**
 * @typedef {object} FigureText
 * @property {string} number the number or the band, localised; "not known" where there is none
 * @property {string} unit
 * @property {string} mark "~", "?" or nothing
 * @property {string} word the basis in words
 * @property {string} meaning what the basis word means
 * @property {string} band the band beside a number, or nothing
 */

/** Numbers as text in one locale. */
export class NumberFormat {
  /** @type {Intl.LocalesArgument} */
  #locales;
  /** @type {Map<number, Intl.NumberFormat>} */
  #byDigits = new Map();
  /** @type {Intl.NumberFormat} */
  #percent;

  /** @param {Intl.LocalesArgument} [locales] the reader's, unless told */
  constructor(locales) {
    this.#locales = locales;
    this.#percent = new Intl.NumberFormat(locales, { style: "percent", maximumFractionDigits: 0 });
  }

  /**
   * A number with exactly `digits` digits after the decimal point.
   * @param {number} value
   * @param {number} [digits]
   */
  number(value, digits = 0) {
    let format = this.#byDigits.get(digits);
    if (!format) {
      format = new Intl.NumberFormat(this.#locales, {
        minimumFractionDigits: digits,
        maximumFractionDigits: digits,
      });
      this.#byDigits.set(digits, format);
    }
    return format.format(value);
  }

  /**
   * A share of a whole. Something that is there is never shown as nothing.
   * @param {number} ratio
   */
  percent(ratio) {
    return ratio > 0 && ratio < 0.005 ? `< ${this.#percent.format(0.01)}` : this.#percent.format(ratio);
  }

  /**
   * Bytes of a transfer, in decimal megabytes as browsers show them.
   * @param {number} bytes
   */
  megabytes(bytes) {
    return this.number(bytes / 1e6, 1);
  }

  /**
   * A figure of the report as text.
   * @param {Figure} figure
   * @returns {FigureText}
   */
  figure(figure) {
    const { mark, word, meaning } = BASES[figure.basis];
    const band = this.#band(figure);
    if (figure.value === null && band === "") {
      return {
        number: BASES.unknown.word,
        unit: "",
        mark: "",
        word: BASES.unknown.word,
        meaning: BASES.unknown.meaning,
        band: "",
      };
    }
    if (figure.value === null) return { number: band, unit: figure.unit, mark, word, meaning, band: "" };
    const number = this.number(figure.value, figure.digits);
    return { number, unit: figure.unit, mark, word, meaning, band: band === number ? "" : band };
  }

  /** @param {Figure} figure */
  #band({ low, high, digits }) {
    if (low === null || high === null) return "";
    const [from, to] = [this.number(low, digits), this.number(high, digits)];
    return from === to ? from : `${from}–${to}`;
  }
}
