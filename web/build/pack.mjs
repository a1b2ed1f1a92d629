/**
 * Makes the engine's archive with Pyodide itself (so that compiled Python fits it), then starts Python from that
 * archive the way the page does and compares the core's answers with those of CPython.
 *
 * node pack.mjs JOB.json  where JOB is
 *   pyodide   folder of the npm package
 *   stage     folder with std/ (standard library), site/ (packages) and core/ (the core and the door)
 *   archive   file to write
 *   sideModule  {file, name, path}: the extension module, its dotted name, where the page's Python looks for it
 *   exercise  file with [{text, payload (base64) or null, reply}]: requests and CPython's replies
 *
 * @import { Engine, LoaderScript, ModuleScript, PyodideConfig } from "../boot.js"
 *
 * @typedef {{ text: string, payload: string | null, reply: string }} Exchange
 */

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";
import { openEngine, startFromArchive } from "../boot.js";

/** Characters of a text that are shown. */
const CONTEXT = 300;

const job = JSON.parse(await readFile(/** @type {string} */ (process.argv[2]), "utf8"));

/** @param {string} name */
const pyodideScript = (name) => import(pathToFileURL(join(job.pyodide, name)).href);

const { loadPyodide } = /** @type {LoaderScript} */ (await pyodideScript("pyodide.mjs"));
const { default: createModule } = /** @type {ModuleScript} */ (await pyodideScript("pyodide.asm.mjs"));
const lock = JSON.parse(await readFile(join(job.pyodide, "pyodide-lock.json"), "utf8"));

/** @type {PyodideConfig} */
const config = {
  indexURL: job.pyodide,
  lockFileContents: { ...lock, packages: {} },
  packageBaseUrl: job.pyodide,
};

/** @type {Exchange[]} */
const exercise = JSON.parse(await readFile(job.exercise, "utf8"));

await writeArchive();
await checkArchive();
process.exit(0);

async function writeArchive() {
  const pyodide = await loadPyodide({
    ...config,
    // Positions inside a line are half of the compiled size and only decorate tracebacks.
    args: ["-X", "no_debug_ranges"],
    env: { PYTHONHASHSEED: "0" },
  });
  pyodide.FS.mkdirTree("/stage");
  pyodide.mountNodeFS("/stage", job.stage);
  const path = pyodide.pyimport("sys").path;
  for (const folder of ["/stage/site", "/stage/core"]) {
    path.insert(0, folder);
  }
  answerAll(openEngine(pyodide), "the whole standard library");
  path.insert(0, "/stage");
  const pack = pyodide.pyimport("pack");
  pack.write_archive("/stage", "/stage/archive.zip");
}

async function checkArchive() {
  const compiled = WebAssembly.compile(await readFile(job.sideModule.file));
  const pyodide = await startFromArchive({
    loadPyodide,
    createModule,
    config: { ...config, stdLibURL: join(job.stage, "archive.zip") },
    sideModule: { compiled, name: job.sideModule.name, path: job.sideModule.path },
  });
  answerAll(openEngine(pyodide), "the archive");
}

/**
 * @param {Engine} engine
 * @param {string} where
 */
function answerAll(engine, where) {
  for (const { text, payload, reply } of exercise) {
    const bytes = payload === null ? undefined : new Uint8Array(Buffer.from(payload, "base64")).buffer;
    const got = engine.call(text, bytes);
    if (got !== reply) {
      const at = reply.split("").findIndex((unit, index) => unit !== got[index]);
      throw new Error(
        `with ${where}, the core answers ${text.slice(0, CONTEXT)}\n` +
          `in Pyodide  …${around(got, at)}\nin CPython  …${around(reply, at)}`,
      );
    }
  }
}

/**
 * @param {string} reply
 * @param {number} at where it differs; -1: it ends there
 */
function around(reply, at) {
  const middle = at < 0 ? reply.length : at;
  return reply.slice(Math.max(0, middle - CONTEXT), middle + CONTEXT);
}
