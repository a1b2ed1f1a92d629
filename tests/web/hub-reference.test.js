import assert from "node:assert/strict";
import { test } from "node:test";

import { isModelId, parseModelReference } from "../../web/hub-reference.js";

/** @type {[text: string, id: string, revision: string | null][]} */
const models = [
  ["Qwen/Qwen3-8B", "Qwen/Qwen3-8B", null],
  ["  Qwen/Qwen3-8B/ \n", "Qwen/Qwen3-8B", null],
  ["gpt2", "gpt2", null],
  ["gpt2@main", "gpt2", "main"],
  ["org/name_1.5-b@v1.0", "org/name_1.5-b", "v1.0"],
  ["org/name@refs/pr/1", "org/name", "refs/pr/1"],
  ["org/name@feature/x", "org/name", "feature/x"],
  [
    "org/name@0123456789abcdef0123456789abcdef01234567",
    "org/name",
    "0123456789abcdef0123456789abcdef01234567",
  ],
  ["https://huggingface.co/org/name", "org/name", null],
  ["http://www.huggingface.co/org/name/", "org/name", null],
  ["HTTPS://HuggingFace.co/Org/Name", "Org/Name", null],
  ["huggingface.co/org/name", "org/name", null],
  ["hf.co/org/name", "org/name", null],
  ["https://hf.co/org/name?library=transformers#usage", "org/name", null],
  ["https://huggingface.co/gpt2", "gpt2", null],
  ["https://huggingface.co/gpt2/tree/main", "gpt2", "main"],
  ["https://huggingface.co/org/name/tree/main", "org/name", "main"],
  ["https://huggingface.co/org/name/tree/main/sub/folder", "org/name", "main"],
  ["https://huggingface.co/org/name/blob/v2/config.json", "org/name", "v2"],
  ["https://huggingface.co/org/name/blob/main/a@b.json", "org/name", "main"],
  ["https://huggingface.co/org/name/resolve/v2/model.safetensors?download=true", "org/name", "v2"],
  ["https://huggingface.co/org/name/raw/v2/config.json", "org/name", "v2"],
  [
    "https://huggingface.co/org/name/commit/0123456789abcdef0123456789abcdef01234567",
    "org/name",
    "0123456789abcdef0123456789abcdef01234567",
  ],
  ["https://huggingface.co/org/name/commits/main", "org/name", "main"],
  ["https://huggingface.co/org/name/tree/refs%2Fpr%2F12", "org/name", "refs/pr/12"],
  ["https://huggingface.co/org/name/tree/refs/pr/12", "org/name", "refs/pr/12"],
  ["https://huggingface.co/org/name/tree/refs/pr/12/sub", "org/name", "refs/pr/12"],
  ["https://huggingface.co/org/name/discussions/3", "org/name", null],
  ["https://huggingface.co/org/name/tree", "org/name", null],
  ["https://huggingface.co/api/models/org/name", "org/name", null],
  ["https://huggingface.co/api/models/org/name/revision/v2?blobs=true", "org/name", "v2"],
  ["https://huggingface.co/models/org/name", "org/name", null],
  ["hf://org/name", "org/name", null],
  ["hf://models/org/name@v2/config.json", "org/name", "v2"],
  ["hf://org/name@refs/pr/1/model.safetensors", "org/name", "refs/pr/1"],
  ["hf://org/name/model.safetensors", "org/name", null],
];

for (const [text, id, revision] of models) {
  test(`${JSON.stringify(text)} names ${id}${revision === null ? "" : ` at ${revision}`}`, () => {
    assert.deepEqual(parseModelReference(text), { kind: "model", id, revision });
  });
}

/** @type {[text: string, code: string, message: string][]} */
const problems = [
  ["", "empty", "No model is given."],
  [" \t", "empty", "No model is given."],
  ["datasets/squad", "dataset", "squad is a dataset, not a model."],
  ["https://huggingface.co/datasets/org/data/tree/main", "dataset", "org/data is a dataset, not a model."],
  ["https://huggingface.co/api/datasets/org/data", "dataset", "org/data is a dataset, not a model."],
  ["hf://datasets/org/data@main", "dataset", "org/data@main is a dataset, not a model."],
  ["https://huggingface.co/spaces/org/app", "space", "org/app is a space, not a model."],
  [
    "https://huggingface.co/docs/hub",
    "not-a-model",
    '"https://huggingface.co/docs/hub" is a page of the Hub, not a model.',
  ],
  ["https://huggingface.co/", "not-a-model", '"https://huggingface.co/" is a page of the Hub, not a model.'],
  [
    "https://huggingface.co/models",
    "not-a-model",
    '"https://huggingface.co/models" is a page of the Hub, not a model.',
  ],
  ["https://github.com/org/name", "other-site", "github.com is not the Hugging Face Hub."],
  [
    "https://huggingface.co.evil.example/org/name",
    "other-site",
    "huggingface.co.evil.example is not the Hugging Face Hub.",
  ],
  ["https://huggingface.co@evil.example/org/name", "other-site", "evil.example is not the Hugging Face Hub."],
  ["https://", "bad-id", '"https://" is not an address.'],
  ["javascript:alert(1)", "bad-id", '"javascript:alert(1)" does not name a model.'],
  ["data:text/html,x", "bad-id", '"data:text/html,x" does not name a model.'],
  ["file:///etc/passwd", "bad-id", '"file:///etc/passwd" does not name a model.'],
  ["C:\\models\\name", "bad-id", '"C:\\models\\name" does not name a model.'],
  ["../../etc/passwd", "bad-id", '"../../etc/passwd" does not name a model.'],
  ["org/..", "bad-id", '"org/.." does not name a model.'],
  ["org/na..me", "bad-id", '"org/na..me" does not name a model.'],
  ["org//name", "bad-id", '"org//name" does not name a model.'],
  ["/org/name", "bad-id", '"/org/name" does not name a model.'],
  ["a/b/c", "bad-id", '"a/b/c" does not name a model.'],
  ["org/name.git", "bad-id", '"org/name.git" does not name a model.'],
  ["org/na me", "bad-id", '"org/na me" does not name a model.'],
  ["org/name?x=1", "bad-id", '"org/name?x=1" does not name a model.'],
  ["<img src=x onerror=alert(1)>", "bad-id", '"<img src=x onerror=alert(1)>" does not name a model.'],
  ["org/näme", "bad-id", '"org/näme" does not name a model.'],
  ["org/%2e%2e", "bad-id", '"org/%2e%2e" does not name a model.'],
  ["org\u202e/name\u0000", "bad-id", '"org /name " does not name a model.'],
  [`org/${"x".repeat(97)}`, "bad-id", `"org/${"x".repeat(75)}…" does not name a model.`],
  ["https://huggingface.co/%E0%A4%A", "bad-id", '"%E0%A4%A" does not name a model.'],
  ["org/name@", "bad-revision", '"" is not a revision.'],
  ["org/name@../x", "bad-revision", '"../x" is not a revision.'],
  ["org/name@a b", "bad-revision", '"a b" is not a revision.'],
  ["org/name@<b>", "bad-revision", '"<b>" is not a revision.'],
  ["org/name@v1@v2:x", "bad-revision", '"v1@v2:x" is not a revision.'],
  ["https://huggingface.co/org/name/tree/..%2F..", "bad-revision", '"../.." is not a revision.'],
  [`org/name@${"r".repeat(256)}`, "bad-revision", `"${"r".repeat(79)}…" is not a revision.`],
];

for (const [text, code, message] of problems) {
  test(`${JSON.stringify(text.slice(0, 60))} is a problem: ${code}`, () => {
    const parsed = parseModelReference(text);
    assert.equal(parsed.kind, "problem");
    assert.deepEqual([parsed.code, parsed.message], [code, message]);
    assert.ok(parsed.hint.length > 0);
  });
}

test("a name is at most 96 characters", () => {
  assert.equal(isModelId(`org/${"x".repeat(96)}`), true);
  assert.equal(isModelId(`org/${"x".repeat(97)}`), false);
});
