import assert from "node:assert/strict";
import { test } from "node:test";

import { chooseFiles, NoCheckpointError } from "../../web/checkpoint-loader.js";

const INDEX = "model.safetensors.index.json";
const WEIGHTS = [
  { name: "model-a.safetensors", size: 100 },
  { name: "model-b.safetensors", size: 100 },
];
const { signal } = new AbortController();

/**
 * Chooses over a core that leaves the set open until it is given an index.
 * @param {number | null} indexBytes as the listing says
 * @param {object} [settled] the choice with the index
 */
async function choose(
  indexBytes,
  settled = { read: ["model-b.safetensors"], sentence: "Named by the index." },
) {
  /** @type {string[]} */
  const read = [];
  const engine = {
    /** @param {string} method @param {any} [params] @returns {Promise<any>} */
    call: async (method, { index } = {}) => {
      assert.equal(method, "choose_files");
      const told = { kind: "safetensors", ignored: [], configs: ["config.json"] };
      if (index !== undefined) return { ...told, ...settled };
      return { ...told, read: ["model-a.safetensors"], configs: [INDEX], sentence: "Told by names." };
    },
  };
  const readIndex = async (/** @type {string} */ name) => {
    read.push(name);
    return "{}";
  };
  const files = [...WEIGHTS, { name: INDEX, size: indexBytes }];
  return { ...(await chooseFiles(engine, files, readIndex, signal)), read };
}

for (const size of [16_000_000, null]) {
  test(`a set that the list of files leaves open is settled by an index of ${size} bytes`, async () => {
    const { choice, remark, read } = await choose(size);
    assert.deepEqual(choice.read, ["model-b.safetensors"]);
    assert.equal(remark, "Named by the index.");
    assert.deepEqual(read, [INDEX]);
  });
}

test("an index above the limit is not read, and that is said", async () => {
  const { choice, remark, read } = await choose(16_000_001);
  assert.deepEqual(choice.read, ["model-a.safetensors"]);
  assert.equal(
    remark,
    `Told by names. ${INDEX} is above the 16 MB that this page reads of an index: the set was told from the list of files.`,
  );
  assert.deepEqual(read, []);
});

test("an index that names what is not there leaves nothing to read", async () => {
  const settled = { kind: "none", read: [], sentence: "The index names c, which is not there." };
  await assert.rejects(choose(10, settled), (error) => {
    assert.ok(error instanceof NoCheckpointError);
    assert.equal(error.message, settled.sentence);
    return true;
  });
});

for (const [ignored, remark] of /** @type {const} */ ([
  ["original/model.safetensors", "One set of two."],
  ["model.gguf", null],
])) {
  test(`beside the set lies ${ignored}: ${remark === null ? "nothing is said" : "that is said"}`, async () => {
    const choice = {
      kind: "safetensors",
      read: ["model.safetensors"],
      configs: [],
      sentence: "One set of two.",
      ignored: [{ name: ignored, reason: "" }],
    };
    const engine = { /** @returns {Promise<any>} */ call: async () => choice };
    const chosen = await chooseFiles(engine, WEIGHTS, async () => "", signal);
    assert.equal(chosen.remark, remark);
  });
}
