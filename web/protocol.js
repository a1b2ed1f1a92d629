/**
 * The messages between the page and the engine's worker. Text and numbers cross by structured clone, the bytes
 * of a safetensors header by transfer; nothing of Python ever crosses.
 *
 * @typedef {"one-zip" | "packages"} BootName the way Python was started (page contract: `data-boot`)
 *
 * @typedef {object} Problem
 * @property {string} code stable, documented, tested
 * @property {string} message one sentence: what was found
 * @property {string} [hint] one sentence: what to do
 *
 * @typedef {{ kind: "call", id: number, method: string, params: object, payload?: ArrayBuffer }} Call
 * @typedef {{ kind: "result", id: number, value: unknown }} Result
 * @typedef {{ kind: "failure", id: number, error: Problem }} Failure
 *
 * @typedef {object} Status
 * @property {"status"} kind
 * @property {"download" | "start" | "ready" | "failed"} stage (page contract: `data-engine`)
 * @property {BootName} boot
 * @property {number} [loaded] bytes of engine files that have arrived, unpacked as the browser hands them over
 * @property {number} [total] bytes of all engine files of this boot
 * @property {string} [detail] for a reader who wants to know more
 * @property {Problem} [error] with stage "failed" only
 *
 * @typedef {Result | Failure | Status} FromWorker
 */

/** Ways to start Python, best first: each later one needs less of the browser and of the build. */
export const BOOT_ORDER = /** @type {readonly BootName[]} */ (Object.freeze(["one-zip", "packages"]));

/** What the core or the engine refused, rebuilt on the page's side. */
export class EngineError extends Error {
  /** @param {Problem} problem */
  constructor({ code, message, hint }) {
    super(message);
    this.name = "EngineError";
    /** Stable name of the problem, for code that tells problems apart. */
    this.code = code;
    /** What the reader can do, or undefined. */
    this.hint = hint;
  }
}

/**
 * The end of a switch over a closed set of messages: the type check fails when a kind was forgotten.
 *
 * @param {never} value
 * @param {string} message
 * @returns {never}
 */
export function unreachable(value, message) {
  throw new TypeError(`${message}: ${JSON.stringify(value)}`);
}
