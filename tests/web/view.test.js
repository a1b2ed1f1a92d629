import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { NumberFormat } from "../../web/format.js";
import { nearestStop, tokenStops, userStops } from "../../web/view/amount-input.js";
import { partTexts } from "../../web/view/checkpoint-strip.js";
import { inputsContent, NUMBERS, panelContent } from "../../web/view/four-numbers.js";
import { countText, layerCells } from "../../web/view/layer-map.js";
import { embedCode } from "../../web/view/share.js";
import { stateOfVerdict } from "../../web/view/verdict.js";

/** @import { PlanReport, VerdictCode } from "../../web/report.d.ts" */
/** @import { Line } from "../../web/view/panel.js" */

/** @param {string} name @returns {PlanReport} */
const fixture = (name) => JSON.parse(readFileSync(new URL(`fixtures/${name}.json`, import.meta.url), "utf8"));
/** @param {readonly Line[]} lines */
const keysOf = (lines) => lines.map(({ key }) => key);

test("every verdict has one state, and only serving is ok", () => {
  /** @type {[VerdictCode, string][]} */
  const table = [
    ["serves", "ok"],
    ["serves-with-changes", "tight"],
    ["context-too-long", "no"],
    ["serves-nobody", "no"],
    ["does-not-fit", "no"],
    ["will-not-start", "no"],
    ["unknown", "unknown"],
  ];
  for (const [code, state] of table) assert.equal(stateOfVerdict(code), state);
  assert.throws(() => stateOfVerdict(/** @type {VerdictCode} */ ("perhaps")), TypeError);
});

test("users leads the memory panel, and a band leads the bandwidth panel", () => {
  const report = fixture("serves");
  assert.equal(panelContent("memory", report).headline?.key, "memory.max_users");
  assert.equal(panelContent("bandwidth", report).headline?.key, "bandwidth.decode_tokens_per_s_low");
});

test("where users are not known the largest known amount leads, and the unknown stays in sight", () => {
  const { headline, more } = panelContent("memory", fixture("unknown-kv"));
  assert.equal(headline?.key, "memory.kv_cache_bytes_per_gpu");
  assert.ok(keysOf(more).includes("memory.max_users"));
});

for (const name of ["serves", "fewer-users", "does-not-fit", "serves-nobody", "unknown-kv", "moe", "hybrid", "draft"]) {
  test(`no figure of ${name} is shown twice or lost`, () => {
    const report = fixture(name);
    const panels = [...NUMBERS.map((number) => panelContent(number, report)), inputsContent(report)];
    const shown = panels
      .flatMap(({ headline, lines, more }) => [...(headline ? [headline] : []), ...lines, ...more])
      .filter(({ kind }) => kind === "figure")
      .map(({ key }) => key);
    const { parts = [], layer_kinds = [] } = report.checkpoint ?? {};
    const below = [
      ...parts.flatMap(({ bytes_figure, params_figure }) => [bytes_figure, params_figure]),
      ...layer_kinds.flatMap(({ figures }) => figures),
    ];
    const all = Object.keys(report.figures).filter((key) => !key.startsWith("memory.bar."));
    assert.deepEqual([...shown, ...below].toSorted(), all.toSorted());
  });
}

test("without a card nothing is claimed", () => {
  const report = fixture("ambiguous-gpu");
  for (const name of NUMBERS) {
    const { state, word, headline, lines } = panelContent(name, report);
    assert.deepEqual([state, word, headline, lines], ["unknown", "unknown", null, []]);
  }
});

test("a state is said in the words of its number", () => {
  assert.equal(panelContent("memory", fixture("does-not-fit")).word, "no room");
  assert.equal(panelContent("precision", fixture("serves")).word, "native");
  assert.equal(panelContent("precision", fixture("moe")).word, "not native");
});

test("why a width crashes stands behind the width", () => {
  const line = panelContent("scaling", fixture("serves-nobody")).lines.find(
    ({ key }) => key === "rejected_tp",
  );
  assert.equal(line?.kind, "fact");
  if (line?.kind === "fact") {
    assert.equal(line.text, "16");
    assert.match(line.notes[0] ?? "", /^TP 16: 40 query heads/);
  }
});

test("sliders step through round amounts and end at the longest context", () => {
  assert.deepEqual(userStops(20), [1, 2, 3, 4, 6, 8, 12, 16, 20]);
  assert.deepEqual(tokenStops(4096), [512, 768, 1024, 1536, 2048, 3072, 4096]);
  assert.deepEqual(tokenStops(40960).slice(-2), [32768, 40960]);
});

test("an amount between two stops shows at the nearer one, and one beyond the end at the end", () => {
  const stops = [1, 2, 4, 8];
  assert.equal(nearestStop(stops, 3), 2);
  assert.equal(nearestStop(stops, 2.5), 1);
  assert.equal(nearestStop(stops, 5000), 3);
});

test("the embed code cannot be broken out of", () => {
  const code = embedCode('https://example.org/?model=a/b&gpu="><script>');
  assert.equal(code.match(/</g)?.length, 2);
  assert.match(code, /embed=1" title=/);
  assert.doesNotMatch(code, /&(?!amp;)/);
});

const english = new NumberFormat("en");

test("a part of the checkpoint says what, how much, what share and how many parameters", () => {
  const parts = partTexts(fixture("draft"), english);
  assert.deepEqual(
    parts.map(({ sentence }) => sentence).slice(3, 4),
    ["Routed experts, FP8 in blocks: 609.1 GiB, 95% of what is stored, 653.9 billion parameters"],
  );
  assert.equal(
    parts.at(-1)?.sentence,
    "Draft block, FP32, not loaded: 1.00 KiB, < 1% of what is stored, 256 parameters",
  );
  assert.ok(parts.every(({ figures }) => figures.length === 2));
});

test("the stretches of the strip fill it to its end", () => {
  for (const name of ["serves", "moe", "hybrid", "draft"]) {
    const widths = partTexts(fixture(name), english).map(({ width }) => Number.parseFloat(width));
    assert.ok(Math.abs(widths.reduce((sum, width) => sum + width, 0) - 100) < 1e-6, name);
  }
});

test("the pattern of a part tells the width of its format", () => {
  const patterns = partTexts(fixture("moe"), english).map(({ format, pattern }) => `${format} ${pattern}`);
  assert.deepEqual([...new Set(patterns)], ["BF16 16", "MXFP4 4"]);
  const drafts = partTexts(fixture("draft"), english).filter(({ served }) => !served);
  assert.deepEqual(
    drafts.map(({ pattern }) => pattern),
    ["8", "16", "32"],
  );
});

test("parameters that are not known are not counted as none", () => {
  const report = fixture("serves");
  const part = report.checkpoint?.parts[0];
  assert.ok(part);
  part.num_params = null;
  part.bits = null;
  const [text] = partTexts(report, english);
  assert.equal(text?.params, "parameters not known");
  assert.equal(text?.pattern, "other");
});

test("every layer has its cell, and says its kind", () => {
  const cells = layerCells(fixture("hybrid"));
  assert.equal(cells.length, 48);
  assert.deepEqual(
    cells.slice(0, 4).map(({ place }) => place),
    [0, 0, 0, 1],
  );
  assert.equal(cells[3]?.sentence, "Layer 3: Full attention with MoE");
  assert.deepEqual(layerCells(fixture("unknown-kv")), []);
});

test("a kind is told with its layers", () => {
  const [first] = fixture("draft").checkpoint?.layer_kinds ?? [];
  assert.ok(first);
  assert.equal(countText(first), "3 layers: 0–2");
  assert.equal(countText({ ...first, count: 1, layers: "7" }), "layer 7");
});
