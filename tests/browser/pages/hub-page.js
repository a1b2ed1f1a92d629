// What the tests of the Hub reader call in the browser. Each gives {value} or {error}, beside the events on
// the way.

import { HubClient } from "../../../web/hub.js";
import { HubError } from "../../../web/hub-errors.js";
import { parseModelReference } from "../../../web/hub-reference.js";
import { guessShards, readHeaders } from "../../../web/hub-shards.js";

/** @import { HubEvent } from "../../../web/hub.js" */
/** @import { Clock } from "../../../web/hub-retry.js" */

/**
 * @typedef {object} Setting
 * @property {string} [token]
 * @property {string} [endpoint]
 * @property {number} [idleMs]
 * @property {number} [cancelAfterMs] of real time
 * @property {number} [cancelAfterEvents]
 */

/** A clock whose sleep takes no time and moves it. @returns {Clock & { slept: number[] }} */
function quickClock() {
  let now = 0;
  /** @type {number[]} */
  const slept = [];
  return {
    slept,
    now: () => now,
    sleep: async (ms, signal) => {
      signal?.throwIfAborted();
      slept.push(ms);
      await new Promise((resolve) => setTimeout(resolve));
      signal?.throwIfAborted();
      now += ms;
    },
  };
}

/** @param {BufferSource} bytes */
async function sha256(bytes) {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * @param {Setting} setting
 * @param {(client: HubClient, signal: AbortSignal) => Promise<unknown>} use
 */
async function attempt({ token, endpoint, idleMs, cancelAfterMs, cancelAfterEvents }, use) {
  const clock = quickClock();
  const controller = new AbortController();
  /** @type {HubEvent[]} */
  const events = [];
  if (cancelAfterMs !== undefined) setTimeout(() => controller.abort(), cancelAfterMs);
  try {
    const client = new HubClient({
      ...(token === undefined ? {} : { token }),
      ...(endpoint === undefined ? {} : { endpoint }),
      ...(idleMs === undefined ? {} : { idleMs }),
      clock,
      onEvent: (event) => {
        events.push(event);
        if (events.length === cancelAfterEvents) controller.abort();
      },
    });
    return { value: await use(client, controller.signal), events, slept: clock.slept };
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    const said = { name: error.name, message: error.message };
    const more = error instanceof HubError ? { code: error.code, hint: error.hint, link: error.link } : {};
    return { error: { ...said, ...more }, events, slept: clock.slept };
  }
}

const calls = {
  /** @param {{ id: string, revision?: string } & Setting} ask */
  info: ({ id, revision, ...setting }) =>
    attempt(setting, (client, signal) => client.modelInfo(id, revision ?? null, { signal })),

  /** @param {{ id: string, sha: string, path: string, maxBytes?: number } & Setting} ask */
  text: ({ id, sha, path, maxBytes, ...setting }) =>
    attempt(setting, (client, signal) =>
      client.text(id, sha, path, { signal, ...(maxBytes === undefined ? {} : { maxBytes }) }),
    ),

  /** @param {{ id: string, sha: string, path: string, size?: number, firstRead?: number } & Setting} ask */
  header: ({ id, sha, path, size, firstRead, ...setting }) =>
    attempt(setting, async (client, signal) => {
      const { bytes, fileSize, requests } = await client.header(id, sha, path, {
        size: size ?? null,
        signal,
        ...(firstRead === undefined ? {} : { firstRead }),
      });
      return { length: bytes.length, sha256: await sha256(bytes), fileSize, requests };
    }),

  /** From a pasted text to all headers. @param {{ reference: string } & Setting} ask */
  model: ({ reference, ...setting }) =>
    attempt(setting, async (client, signal) => {
      const named = parseModelReference(reference);
      if (named.kind === "problem") return named;
      const info = await client.modelInfo(named.id, named.revision, { signal });
      /** @type {{ name: string, length: number, sha256: string, fileSize: number | null }[]} */
      const headers = [];
      /** @type {{ done: number, total: number, bytes: number }[]} */
      const progress = [];
      await readHeaders({
        client,
        id: info.id,
        sha: info.sha,
        files: guessShards(info.files),
        onHeader: async ({ name }, bytes, fileSize) => {
          headers.push({ name, length: bytes.length, sha256: await sha256(bytes), fileSize });
        },
        onProgress: (step) => progress.push(step),
        signal,
      });
      return { info, headers, progress };
    }),
};

Object.assign(globalThis, { calls });
