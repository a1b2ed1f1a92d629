import assert from "node:assert/strict";
import { test } from "node:test";

import { endpointOf, formatQuery, modelName, parseQuery, planQuery, withChanges } from "../../web/state.js";

const HUB = "https://huggingface.co";

/** @param {string} search */
const codesOf = (search) => parseQuery(search).problems.map(({ field, code }) => `${field}:${code}`);

test("a shared link becomes a state and the same link again", () => {
  const link = "?model=Qwen/Qwen3-8B@6f6073b&gpu=l4-24gb&users=16&context=8192";
  const { state, problems } = parseQuery(link);
  assert.deepEqual(state, { model: "Qwen/Qwen3-8B@6f6073b", gpu: "l4-24gb", users: "16", context: "8192" });
  assert.deepEqual(problems, []);
  assert.equal(formatQuery(state), link);
});

test("an address of the Hub in a link is the model that it leads to", () => {
  const link = "?model=https://huggingface.co/Qwen/Qwen3-8B/tree/v1&gpu=l4-24gb";
  assert.equal(parseQuery(link).state.model, "Qwen/Qwen3-8B@v1");
  assert.equal(modelName("hf.co/Qwen/Qwen3-8B"), "Qwen/Qwen3-8B");
  assert.equal(modelName("../../x"), "../../x");
});

test("one state has one link: order is fixed and defaults are left out", () => {
  const one = parseQuery("?users=16&gpu=l4-24gb&embed=1&tp=1&model=a/b").state;
  const other = parseQuery("?embed=1&model=a%2Fb&users=16&tp=1&gpu=l4-24gb").state;
  assert.equal(formatQuery(one, { tp: "1", users: "1" }), "?model=a/b&gpu=l4-24gb&users=16&embed=1");
  assert.equal(formatQuery(one, { tp: "1" }), formatQuery(other, { tp: "1" }));
});

test("a state that is all defaults has the bare link", () => {
  assert.equal(formatQuery({ users: "1" }, { users: "1" }), "?");
});

for (const value of ["a b", "50%", "a+b", "a&gpu=x", "a#b", "日本", "q=1", "1.5", "vllm@0.33"]) {
  test(`the value ${JSON.stringify(value)} survives the way into a link and back`, () => {
    assert.equal(parseQuery(formatQuery({ engine: value })).state.engine, value);
  });
}

test("unknown keys are reported by name, and the rest applies", () => {
  const { state, problems } = parseQuery("?model=a/b&gpus=l4&users=2");
  assert.deepEqual(state, { model: "a/b", users: "2" });
  assert.deepEqual(
    problems.map((problem) => problem.sentence),
    ['The link has "gpus", which this page does not know; it is left out.'],
  );
});

test("many unknown keys make few sentences", () => {
  const many = Array.from({ length: 100 }, (_, index) => `k${index}=1`).join("&");
  const { problems } = parseQuery(`?${many}`);
  assert.equal(problems.length, 4);
  assert.equal(problems.at(-1)?.sentence, "The link has 97 more entries that are left out.");
});

test("of a key given twice the first value applies, and the reader is told", () => {
  assert.equal(parseQuery("?users=16&users=32").state.users, "16");
  assert.deepEqual(codesOf("?users=16&users=32"), ["users:repeated"]);
  assert.deepEqual(codesOf("?users=16&users=16"), []);
});

test("an empty value is the same as none", () => {
  assert.deepEqual(parseQuery("?users=&gpu=%20&model=a/b"), { state: { model: "a/b" }, problems: [] });
});

test("the longest value that is read has 200 characters", () => {
  assert.equal(parseQuery(`?model=${"m".repeat(200)}`).state.model?.length, 200);
  assert.deepEqual(codesOf(`?model=${"m".repeat(201)}&users=2`), ["model:too-long"]);
});

for (const [name, text] of Object.entries({
  "a NUL": "a%00b",
  "a line break": "a%0Ab",
  "right-to-left override": "a%E2%80%AEb",
  "zero-width space": "a%E2%80%8Bb",
  "broken UTF-8": "a%FFb",
})) {
  test(`a value with ${name} is left out`, () => {
    assert.deepEqual(parseQuery(`?gpu=${text}&users=2`).state, { users: "2" });
    assert.deepEqual(codesOf(`?gpu=${text}`), ["gpu:unreadable"]);
  });
}

test("markup in a value is only text, and an unknown key is shown short and readable", () => {
  assert.equal(parseQuery("?gpu=<img src=x>").state.gpu, "<img src=x>");
  const [problem] = parseQuery(`?${"x".repeat(60)}%E2%80%AE=1`).problems;
  assert.equal(
    problem?.sentence,
    `The link has "${"x".repeat(39)}…", which this page does not know; it is left out.`,
  );
});

for (const [search, code] of /** @type {const} */ ([
  ["?embed=1", undefined],
  ["?embed=yes", "embed:bad-value"],
  ["?theme=dark", undefined],
  ["?theme=sepia", "theme:bad-value"],
  ["?endpoint=https://hub.example.org", undefined],
  ["?endpoint=http://127.0.0.1:8123", undefined],
  ["?endpoint=http://hub.example.org", "endpoint:bad-value"],
  ["?endpoint=https://user:secret@hub.example.org", "endpoint:bad-value"],
  ["?endpoint=javascript:alert(1)", "endpoint:bad-value"],
  ["?endpoint=hub.example.org", "endpoint:bad-value"],
])) {
  test(`${search} gives ${code ?? "no problem"}`, () => {
    assert.deepEqual(codesOf(search), code === undefined ? [] : [code]);
  });
}

test("a token goes to the Hub and to the own machine, never where a link points", () => {
  assert.deepEqual(endpointOf({}, HUB), { endpoint: HUB, takesToken: true });
  assert.equal(endpointOf({ endpoint: "https://huggingface.co/" }, HUB).takesToken, true);
  assert.equal(endpointOf({ endpoint: "http://localhost:9000" }, HUB).takesToken, true);
  assert.equal(endpointOf({ endpoint: "https://huggingface.co.example.org" }, HUB).takesToken, false);
});

test("changes replace, an empty one removes, a foreign key is passed over", () => {
  const state = withChanges(
    { model: "a/b", weights: "int4", tp: "2" },
    { tp: "4", weights: "", onclick: "x" },
  );
  assert.deepEqual(state, { model: "a/b", tp: "4" });
});

test("the core is asked about the plan only", () => {
  const { state } = parseQuery("?model=a/b&theme=dark&endpoint=https://hub.example.org&embed=1&kv=fp8");
  assert.deepEqual(planQuery(state), { model: "a/b", kv: "fp8" });
});
