import assert from "node:assert/strict";
import { test } from "node:test";

import { loadFolder, ModelFolder } from "../../web/model-folder.js";

const HEADER = new TextEncoder().encode('{"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}');

/** A safetensors file with a header of the claimed length. @param {number} [claimed] */
function weights(claimed = HEADER.length) {
  const length = new Uint8Array(8);
  new DataView(length.buffer).setBigUint64(0, BigInt(claimed), true);
  return new Blob([length, HEADER, new Uint8Array(4)]);
}

/** A chosen folder, as a file input gives it. @param {Record<string, Blob | string>} files by path */
const chosen = (files) =>
  Object.entries(files).map(([path, content]) => {
    const file = new File([content], path.split("/").at(-1) ?? "");
    Object.defineProperty(file, "webkitRelativePath", { value: path });
    return file;
  });

test("a folder is named after itself, and lists what is in it", () => {
  const folder = new ModelFolder(
    chosen({ "my-model/config.json": "{}", "my-model/model.safetensors": weights() }),
  );
  assert.equal(folder.name, "my-model");
  assert.deepEqual(folder.listing, [
    { name: "config.json", size: 2 },
    { name: "model.safetensors", size: 8 + HEADER.length + 4 },
  ]);
});

test("the Hub's download cache gives the model's own name", () => {
  const at = "models--Qwen--Qwen3-8B/snapshots/b968826d";
  const folder = new ModelFolder(
    chosen({
      [`${at}/config.json`]: "{}",
      [`${at}/model.safetensors`]: weights(),
      "models--Qwen--Qwen3-8B/refs/main": "b968826d",
    }),
  );
  assert.equal(folder.name, "Qwen/Qwen3-8B");
  assert.deepEqual(
    folder.listing.map(({ name }) => name),
    ["config.json", "model.safetensors"],
  );
});

test("of a file no more than its header is read", async () => {
  const folder = new ModelFolder(chosen({ "m/model.safetensors": weights() }));
  const { bytes, fileSize } = await folder.header("model.safetensors");
  assert.equal(bytes.byteLength, 8 + HEADER.length);
  assert.equal(fileSize, 8 + HEADER.length + 4);
});

for (const [claimed, why] of /** @type {const} */ ([
  [10_000_000_000, "claims more than it has"],
  [0, "claims nothing"],
])) {
  test(`a file that ${why} is handed over as it is, for the core to judge`, async () => {
    const folder = new ModelFolder(chosen({ "m/model.safetensors": weights(claimed) }));
    const { bytes } = await folder.header("model.safetensors");
    assert.equal(bytes.byteLength, claimed === 0 ? 8 : 8 + HEADER.length + 4);
  });
}

test("a file of a few bytes is no error of the reader", async () => {
  const folder = new ModelFolder(chosen({ "m/model.safetensors": "abc" }));
  assert.equal((await folder.header("model.safetensors")).bytes.byteLength, 3);
});

test("a folder is taken in by the core like a repository", async () => {
  const folder = new ModelFolder(chosen({ "m/config.json": '{"a":1}', "m/model.safetensors": weights() }));
  /** @type {[string, any][]} */
  const calls = [];
  const engine = {
    /** @param {string} method @param {object} [params] @returns {Promise<any>} */
    call: async (method, params = {}) => {
      calls.push([method, params]);
      return method === "choose_files"
        ? { kind: "safetensors", read: ["model.safetensors"], configs: [], sentence: "", ignored: [] }
        : {};
    },
  };
  const { key, remark } = await loadFolder({
    engine,
    folder,
    signal: new AbortController().signal,
    onProgress: () => {},
  });
  assert.deepEqual([key, remark], ["folder:m", null]);
  assert.deepEqual(
    calls.map(([method]) => method),
    ["choose_files", "open_checkpoint", "add_header"],
  );
  const opened = calls[1]?.[1];
  assert.deepEqual([opened.source, opened.config, opened.hf_quant_config], ["folder", '{"a":1}', null]);
});

test("the index of a folder settles a set that its names leave open", async () => {
  const folder = new ModelFolder(
    chosen({ "m/model.safetensors": weights(), "m/model.safetensors.index.json": "the index" }),
  );
  const choice = { kind: "safetensors", read: ["model.safetensors"], sentence: "", ignored: [] };
  /** @type {any[]} */
  const asked = [];
  const engine = {
    /** @param {string} method @param {any} [params] @returns {Promise<any>} */
    call: async (method, params) => {
      if (method !== "choose_files") return {};
      asked.push(params.index);
      return { ...choice, configs: ["model.safetensors.index.json"] };
    },
  };
  await loadFolder({ engine, folder, signal: new AbortController().signal, onProgress: () => {} });
  assert.deepEqual(asked, [undefined, "the index"]);
});
