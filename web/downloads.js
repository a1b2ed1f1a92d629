/**
 * The files of the engine on their way in: all started before anything waits, counted as they arrive, and handed
 * to Pyodide when it asks for them by the names it knows. They end with the worker: the page ends a worker that
 * has failed, so nothing here is stopped by a signal (Pyodide would leave each stopped download unhandled).
 *
 * @import { EngineFile } from "./engine/manifest.js"
 */

import { BootError, missingFile, unreachableFile } from "./boot-failure.js";

/**
 * @callback OnProgress
 * @param {number} loaded bytes
 * @param {number} total bytes
 */

/** @type {Promise<never>} */
const NEVER = new Promise(() => {});

export class Downloads {
  #base;
  #total;
  #onProgress;
  #fetch;
  #loaded = 0;
  /** @type {Map<string, () => Promise<Response>>} */
  #answers = new Map();
  /** @type {(reason: unknown) => void} */
  #fail;

  /**
   * @param {object} options
   * @param {URL} options.base folder that the files' paths start from
   * @param {readonly EngineFile[]} options.files all that this boot will need
   * @param {OnProgress} options.onProgress
   * @param {typeof globalThis.fetch} [options.fetch]
   */
  constructor({ base, files, onProgress, fetch = globalThis.fetch.bind(globalThis) }) {
    this.#base = base;
    this.#total = files.reduce((sum, file) => sum + file.bytes, 0);
    this.#onProgress = onProgress;
    this.#fetch = fetch;
    /** @type {(reason: unknown) => void} */
    let fail = () => {};
    /**
     * Rejects with the first failure of any file. Pyodide logs a failed download and waits for ever, so whoever
     * waits for Pyodide waits for this too.
     *
     * @type {Promise<never>}
     */
    this.failure = new Promise((_, reject) => {
      fail = reject;
    });
    this.failure.catch(() => {});
    this.#fail = fail;
  }

  /** @param {unknown} reason */
  fail(reason) {
    this.#fail(reason);
  }

  /** @param {EngineFile} file */
  url(file) {
    return new URL(file.path, this.#base);
  }

  /**
   * Starts one file.
   *
   * @param {EngineFile} file
   * @returns {Promise<Response>} always ok; rejected with a BootError
   */
  start(file) {
    return this.#failing(this.#load(file));
  }

  /**
   * Starts a file that was packed with gzip, whatever the host does about compression.
   *
   * @param {EngineFile} file
   * @returns {Promise<Response>} the unpacked file
   */
  startGzip(file) {
    return this.#failing(this.#loadGzip(file));
  }

  /**
   * Imports a script; it is counted when it is there, since the browser shows no part of it before.
   *
   * @template T
   * @param {EngineFile} file
   * @returns {Promise<T>}
   */
  importScript(file) {
    return this.#failing(this.#import(file));
  }

  /**
   * @param {string} name what Pyodide will ask for, in the engine's folder
   * @param {() => Promise<Response>} answer
   */
  answer(name, answer) {
    this.#answers.set(new URL(name, this.#base).href, answer);
  }

  /**
   * Stands in for the worker's `fetch` while Python starts: what was started here is not fetched twice. A failed
   * download is told by `failure` alone; Pyodide would let it go unhandled, so for Pyodide it stays open.
   *
   * @type {typeof globalThis.fetch}
   */
  fetch = (input, init) => {
    const url = new URL(input instanceof Request ? input.url : input, this.#base).href;
    const answer = this.#answers.get(url);
    return answer ? answer().catch(() => NEVER) : this.#fetch(input, init);
  };

  /**
   * Tells a failure to all who wait, also when nobody waits for this file yet or any more.
   *
   * @template T
   * @param {Promise<T>} started
   */
  #failing(started) {
    started.catch(this.#fail);
    return started;
  }

  /** @param {EngineFile} file */
  async #load(file) {
    const response = await this.#request(file);
    if (!response.ok) {
      await response.body?.cancel();
      throw new BootError(missingFile(file.path, response.status));
    }
    // A copy is counted and the response itself goes on: only a response straight from the network has its
    // compiled WebAssembly kept by the browser for the next visit.
    this.#failing(this.#countBody(response.clone().body, file));
    const isWasm = file.path.endsWith(".wasm");
    if (isWasm && response.headers.get("content-type") !== "application/wasm") {
      return new Response(response.body, { headers: { "content-type": "application/wasm" } });
    }
    return response;
  }

  /** @param {EngineFile} file */
  async #loadGzip(file) {
    const packed = await this.#load(file);
    const unpacked = new Response(packed.body?.pipeThrough(new DecompressionStream("gzip")));
    return new Response(await unpacked.arrayBuffer());
  }

  /** @param {EngineFile} file */
  async #import(file) {
    try {
      const script = await import(this.url(file).href);
      this.#count(file.bytes);
      return script;
    } catch (cause) {
      // A failed import does not say whether the script is missing or broken, so the server is asked again.
      const response = await this.#request(file);
      await response.body?.cancel();
      throw response.ok ? cause : new BootError(missingFile(file.path, response.status), { cause });
    }
  }

  /** @param {EngineFile} file */
  async #request(file) {
    try {
      return await this.#fetch(this.url(file));
    } catch (cause) {
      throw new BootError(unreachableFile(file.path), { cause });
    }
  }

  /**
   * @param {ReadableStream<Uint8Array> | null} body
   * @param {EngineFile} file
   */
  async #countBody(body, file) {
    const reader = body?.getReader();
    try {
      for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) {
        this.#count(part.value.byteLength);
      }
    } catch (cause) {
      throw new BootError(unreachableFile(file.path), { cause });
    }
  }

  /** @param {number} bytes */
  #count(bytes) {
    this.#loaded += bytes;
    this.#onProgress(Math.min(this.#loaded, this.#total), this.#total);
  }
}
