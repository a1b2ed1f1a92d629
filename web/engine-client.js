/**
 * The page's side of the engine: starts the worker, falls back to the next way of starting Python when one
 * fails, and turns calls into promises.
 *
 * @import { BootName, Call, FromWorker, Problem, Status } from "./protocol.js"
 */

import { explain, FINAL_CODES, stalled, WORKER_BLOCKED } from "./boot-failure.js";
import { BOOT_ORDER, EngineError, unreachable } from "./protocol.js";

/** Without a message from the worker for this long, a boot counts as failed. Any progress starts it anew. */
const STALL_TIMEOUT_MS = 60_000;

/**
 * The part of a Worker that is used here, so that a test can stand in for it.
 *
 * @typedef {Pick<Worker, "postMessage" | "terminate" | "addEventListener">} WorkerLike
 *
 * @typedef {object} EngineOptions
 * @property {(status: Status) => void} [onStatus] told of every step of the start, and of its end
 * @property {URL | string} [workerUrl] another worker script; it must be of the page's own origin
 * @property {(boot: BootName) => WorkerLike} [createWorker] another way to make the worker
 * @property {number} [stallTimeoutMs]
 *
 * @typedef {object} CallOptions
 * @property {ArrayBuffer} [payload] bytes for the core; transferred, so the caller's buffer is empty afterwards
 * @property {AbortSignal} [signal] rejects the call at once; a late reply is dropped (Python is not interrupted)
 *
 * @typedef {object} Pending
 * @property {Call} call
 * @property {boolean} sent
 * @property {(value: any) => void} resolve
 * @property {(reason: unknown) => void} reject
 * @property {AbortController} settled ends the call's own abort listener
 */

export class EngineClient {
  /** @type {Required<Pick<EngineOptions, "onStatus" | "createWorker" | "stallTimeoutMs">>} */
  #options;
  /** @type {BootName[]} */
  #bootsLeft = [...BOOT_ORDER];
  /** @type {WorkerLike | undefined} */
  #worker;
  /** Ends the listeners of the worker that is now in use. */
  #workerLife = new AbortController();
  /** @type {Status} */
  #status = { kind: "status", stage: "download", boot: /** @type {BootName} */ (BOOT_ORDER[0]) };
  /** @type {Problem | undefined} */
  #firstCause;
  /** @type {Map<number, Pending>} */
  #pending = new Map();
  #lastId = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #stallTimer;

  /** @param {EngineOptions} [options] */
  constructor({ onStatus, workerUrl, createWorker, stallTimeoutMs } = {}) {
    const url = workerUrl ?? new URL("engine-worker.js", import.meta.url);
    this.#options = {
      onStatus: onStatus ?? (() => {}),
      // The worker's name tells it how to start: a query string would make a second copy in the browser's cache.
      createWorker: createWorker ?? ((boot) => new Worker(url, { type: "module", name: boot })),
      stallTimeoutMs: stallTimeoutMs ?? STALL_TIMEOUT_MS,
    };
    this.#startNext();
  }

  /** The last status that was told. */
  get status() {
    return this.#status;
  }

  /**
   * Calls the core. Calls made before the engine is ready wait for it.
   *
   * @template [T=unknown]
   * @param {string} method
   * @param {object} [params]
   * @param {CallOptions} [options]
   * @returns {Promise<T>} rejected with an EngineError, or with the signal's reason
   */
  call(method, params = {}, { payload, signal } = {}) {
    if (signal?.aborted) {
      return Promise.reject(signal.reason);
    }
    if (this.#status.stage === "failed") {
      return Promise.reject(this.#terminalError());
    }
    return new Promise((resolve, reject) => {
      const id = ++this.#lastId;
      const settled = new AbortController();
      const abort = () => {
        this.#pending.delete(id);
        reject(signal?.reason);
      };
      signal?.addEventListener("abort", abort, { once: true, signal: settled.signal });
      /** @type {Call} */
      const call = { kind: "call", id, method, params, ...(payload && { payload }) };
      this.#pending.set(id, { call, sent: false, resolve, reject, settled });
      if (this.#status.stage === "ready") {
        this.#sendWaiting();
      }
    });
  }

  /** Stops the worker for good; calls that are open are rejected. */
  close() {
    if (this.#status.stage !== "failed") {
      this.#end({ code: "engine-closed", message: "The engine was closed.", hint: "Reload the page." });
    }
  }

  /** @param {Problem} [previous] why the boot before this one failed */
  #startNext(previous) {
    const boot = this.#bootsLeft.shift();
    if (boot === undefined) {
      this.#end(previous ?? WORKER_BLOCKED);
      return;
    }
    /** @type {Status} */
    const status = { kind: "status", stage: "download", boot };
    this.#tell(previous ? { ...status, detail: `Trying another way to start: ${previous.message}` } : status);
    this.#workerLife = new AbortController();
    const { signal } = this.#workerLife;
    let spoke = false;
    try {
      this.#worker = this.#options.createWorker(boot);
    } catch {
      this.#bootFailed(WORKER_BLOCKED);
      return;
    }
    this.#worker.addEventListener(
      "message",
      (event) => {
        spoke = true;
        this.#receive(/** @type {MessageEvent<FromWorker>} */ (event).data);
      },
      { signal },
    );
    this.#worker.addEventListener(
      "error",
      (event) => {
        event.preventDefault();
        // A worker that never spoke did not run at all; the browser does not tell a script why.
        this.#bootFailed(spoke ? explain(/** @type {ErrorEvent} */ (event).message) : WORKER_BLOCKED);
      },
      { signal },
    );
    this.#watchForStall();
  }

  /** @param {FromWorker} message */
  #receive(message) {
    switch (message.kind) {
      case "status":
        this.#receiveStatus(message);
        break;
      case "result":
        this.#settle(message.id)?.resolve(message.value);
        break;
      case "failure":
        this.#settle(message.id)?.reject(new EngineError(message.error));
        break;
      default:
        unreachable(message, "message of an unknown kind from the engine");
    }
  }

  /** @param {Status} status */
  #receiveStatus(status) {
    if (status.stage === "failed") {
      this.#bootFailed(status.error ?? explain(status.detail));
      return;
    }
    this.#tell(status);
    if (status.stage === "ready") {
      clearTimeout(this.#stallTimer);
      this.#sendWaiting();
    } else {
      this.#watchForStall();
    }
  }

  #watchForStall() {
    clearTimeout(this.#stallTimer);
    const ms = this.#options.stallTimeoutMs;
    this.#stallTimer = setTimeout(() => {
      const doing = this.#status.stage === "start" ? "start Python" : "download its files";
      this.#bootFailed(stalled(ms / 1000, doing));
    }, ms);
  }

  /** @param {Problem} problem */
  #bootFailed(problem) {
    if (this.#status.stage === "ready" || FINAL_CODES.has(problem.code)) {
      this.#end(problem);
      return;
    }
    this.#firstCause ??= problem;
    this.#stopWorker();
    this.#startNext(problem);
  }

  /** @param {Problem} problem */
  #end(problem) {
    this.#stopWorker();
    const cause = this.#status.stage === "ready" ? problem : (this.#firstCause ?? problem);
    this.#firstCause = cause;
    const { boot } = this.#status;
    const detail = cause === problem ? {} : { detail: `${boot}: ${problem.message}` };
    this.#tell({ kind: "status", stage: "failed", boot, error: cause, ...detail });
    for (const id of [...this.#pending.keys()]) {
      this.#settle(id)?.reject(this.#terminalError());
    }
  }

  #stopWorker() {
    clearTimeout(this.#stallTimer);
    this.#workerLife.abort();
    this.#worker?.terminate();
    this.#worker = undefined;
  }

  #terminalError() {
    return new EngineError(this.#status.error ?? WORKER_BLOCKED);
  }

  /** @param {Status} status */
  #tell(status) {
    this.#status = status;
    this.#options.onStatus(status);
  }

  #sendWaiting() {
    for (const pending of this.#pending.values()) {
      if (!pending.sent) {
        pending.sent = true;
        const { call } = pending;
        this.#worker?.postMessage(call, call.payload ? [call.payload] : []);
      }
    }
  }

  /** @param {number} id */
  #settle(id) {
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    pending?.settled.abort();
    return pending;
  }
}
