/**
 * Why the engine could not start, in one sentence with a next step. The codes are the page's; the sentences are
 * for the reader, so they name the file or the setting that stands in the way.
 *
 * @import { Problem } from "./protocol.js"
 */

/** A start that failed for a known reason. */
export class BootError extends Error {
  /**
   * @param {Problem} problem
   * @param {ErrorOptions} [options]
   */
  constructor(problem, options) {
    super(problem.message, options);
    this.name = "BootError";
    this.problem = problem;
  }
}

/** Reasons that no other way of starting Python gets round. */
export const FINAL_CODES = new Set(["no-webassembly", "wasm-blocked"]);

/**
 * @param {string} path of the file, as published
 * @param {number} status HTTP status
 * @returns {Problem}
 */
export function missingFile(path, status) {
  return {
    code: "engine-file",
    message: `The engine file ${path} could not be loaded: the server answered ${status}.`,
    hint: "Publish the whole dist folder again, then reload the page.",
  };
}

/**
 * @param {string} path of the file, as published
 * @returns {Problem}
 */
export function unreachableFile(path) {
  return {
    code: "engine-network",
    message: `The engine file ${path} could not be downloaded: the connection failed or the site's policy (connect-src) forbids it.`,
    hint: "Check the connection and reload the page.",
  };
}

/** @type {Problem} */
export const WORKER_BLOCKED = {
  code: "worker-blocked",
  message: "The browser could not start the engine's worker (engine-worker.js or a script it imports).",
  hint: "Check that engine-worker.js and the scripts beside it are published as text/javascript, and that the site's policy has worker-src 'self'. A frame that shows this page needs sandbox=\"allow-scripts allow-same-origin\".",
};

/**
 * @param {number} seconds
 * @param {string} doing what the engine was at
 * @returns {Problem}
 */
export function stalled(seconds, doing) {
  return {
    code: "engine-timeout",
    message: `The engine gave no sign of life for ${seconds} s while it was to ${doing}.`,
    hint: "Reload the page; files that have already arrived are kept by the browser.",
  };
}

/**
 * Refuses early where WebAssembly is missing or forbidden: Pyodide itself would wait for ever.
 *
 * @param {Pick<typeof globalThis, "WebAssembly"> | { WebAssembly?: undefined }} scope
 */
export function requireWebAssembly(scope) {
  if (scope.WebAssembly === undefined) {
    throw new BootError({
      code: "no-webassembly",
      message: "This browser has no WebAssembly, which the engine runs on.",
      hint: "Allow it (lockdown modes turn it off), use another browser, or plan in a terminal: pip install willitserve.",
    });
  }
  try {
    new scope.WebAssembly.Module(EMPTY_MODULE);
  } catch (cause) {
    throw new BootError(
      {
        code: "wasm-blocked",
        message: "The Content-Security-Policy of this site forbids WebAssembly, which the engine runs on.",
        hint: "Add 'wasm-unsafe-eval' to script-src in the policy that is sent with engine-worker.js.",
      },
      { cause },
    );
  }
}

/** "\0asm" and version 1: the shortest valid module. */
const EMPTY_MODULE = new Uint8Array([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]);

/**
 * @param {unknown} cause whatever was thrown while Python was starting or running
 * @returns {Problem}
 */
export function explain(cause) {
  if (cause instanceof BootError) {
    return cause.problem;
  }
  const text = cause instanceof Error ? `${cause.name}: ${cause.message}` : String(cause);
  if (/out of memory|could not allocate|MemoryError|memory access out of bounds/i.test(text)) {
    return {
      code: "out-of-memory",
      message: "The browser ran out of memory for the engine.",
      hint: "Close other tabs and reload the page, or plan in a terminal: pip install willitserve.",
    };
  }
  return {
    code: "engine-broken",
    message: `The engine stopped: ${lastLine(text)}`,
    hint: "Reload the page; if it happens again, report this sentence with the browser's name and version.",
  };
}

/**
 * The line of a Python traceback that says what happened is its last.
 *
 * @param {string} text
 */
function lastLine(text) {
  return text.trim().split("\n").at(-1)?.trim() ?? text;
}
