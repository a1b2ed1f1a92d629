/**
 * The engine's worker (a module worker): starts Python in the way its name says and answers calls with the
 * planning core.
 *
 * @import { Engine } from "./boot.js"
 * @import { EngineManifest } from "./engine/manifest.js"
 * @import { BootName, Call, FromWorker, Status } from "./protocol.js"
 */

import { BOOTS } from "./boot.js";
import { explain, requireWebAssembly } from "./boot-failure.js";
import { Downloads } from "./downloads.js";
import { manifest as keptManifest } from "./engine/manifest.js";
import { BOOT_ORDER } from "./protocol.js";

/** Progress is told in steps of this share of the total, which is finer than a bar can show. */
const PROGRESS_STEPS = 200;

/** @type {{ name: string, postMessage(message: FromWorker): void } & Pick<EventTarget, "addEventListener">} */
const scope = /** @type {any} */ (globalThis);

const boot = BOOT_ORDER.find((name) => name === scope.name) ?? /** @type {BootName} */ (BOOT_ORDER[0]);

/** @param {Omit<Status, "kind" | "boot">} status */
function tell(status) {
  scope.postMessage({ kind: "status", boot, ...status });
}

/** @param {unknown} cause */
function tellFailure(cause) {
  tell({ stage: "failed", error: explain(cause), detail: String(cause) });
}

/**
 * The second boot asks for the manifest by a new address: one cause of a failed first boot is a kept copy of the
 * manifest that is older than the published files.
 *
 * @returns {Promise<EngineManifest>}
 */
async function loadManifest() {
  if (boot === BOOT_ORDER[0]) {
    return keptManifest;
  }
  const script = await import(`./engine/manifest.js?fresh=${Date.now()}`);
  return script.manifest;
}

/** @returns {Promise<Engine>} */
async function start() {
  tell({ stage: "download" });
  requireWebAssembly(globalThis);
  const manifest = await loadManifest();
  const { files, start: startBoot } = BOOTS[boot];
  let toldStep = 0;
  let settled = false;
  const downloads = new Downloads({
    base: new URL("engine/", import.meta.url),
    files: files(manifest),
    onProgress(loaded, total) {
      const step = Math.floor((loaded / total) * PROGRESS_STEPS);
      if (step > toldStep && !settled) {
        toldStep = step;
        tell({ stage: loaded < total ? "download" : "start", loaded, total });
      }
    },
  });
  const restore = interceptForPyodide(downloads);
  try {
    return await Promise.race([startBoot({ manifest, downloads }), downloads.failure]);
  } finally {
    settled = true;
    restore();
  }
}

/**
 * Pyodide fetches by itself, and when its WebAssembly cannot be instantiated it logs that and waits for ever. So
 * while it starts, its fetches are answered from the downloads and its failure is told to them.
 *
 * @param {Downloads} downloads
 * @returns {() => void} puts the browser's own functions back
 */
function interceptForPyodide(downloads) {
  const { fetch } = globalThis;
  const { instantiateStreaming } = WebAssembly;
  globalThis.fetch = downloads.fetch;
  WebAssembly.instantiateStreaming = (source, imports) => {
    const instantiated = instantiateStreaming(source, imports);
    instantiated.catch((cause) => downloads.fail(cause));
    return instantiated;
  };
  return () => {
    globalThis.fetch = fetch;
    WebAssembly.instantiateStreaming = instantiateStreaming;
  };
}

/**
 * @param {Engine} engine
 * @param {Call} call
 */
function answer(engine, { id, method, params, payload }) {
  const reply = JSON.parse(engine.call(JSON.stringify({ method, params }), payload));
  scope.postMessage(
    "error" in reply
      ? { kind: "failure", id, error: reply.error }
      : { kind: "result", id, value: reply.value },
  );
}

const starting = start();
starting.then(() => tell({ stage: "ready" }), tellFailure);

scope.addEventListener("message", async (event) => {
  const call = /** @type {MessageEvent<Call>} */ (event).data;
  try {
    answer(await starting, call);
  } catch (cause) {
    // The core answers every request, so this is the interpreter itself giving up: no later call can succeed.
    tellFailure(cause);
  }
});
