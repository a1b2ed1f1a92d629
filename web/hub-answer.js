// What came from the Hub -> bytes, or a HubError.

import { badFile, badRange, notText, tooLarge, truncated } from "./hub-errors.js";

/** @import { Asked } from "./hub-errors.js" */
/** @import { IdleLimit } from "./hub-retry.js" */

/** @typedef {{ start: number, end: number }} ByteRange both ends are read, as in the Range header */

/** As much as huggingface_hub and huggingface.js read; real headers are about 115 bytes per tensor. */
export const MAX_HEADER_BYTES = 25_000_000;
/** What the safetensors reference reader refuses: nothing above it is a safetensors file. */
const FORMAT_MAX_HEADER_BYTES = 100_000_000;
/** Of the little-endian number N before the header. */
export const LENGTH_BYTES = 8;

/**
 * What a 206 says it holds. Not every server lets pages read Content-Range: then the length of the body has
 * to do.
 *
 * @param {Response} response
 * @param {ByteRange} range
 * @param {number | null} size of the whole file, when known
 * @param {Asked} asked
 * @returns {{ partBytes: number | null, fileSize: number | null }}
 */
export function promised(response, range, size, asked) {
  const text = response.headers.get("Content-Range");
  if (text === null) {
    return { partBytes: size === null ? null : Math.min(range.end + 1, size) - range.start, fileSize: null };
  }
  const match = /^bytes (\d+)-(\d+)\/(\d+|\*)$/.exec(text.trim());
  if (match === null) throw badRange(asked, `"${text}"`);
  const [start, end] = [Number(match[1]), Number(match[2])];
  const fileSize = match[3] === "*" ? null : Number(match[3]);
  if (start !== range.start || end > range.end || end < start)
    throw badRange(asked, `bytes ${start} to ${end}`);
  if (size !== null && fileSize !== null && fileSize !== size) {
    throw badRange(asked, `a file of ${fileSize} bytes where the Hub lists ${size}`);
  }
  return { partBytes: end - start + 1, fileSize };
}

/**
 * The body, or null when it is longer than `maxBytes`: then the rest is not fetched.
 *
 * @param {Response} response
 * @param {number} maxBytes
 * @param {Asked} asked
 * @param {IdleLimit} limit
 * @returns {Promise<Uint8Array<ArrayBuffer> | null>}
 */
export async function readBody(response, maxBytes, asked, limit) {
  /** @type {Uint8Array[]} */
  const chunks = [];
  let length = 0;
  const reader = response.body?.getReader();
  const next = () =>
    reader?.read().catch((cause) => {
      limit.signal.throwIfAborted();
      throw truncated(asked, cause);
    });
  for (let read = await next(); read !== undefined && !read.done; read = await next()) {
    limit.progress();
    length += read.value.length;
    if (length > maxBytes) {
      await reader?.cancel();
      return null;
    }
    chunks.push(read.value);
  }
  const body = new Uint8Array(length);
  let place = 0;
  for (const chunk of chunks) {
    body.set(chunk, place);
    place += chunk.length;
  }
  return body;
}

/**
 * N, the length of the header, from the first bytes of a file.
 *
 * @param {Uint8Array<ArrayBuffer>} bytes
 * @param {number | null} fileSize
 * @param {Asked} asked
 * @returns {number}
 */
export function headerLength(bytes, fileSize, asked) {
  if (bytes.length < LENGTH_BYTES) throw badFile(asked, `it is ${bytes.length} bytes long`);
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const length = view.getUint32(0, true) + view.getUint32(4, true) * 2 ** 32;
  if (length > FORMAT_MAX_HEADER_BYTES) throw badFile(asked, `it begins as ${kindOf(bytes)}`);
  if (fileSize !== null && LENGTH_BYTES + length > fileSize) {
    throw badFile(asked, `its header should be ${length} bytes and the whole file is ${fileSize}`);
  }
  if (length > MAX_HEADER_BYTES) {
    throw tooLarge(asked, `The header of ${asked.path}, ${length} bytes,`, MAX_HEADER_BYTES);
  }
  return length;
}

/** @param {Uint8Array<ArrayBuffer>} bytes */
function kindOf(bytes) {
  const beginning = new TextDecoder().decode(bytes.subarray(0, 64)).trimStart().toLowerCase();
  if (beginning.startsWith("version https://git-lfs"))
    return "a Git LFS pointer, in the place of the file itself";
  if (beginning.startsWith("<")) return "a web page";
  return "no safetensors file does, with a header length above 100 MB";
}

/**
 * @param {Uint8Array<ArrayBuffer>} bytes
 * @param {Asked} asked
 * @returns {string}
 */
export function asText(bytes, asked) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (cause) {
    throw notText(asked, cause);
  }
}
