// The headers of a sharded checkpoint: which files to read ahead, how much of each, how many at a time.

import { FIRST_READ_BYTES, HubClient } from "./hub.js";

/** @import { RepositoryFile } from "./hub-model-info.js" */

/**
 * @callback OnHeader
 * @param {RepositoryFile} file
 * @param {Uint8Array<ArrayBuffer>} bytes the 8-byte length and the header; its buffer may be transferred
 * @param {number | null} fileSize bytes
 * @returns {void | Promise<void>}
 */
/**
 * @typedef {{ done: number, total: number, bytes: number }} Progress bytes: of the headers that came so far
 */

const NUMBERED_SHARD = /^model[_-](\d{5})-of-(\d{5,6})\.safetensors$/;
export const MAX_CONCURRENCY = 16;
/** So few files are read all at once: waiting for the first would cost more than the bytes it saves. */
const SMALL_SET = 4;
const SPARE_BYTES = 1_024;
const MIN_READ_BYTES = 8_192;

/**
 * The files that very likely are the checkpoint, to be read while the planning core starts. The core's
 * `choose_files` decides; a file that it wants and this does not is read then. Empty when nothing is likely.
 *
 * @param {readonly RepositoryFile[]} files
 * @returns {RepositoryFile[]}
 */
export function guessShards(files) {
  const single = files.filter(({ name }) => name === "model.safetensors");
  const numbered = files
    .filter(({ name }) => NUMBERED_SHARD.test(name))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  const totals = new Set(numbered.map(({ name }) => Number(NUMBERED_SHARD.exec(name)?.[2])));
  const isWhole = totals.size === 1 && totals.has(numbered.length);
  const hasIndex = files.some(({ name }) => name === "model.safetensors.index.json");
  return isWhole && (hasIndex || single.length === 0) ? numbered : single;
}

/**
 * How much of the next file to ask for, when the headers of such files are up to `seenHeaderBytes` long.
 * Too little costs one more request; spare bytes cost little as long as they are few beside the header.
 *
 * @param {number} seenHeaderBytes 0: none was seen
 * @returns {number}
 */
export function readSize(seenHeaderBytes) {
  if (seenHeaderBytes === 0) return FIRST_READ_BYTES;
  return Math.max(MIN_READ_BYTES, 8 + seenHeaderBytes + Math.ceil(seenHeaderBytes / 10) + SPARE_BYTES);
}

/**
 * Read the headers of these files and hand each over as it comes; none is kept. The first error ends the
 * other reads and is thrown.
 *
 * The first and the last shard (embeddings, a head, a vision tower) are unlike the others, so a middle one is
 * read first and sets the size of the reads that follow: one request for nearly every shard.
 *
 * @param {object} options
 * @param {HubClient} options.client
 * @param {string} options.id
 * @param {string} options.sha commit
 * @param {readonly RepositoryFile[]} options.files in the order of their numbers
 * @param {OnHeader} options.onHeader
 * @param {(progress: Progress) => void} [options.onProgress]
 * @param {number} [options.concurrency] at most 16
 * @param {AbortSignal} [options.signal]
 * @returns {Promise<void>}
 */
export async function readHeaders({
  client,
  id,
  sha,
  files,
  onHeader,
  onProgress = () => {},
  concurrency = MAX_CONCURRENCY,
  signal,
}) {
  const ended = new AbortController();
  const end = () => ended.abort(signal?.reason);
  signal?.throwIfAborted();
  signal?.addEventListener("abort", end, { once: true });
  const middle = Math.floor(files.length / 2);
  const last = files.length - 1;
  const progress = { done: 0, total: files.length, bytes: 0 };
  let seen = 0;

  /** @param {number} place @param {() => void} [onSized] */
  const read = async (place, onSized = () => {}) => {
    const file = files[place];
    if (file === undefined) return;
    const isInner = place > 0 && place < last;
    const { bytes, fileSize } = await client.header(id, sha, file.name, {
      size: file.size,
      firstRead: isInner ? readSize(seen) : Math.max(FIRST_READ_BYTES, readSize(seen)),
      signal: ended.signal,
      onLength: (headerBytes) => {
        if (isInner) seen = Math.max(seen, headerBytes);
        onSized();
      },
    });
    ended.signal.throwIfAborted();
    progress.done += 1;
    progress.bytes += bytes.length;
    await onHeader(file, bytes, fileSize);
    onProgress({ ...progress });
  };

  const isSmall = files.length <= SMALL_SET;
  const order = isSmall
    ? [...files.keys()]
    : new Set([last, ...files.keys()].filter((place) => place !== middle));
  const queue = order.values();
  const work = async () => {
    for (const place of queue) await read(place);
  };
  const workers = Math.min(concurrency, MAX_CONCURRENCY);

  try {
    if (isSmall) {
      await Promise.all(Array.from({ length: workers }, work));
    } else {
      /** @type {Promise<void[]> | undefined} */
      let others;
      await read(middle, () => {
        others = Promise.all(Array.from({ length: workers - 1 }, work));
        others.catch((error) => ended.abort(error));
      });
      await Promise.all([others, work()]);
    }
  } catch (error) {
    ended.abort(error);
    throw error;
  } finally {
    signal?.removeEventListener("abort", end);
  }
}
