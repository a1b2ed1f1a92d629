import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { BootError, explain } from "../../web/boot-failure.js";
import { Downloads } from "../../web/downloads.js";

const BASE = new URL("https://host.test/deep/path/engine/");
const DATA = { path: "data-1.bin", bytes: 6 };
const WASM = { path: "code-2.wasm", bytes: 4 };

/** Downloads over a table of responses by address, with all that they told and asked for. */
function setUp(responses, files = [DATA, WASM]) {
  const progress = [];
  const asked = [];
  const downloads = new Downloads({
    base: BASE,
    files,
    onProgress: (loaded, total) => progress.push([loaded, total]),
    async fetch(input) {
      const url = new URL(input instanceof Request ? input.url : input).href;
      asked.push(url);
      const respond = responses[url];
      if (respond === undefined) {
        throw new TypeError("Failed to fetch");
      }
      return respond();
    },
  });
  return { downloads, progress, asked };
}

const at = (path) => new URL(path, BASE).href;

test("bytes are counted as they arrive, against the total of all files", async () => {
  const parts = () =>
    new Response(
      new ReadableStream({
        start(controller) {
          controller.enqueue(new Uint8Array(2));
          controller.enqueue(new Uint8Array(4));
          controller.close();
        },
      }),
    );
  const { downloads, progress } = setUp({ [at(DATA.path)]: parts });
  const response = await downloads.start(DATA);
  assert.equal((await response.arrayBuffer()).byteLength, 6);
  assert.deepEqual(progress, [
    [2, 10],
    [6, 10],
  ]);
});

test("a file that a server answers with 404 is named with its status", async () => {
  const { downloads } = setUp({ [at(DATA.path)]: () => new Response("no", { status: 404 }) });
  await assert.rejects(downloads.start(DATA), (error) => {
    assert.ok(error instanceof BootError);
    const { code, message } = explain(error);
    assert.equal(code, "engine-file");
    assert.match(message, /data-1\.bin.* 404/);
    return true;
  });
});

test("a file that cannot be fetched at all is a matter of the network", async () => {
  const { downloads } = setUp({});
  await assert.rejects(downloads.start(DATA), (error) => explain(error).code === "engine-network");
});

test("a file that breaks off is a matter of the network", async () => {
  const broken = () =>
    new Response(
      new ReadableStream({
        start(controller) {
          controller.enqueue(new Uint8Array(2));
          controller.error(new TypeError("network error"));
        },
      }),
    );
  const { downloads } = setUp({ [at(DATA.path)]: broken });
  await downloads.start(DATA);
  await assert.rejects(downloads.failure, (error) => explain(error).code === "engine-network");
});

test("the first failure of any file is told to whoever waits for something else", async () => {
  const { downloads } = setUp({ [at(DATA.path)]: () => new Response("no", { status: 500 }) });
  downloads.start(DATA);
  await assert.rejects(downloads.failure, (error) => explain(error).code === "engine-file");
});

test("WebAssembly under a wrong type is given the right one", async () => {
  const wrong = { headers: { "content-type": "application/octet-stream" } };
  const { downloads } = setUp({ [at(WASM.path)]: () => new Response(new Uint8Array(4), wrong) });
  const response = await downloads.start(WASM);
  assert.equal(response.headers.get("content-type"), "application/wasm");
  assert.equal((await response.arrayBuffer()).byteLength, 4);
});

test("a file packed with gzip is unpacked, and its packed bytes are counted", async () => {
  const packed = gzipSync("the archive");
  const file = { path: "a.pack", bytes: packed.length };
  const { downloads, progress } = setUp({ [at(file.path)]: () => new Response(packed) }, [file]);
  const response = await downloads.startGzip(file);
  assert.equal(await response.text(), "the archive");
  assert.deepEqual(progress.at(-1), [packed.length, packed.length]);
});

test("a packed file that is no gzip fails for all who wait", async () => {
  const { downloads } = setUp({ [at(DATA.path)]: () => new Response("plain!") });
  await assert.rejects(downloads.startGzip(DATA));
  await assert.rejects(downloads.failure);
});

test("what was started is handed to Pyodide under the name it knows; the rest is fetched", async () => {
  const { downloads, asked } = setUp({
    [at(WASM.path)]: () => new Response("code"),
    [at("other.json")]: () => new Response("other"),
  });
  const started = downloads.start(WASM);
  downloads.answer("pyodide.asm.wasm", () => started);
  assert.equal(await (await downloads.fetch(at("pyodide.asm.wasm"))).text(), "code");
  assert.equal(await (await downloads.fetch(new URL("other.json", BASE))).text(), "other");
  assert.deepEqual(asked, [at(WASM.path), at("other.json")]);
});

test("a failure is told by `failure`, and Pyodide, which would not handle it, hears nothing", async () => {
  const { downloads } = setUp({ [at(WASM.path)]: () => new Response("no", { status: 404 }) });
  const started = downloads.start(WASM);
  downloads.answer("pyodide.asm.wasm", () => started);
  let heard = false;
  downloads.fetch(at("pyodide.asm.wasm")).finally(() => {
    heard = true;
  });
  await assert.rejects(downloads.failure);
  await new Promise(setImmediate);
  assert.equal(heard, false);
});

test("a script that is missing is named with its status", async () => {
  const script = { path: "no-such-script.js", bytes: 1 };
  const { downloads } = setUp({ [at(script.path)]: () => new Response("no", { status: 404 }) }, [script]);
  await assert.rejects(downloads.importScript(script), (error) => explain(error).code === "engine-file");
});
