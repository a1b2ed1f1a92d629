import assert from "node:assert/strict";
import { test } from "node:test";

import { NumberFormat } from "../../web/format.js";

/** @import { Figure } from "../../web/report.d.ts" */

/** @param {Partial<Figure>} parts @returns {Figure} */
const figure = (parts) => ({
  label: "KV cache",
  value: 27.8,
  unit: "GiB",
  digits: 1,
  basis: "derived",
  low: null,
  high: null,
  arithmetic: "",
  because: "",
  source: "",
  check: "",
  ...parts,
});

const english = new NumberFormat("en");

test("exact and derived numbers carry no mark", () => {
  for (const basis of /** @type {const} */ (["exact", "derived"])) {
    const { number, unit, mark, word } = english.figure(figure({ basis }));
    assert.deepEqual([number, unit, mark, word], ["27.8", "GiB", "", basis]);
  }
});

test("estimated and assumed numbers differ by mark and word", () => {
  const { mark, word } = english.figure(figure({ basis: "estimated" }));
  assert.deepEqual([mark, word], ["~", "estimated"]);
  const assumed = english.figure(figure({ basis: "assumed" }));
  assert.deepEqual([assumed.mark, assumed.word], ["?", "assumed"]);
});

test("a number that is not known is said in words, without a unit", () => {
  const { number, unit, mark, word } = english.figure(figure({ value: null, basis: "unknown" }));
  assert.deepEqual([number, unit, mark, word], ["not known", "", "", "not known"]);
});

test("digits are those that mean something, no more and no less", () => {
  assert.equal(english.figure(figure({ value: 27, digits: 2 })).number, "27.00");
  assert.equal(english.figure(figure({ value: 327680, digits: 0 })).number, "327,680");
  assert.equal(english.figure(figure({ value: 0, digits: 0 })).number, "0");
});

test("digits follow the reader's locale", () => {
  assert.equal(new NumberFormat("de").number(327680.5, 1), "327.680,5");
});

test("a band stands beside its number, or in its place", () => {
  assert.equal(english.figure(figure({ value: 52, digits: 0, low: 48, high: 66 })).band, "48–66");
  const alone = english.figure(figure({ value: null, basis: "estimated", digits: 0, low: 48, high: 66 }));
  assert.deepEqual([alone.number, alone.band, alone.mark], ["48–66", "", "~"]);
});

test("a band that rounds to its number is not repeated", () => {
  assert.equal(english.figure(figure({ value: 52, digits: 0, low: 51.8, high: 52.3 })).band, "");
  assert.equal(english.figure(figure({ value: null, digits: 0, low: 51.8, high: 52.3 })).number, "52");
});

test("a sliver is never shown as nothing", () => {
  assert.equal(english.percent(0.004), "< 1%");
  assert.equal(english.percent(0), "0%");
  assert.equal(english.percent(5.84), "584%");
});

test("bytes of a transfer are decimal megabytes", () => {
  assert.equal(english.megabytes(9_598_218), "9.6");
});
