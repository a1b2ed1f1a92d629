import assert from "node:assert/strict";
import { test } from "node:test";

import { guessShards, MAX_CONCURRENCY, readHeaders, readSize } from "../../web/hub-shards.js";

/** @import { HubClient } from "../../web/hub.js" */

/** @param {string[]} names */
const filesOf = (...names) => names.map((name) => ({ name, size: 1 }));
/** @param {{ name: string }[]} files */
const namesOf = (files) => files.map(({ name }) => name);
/** @param {number} count @param {string} [between] @param {number} [digits] */
const shards = (count, between = "-", digits = 5) =>
  Array.from({ length: count }, (_, place) => {
    const number = String(place + 1).padStart(5, "0");
    return `model${between}${number}-of-${String(count).padStart(digits, "0")}.safetensors`;
  });
const INDEX = "model.safetensors.index.json";

/** @type {[title: string, names: string[], guess: string[]][]} */
const repositories = [
  ["one file", ["config.json", "model.safetensors", "README.md"], ["model.safetensors"]],
  ["shards with an index", [...shards(4), INDEX], shards(4)],
  ["shards listed in another order", [INDEX, ...shards(12).reverse()], shards(12)],
  ["totals of six digits", [...shards(163, "-", 6), INDEX], shards(163, "-", 6)],
  ["an underscore before the number", [...shards(72, "_"), INDEX], shards(72, "_")],
  ["shards without an index", shards(3), shards(3)],
  ["shards and one file, no index", [...shards(2), "model.safetensors"], ["model.safetensors"]],
  ["shards and one file, with an index", [...shards(2), "model.safetensors", INDEX], shards(2)],
  ["a consolidated copy beside", [...shards(2), INDEX, "consolidated.safetensors"], shards(2)],
  ["a copy in a subfolder", ["model.safetensors", "original/model.safetensors"], ["model.safetensors"]],
  ["a missing shard", [...shards(4).slice(1), INDEX], []],
  ["two sets of shards", [...shards(2), ...shards(3), INDEX], []],
  ["an adapter", ["adapter_model.safetensors", "adapter_config.json"], []],
  ["a diffusion pipeline", ["unet/diffusion_pytorch_model.safetensors", "model_index.json"], []],
  ["PyTorch files", ["pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"], []],
];

for (const [title, names, guess] of repositories) {
  test(`read ahead: ${title}`, () => assert.deepEqual(namesOf(guessShards(filesOf(...names))), guess));
}

test("a read is the largest header seen, a tenth and one KiB more, and never tiny", () => {
  assert.equal(readSize(0), 65_536);
  assert.equal(readSize(16), 8_192);
  assert.equal(readSize(6_509), 8_192);
  assert.equal(readSize(6_600), 8_292);
  assert.equal(readSize(100_000), 111_032);
});

/**
 * A client whose shards have headers of these lengths.
 * @param {number[]} lengths
 */
function clientOf(lengths) {
  const names = shards(lengths.length);
  const seen = { requests: 0, bytes: 0, inFlight: 0, maxInFlight: 0, order: /** @type {string[]} */ ([]) };
  const client = {
    /** @type {HubClient["header"]} */
    header: async (_id, _sha, path, { firstRead = 65_536, signal, onLength } = {}) => {
      const needed = 8 + /** @type {number} */ (lengths[names.indexOf(path)]);
      seen.order.push(path);
      seen.inFlight += 1;
      seen.maxInFlight = Math.max(seen.maxInFlight, seen.inFlight);
      await new Promise((resolve) => setTimeout(resolve, 1));
      signal?.throwIfAborted();
      onLength?.(needed - 8);
      seen.requests += needed > firstRead ? 2 : 1;
      seen.bytes += Math.max(needed, firstRead);
      seen.inFlight -= 1;
      return { bytes: new Uint8Array(needed), fileSize: null, requests: 1 };
    },
  };
  return { client: /** @type {HubClient} */ (client), files: filesOf(...names), seen };
}

/** @param {number} first @param {number[]} cycle @param {number} count @param {number[]} last */
const lengthsOf = (first, cycle, count, ...last) => [
  first,
  ...Array.from(
    { length: count - 1 - last.length },
    (_, place) => /** @type {number} */ (cycle[place % cycle.length]),
  ),
  ...last,
];

// Header lengths of checkpoints split in layer order at 5 GB a shard; only the first and last are unlike the rest.
/** @type {[model: string, lengths: number[]][]} */
const checkpoints = [
  ["DeepSeek-V3", lengthsOf(2_696, [72_872, 71_624, 72_432, 73_040, 73_848], 161, 73_328, 11_432)],
  ["Kimi-K2.5", lengthsOf(512, [221_008, 258_160, 243_664, 259_984], 120, 246_016, 38_472)],
  ["GLM-5-FP8", lengthsOf(9_608, [98_392, 98_616, 98_808, 101_288], 152, 100_144, 32_936)],
  ["Qwen3-235B-A22B", lengthsOf(25_048, [48_808, 48_800, 49_200], 95, 49_200, 12_480)],
  ["Qwen3-235B-A22B-NVFP4", lengthsOf(331_320, [651_568, 657_160, 660_040], 27, 657_184, 541_504)],
];

for (const [model, lengths] of checkpoints) {
  test(`${model}: one request for nearly every shard, few spare bytes`, async () => {
    const { client, files, seen } = clientOf(lengths);
    await readHeaders({ client, id: "org/name", sha: "a", files, onHeader: () => {} });
    const exact = lengths.reduce((sum, length) => sum + 8 + length, 0);
    assert.equal(new Set(seen.order).size, lengths.length);
    assert.ok(seen.requests <= lengths.length * 1.05 + 2, `${seen.requests} requests`);
    assert.ok(seen.bytes <= exact * 1.3, `${seen.bytes} bytes for ${exact}`);
  });
}

test("at most sixteen reads at a time, however many are asked for", async () => {
  const { client, files, seen } = clientOf(lengthsOf(100, [5_000], 60));
  await readHeaders({ client, id: "org/name", sha: "a", files, concurrency: 99, onHeader: () => {} });
  assert.equal(seen.maxInFlight, MAX_CONCURRENCY);
  assert.equal(MAX_CONCURRENCY, 16);
});

test("a small set is read at once, a larger one after its middle shard is known", async () => {
  const small = clientOf([100, 5_000, 5_000, 200]);
  await readHeaders({
    client: small.client,
    id: "org/name",
    sha: "a",
    files: small.files,
    onHeader: () => {},
  });
  assert.equal(small.seen.maxInFlight, 4);

  const larger = clientOf(lengthsOf(100, [5_000], 5));
  await readHeaders({
    client: larger.client,
    id: "org/name",
    sha: "a",
    files: larger.files,
    onHeader: () => {},
  });
  assert.equal(larger.seen.order[0], "model-00003-of-00005.safetensors");
});

test("each header is handed over once, with the progress after it", async () => {
  const lengths = lengthsOf(100, [5_000], 9);
  const { client, files } = clientOf(lengths);
  /** @type {string[]} */
  const handed = [];
  /** @type {number[]} */
  const done = [];
  let bytes = 0;
  await readHeaders({
    client,
    id: "org/name",
    sha: "a",
    files,
    onHeader: ({ name }, header) => {
      handed.push(name);
      assert.equal(header.length, 8 + /** @type {number} */ (lengths[namesOf(files).indexOf(name)]));
    },
    onProgress: (progress) => {
      done.push(progress.done);
      bytes = progress.bytes;
      assert.equal(progress.total, 9);
    },
  });
  assert.deepEqual(handed.toSorted(), namesOf(files));
  assert.deepEqual(done, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
  assert.equal(
    bytes,
    lengths.reduce((sum, length) => sum + 8 + length, 0),
  );
});

for (const broken of [
  "model-00015-of-00030.safetensors",
  "model-00016-of-00030.safetensors",
  "model-00030-of-00030.safetensors",
]) {
  test(`the first error ends the reads: ${broken}`, async () => {
    const { client, files, seen } = clientOf(lengthsOf(100, [5_000], 30));
    const { header } = client;
    /** @type {HubClient["header"]} */
    client.header = (id, sha, path, options) =>
      path === broken ? Promise.reject(new Error(path)) : header(id, sha, path, options);
    /** @type {string[]} */
    const handed = [];
    const reading = readHeaders({
      client,
      id: "org/name",
      sha: "a",
      files,
      onHeader: ({ name }) => void handed.push(name),
    });
    await assert.rejects(reading, new Error(broken));
    const [handedThen, askedThen] = [handed.length, seen.order.length];
    await new Promise((resolve) => setTimeout(resolve, 20));
    assert.deepEqual([handed.length, seen.order.length], [handedThen, askedThen], "nothing goes on after it");
  });
}

test("aborting ends the reads with the caller's reason", async () => {
  const { client, files, seen } = clientOf(lengthsOf(100, [5_000], 100));
  const controller = new AbortController();
  const reason = new Error("another model was chosen");
  const reading = readHeaders({
    client,
    id: "org/name",
    sha: "a",
    files,
    signal: controller.signal,
    onHeader: () => controller.abort(reason),
  });
  await assert.rejects(reading, reason);
  assert.ok(seen.order.length <= 1 + MAX_CONCURRENCY);
});

test("no files are no work", async () => {
  const { client, seen } = clientOf([]);
  await readHeaders({ client, id: "org/name", sha: "a", files: [], onHeader: () => assert.fail() });
  assert.equal(seen.order.length, 0);
});
