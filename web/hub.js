// All that the page asks of the Hugging Face Hub: a model's description, its small JSON files, the headers of
// its safetensors files.
//
// Reads need no preflight (one plain `Range: bytes=a-b`), carry no cookie and no Referer. `resolve` sends
// each range to a signed address that is good for that very range: every read goes through `resolve` again,
// and the final address is never kept.

import { asText, headerLength, LENGTH_BYTES, promised, readBody } from "./hub-answer.js";
import {
  badFile,
  badPath,
  badRange,
  badToken,
  cdnUnreachable,
  errorOfAnswer,
  HubError,
  noRange,
  timedOut,
  tooLarge,
  truncated,
  unreachable,
} from "./hub-errors.js";
import { readModelInfo } from "./hub-model-info.js";
import { Backoff, IdleLimit, realClock } from "./hub-retry.js";

/** @import { ByteRange } from "./hub-answer.js" */
/** @import { Asked, HubErrorCode } from "./hub-errors.js" */
/** @import { ModelInfo } from "./hub-model-info.js" */
/** @import { Clock } from "./hub-retry.js" */

/**
 * @typedef {{ kind: "waiting", secondsLeft: number }} Waiting the Hub takes no more for now; all requests rest
 * @typedef {{ kind: "retry", code: HubErrorCode, path: string }} Retry this file is asked for again
 * @typedef {Waiting | Retry} HubEvent
 * @typedef {{ bytes: Uint8Array<ArrayBuffer>, fileSize: number | null }} Part
 *   fileSize: of the whole file, when the answer says it
 * @typedef {object} Header
 * @property {Uint8Array<ArrayBuffer>} bytes the 8-byte length N and the N bytes of the header, in an own
 *   buffer
 * @property {number | null} fileSize bytes
 * @property {number} requests how often the Hub was asked
 */

export const HUB_ENDPOINT = "https://huggingface.co";
export const FIRST_READ_BYTES = 65_536;
const MAX_MODEL_INFO_BYTES = 16_000_000;
const MAX_TEXT_BYTES = 4_000_000;
const MAX_ERROR_BYTES = 4_096;
const DEFAULT_IDLE_MS = 30_000;
const SERVER_ERROR_PAUSES_MS = [1_000, 4_000];
/** Another try through `resolve` gets another address, and perhaps another host. */
const CURED_BY_RESOLVE = new Set(["unreachable", "cdn-refused", "truncated"]);

export class HubClient {
  #endpoint;
  #fetch;
  #token;
  #onEvent;
  #clock;
  #idleMs;
  #backoff;
  /** @type {Promise<boolean> | null} */
  #hubAnswers = null;

  /**
   * @param {object} [options]
   * @param {string} [options.endpoint]
   * @param {typeof globalThis.fetch} [options.fetch]
   * @param {string | null} [options.token] goes to the endpoint in the Authorization header, and nowhere else
   * @param {(event: HubEvent) => void} [options.onEvent]
   * @param {Clock} [options.clock]
   * @param {number} [options.idleMs] how long a request may bring nothing
   */
  constructor({
    endpoint = HUB_ENDPOINT,
    fetch = (input, init) => globalThis.fetch(input, init),
    token = null,
    onEvent = () => {},
    clock = realClock,
    idleMs = DEFAULT_IDLE_MS,
  } = {}) {
    this.#endpoint = endpoint.replace(/\/+$/, "");
    this.#fetch = fetch;
    this.#token = token?.trim() || null;
    if (/[^\x21-\x7e]/.test(this.#token ?? "")) throw badToken(this.#asked("", null));
    this.#onEvent = onEvent;
    this.#clock = clock;
    this.#idleMs = idleMs;
    this.#backoff = new Backoff(clock, (secondsLeft) => onEvent({ kind: "waiting", secondsLeft }));
  }

  /**
   * Commit, files with sizes and totals of a model. Follows renames: from then on use the `id` of the answer.
   *
   * @param {string} id
   * @param {string | null} revision
   * @param {{ signal?: AbortSignal }} [options]
   * @returns {Promise<ModelInfo>}
   */
  async modelInfo(id, revision, { signal } = {}) {
    const asked = this.#asked(id, revision);
    const place = revision === null ? "" : `/revision/${encodeURIComponent(revision)}`;
    const url = `${this.#endpoint}/api/models/${encodedPath(id)}${place}?blobs=true`;
    return readModelInfo(asText(await this.#whole(url, asked, MAX_MODEL_INFO_BYTES, signal), asked), asked);
  }

  /**
   * A small text file, config.json and the like. A file that is not there is a HubError `no-file`.
   *
   * @param {string} id
   * @param {string} sha commit
   * @param {string} path
   * @param {{ signal?: AbortSignal, maxBytes?: number }} [options]
   * @returns {Promise<string>}
   */
  async text(id, sha, path, { signal, maxBytes = MAX_TEXT_BYTES } = {}) {
    const asked = this.#asked(id, sha, path);
    return asText(await this.#whole(this.#resolve(asked), asked, maxBytes, signal), asked);
  }

  /**
   * The header of one safetensors file, in one read when `firstRead` is enough and in two when not.
   *
   * @param {string} id
   * @param {string} sha commit
   * @param {string} path
   * @param {object} [options]
   * @param {number | null} [options.size] bytes of the file, when known
   * @param {number} [options.firstRead] bytes
   * @param {AbortSignal} [options.signal]
   * @param {(headerBytes: number) => void} [options.onLength] told N as soon as it is known
   * @returns {Promise<Header>}
   */
  async header(
    id,
    sha,
    path,
    { size = null, firstRead = FIRST_READ_BYTES, signal, onLength = () => {} } = {},
  ) {
    const asked = this.#asked(id, sha, path);
    const tally = { requests: 0 };
    const first = await this.#part(asked, { start: 0, end: firstRead - 1 }, size, tally, signal);
    const fileSize = first.fileSize ?? size;
    const needed = LENGTH_BYTES + headerLength(first.bytes, fileSize, asked);
    onLength(needed - LENGTH_BYTES);
    const got = first.bytes.length;
    if (got >= needed) return { bytes: first.bytes.slice(0, needed), fileSize, requests: tally.requests };
    if (got < firstRead)
      throw badFile(asked, `its header should end at byte ${needed} and the file at ${got}`);
    const rest = await this.#part(asked, { start: got, end: needed - 1 }, fileSize, tally, signal);
    if (got + rest.bytes.length < needed) throw truncated(asked);
    const bytes = new Uint8Array(needed);
    bytes.set(first.bytes);
    bytes.set(rest.bytes, got);
    return { bytes, fileSize, requests: tally.requests };
  }

  /** @param {string} id @param {string | null} revision @param {string} [path] @returns {Asked} */
  #asked(id, revision, path) {
    return {
      id,
      revision,
      ...(path === undefined ? {} : { path }),
      hasToken: this.#token !== null,
      endpoint: this.#endpoint,
    };
  }

  /** @param {Asked} asked */
  #resolve({ id, revision, path = "" }) {
    const place = `resolve/${encodeURIComponent(revision ?? "main")}/${encodedPath(path)}`;
    return `${this.#endpoint}/${encodedPath(id)}/${place}`;
  }

  /**
   * @param {string} url
   * @param {Asked} asked
   * @param {number} maxBytes
   * @param {AbortSignal | undefined} signal
   */
  #whole(url, asked, maxBytes, signal) {
    return this.#persist(asked, signal, { requests: 0 }, () =>
      this.#exchange(url, asked, {}, "default", signal, async (response, limit) => {
        if (response.status !== 200) throw await this.#errorOf(response, asked, limit);
        const bytes = await readBody(response, maxBytes, asked, limit);
        if (bytes !== null) return bytes;
        throw tooLarge(asked, asked.path ?? `The description of ${asked.id}`, maxBytes);
      }),
    );
  }

  /**
   * @param {Asked} asked
   * @param {ByteRange} range
   * @param {number | null} size
   * @param {{ requests: number }} tally
   * @param {AbortSignal | undefined} signal
   * @returns {Promise<Part>}
   */
  #part(asked, range, size, tally, signal) {
    const headers = { Range: `bytes=${range.start}-${range.end}` };
    // Chromium lets reads of one cacheable address wait for one another unless the cache is left out.
    return this.#persist(asked, signal, tally, () =>
      this.#exchange(this.#resolve(asked), asked, headers, "no-store", signal, async (response, limit) => {
        if (response.status === 200) throw noRange(asked);
        if (response.status !== 206) throw await this.#errorOf(response, asked, limit);
        const { partBytes, fileSize } = promised(response, range, size, asked);
        const bytes = await readBody(response, partBytes ?? range.end - range.start + 1, asked, limit);
        if (bytes === null) throw badRange(asked, "more bytes than were asked for");
        if (partBytes !== null && bytes.length < partBytes) throw truncated(asked);
        return { bytes, fileSize };
      }),
    );
  }

  /**
   * Try until it is answered, within limits: the Hub's whole rate window, two server errors, one read of a
   * file that broke off or was refused by a file server.
   *
   * @template T
   * @param {Asked} asked
   * @param {AbortSignal | undefined} signal
   * @param {{ requests: number }} tally
   * @param {() => Promise<T>} attempt
   * @returns {Promise<T>}
   */
  async #persist(asked, signal, tally, attempt) {
    let serverErrors = 0;
    let resolvedAgain = asked.path === undefined;
    for (;;) {
      await this.#backoff.wait(signal);
      const sentAt = this.#clock.now();
      tally.requests += 1;
      try {
        const value = await attempt();
        this.#backoff.accepted(sentAt);
        return value;
      } catch (error) {
        if (!(error instanceof HubError)) throw error;
        if (error.code === "rate-limited" && this.#backoff.refused(sentAt)) continue;
        const pause = error.code === "unavailable" ? SERVER_ERROR_PAUSES_MS[serverErrors] : undefined;
        if (pause !== undefined) {
          serverErrors += 1;
          this.#onEvent({ kind: "retry", code: error.code, path: asked.path ?? "" });
          await this.#clock.sleep(pause, signal);
        } else if (CURED_BY_RESOLVE.has(error.code) && !resolvedAgain) {
          resolvedAgain = true;
          this.#onEvent({ kind: "retry", code: error.code, path: asked.path ?? "" });
        } else {
          const mayBeFileServer = error.code === "unreachable" && asked.path !== undefined;
          if (!mayBeFileServer || !(await this.#hubIsReachable())) throw error;
          signal?.throwIfAborted();
          throw cdnUnreachable(asked, error.cause);
        }
      }
    }
  }

  /**
   * One request, from sending to the last byte that `use` reads of the answer.
   *
   * @template T
   * @param {string} url
   * @param {Asked} asked
   * @param {Record<string, string>} headers
   * @param {RequestCache} cache
   * @param {AbortSignal | undefined} signal
   * @param {(response: Response, limit: IdleLimit) => Promise<T>} use
   * @returns {Promise<T>}
   */
  async #exchange(url, asked, headers, cache, signal, use) {
    const limit = new IdleLimit(this.#idleMs, signal);
    /** @type {Response | undefined} */
    let response;
    try {
      response = await this.#fetch(url, {
        headers: this.#token === null ? headers : { ...headers, Authorization: `Bearer ${this.#token}` },
        cache,
        mode: "cors",
        credentials: "omit",
        referrerPolicy: "no-referrer",
        signal: limit.signal,
      });
      limit.progress();
      return await use(response, limit);
    } catch (error) {
      if (error instanceof HubError) throw error;
      signal?.throwIfAborted();
      if (limit.expired) throw timedOut(asked, this.#idleMs);
      // no reason is given: offline, a blocker, an answer without CORS headers, a refused preflight
      if (response === undefined && error instanceof TypeError) throw unreachable(asked, error);
      throw error;
    } finally {
      limit.end();
    }
  }

  /** @param {Response} response @param {Asked} asked @param {IdleLimit} limit */
  async #errorOf(response, asked, limit) {
    const body = await readBody(response, MAX_ERROR_BYTES, asked, limit);
    return errorOfAnswer(response, body === null ? "" : new TextDecoder().decode(body), asked);
  }

  /**
   * Whether the Hub itself answers, asked once for all reads that fail at the same time.
   * @returns {Promise<boolean>}
   */
  #hubIsReachable() {
    const url = `${this.#endpoint}/api/models?limit=1`;
    const answered = async () => true;
    this.#hubAnswers ??= this.#exchange(url, this.#asked("", null), {}, "no-store", undefined, answered)
      .catch(() => false)
      .finally(() => {
        this.#hubAnswers = null;
      });
    return this.#hubAnswers;
  }
}

/**
 * A path as part of an address, its slashes kept.
 * @param {string} path
 */
function encodedPath(path) {
  const segments = path.split("/");
  if (segments.some((segment) => segment === "" || segment === "." || segment === "..")) throw badPath(path);
  return segments.map(encodeURIComponent).join("/");
}
