// The Hub's JSON about a model -> the few fields the page uses, or a HubError.

import { badAnswer, disabled } from "./hub-errors.js";
import { isModelId } from "./hub-reference.js";

/** @import { Asked } from "./hub-errors.js" */

/**
 * @typedef {{ name: string, size: number | null }} RepositoryFile size: bytes; null when the Hub does not say
 * @typedef {object} ModelInfo
 * @property {string} id the present id: a renamed or legacy one is answered under its new name
 * @property {string} sha the commit
 * @property {false | "auto" | "manual"} gated
 * @property {boolean} private
 * @property {RepositoryFile[]} files
 * @property {Record<string, number> | null} parameters elements by dtype, as the Hub counts; null when it did
 *   not
 */

/**
 * @param {string} text body of `/api/models/…?blobs=true`
 * @param {Asked} asked
 * @returns {ModelInfo}
 */
export function readModelInfo(text, asked) {
  const value = parsed(text);
  const { id, sha, siblings } = value;
  if (
    typeof id !== "string" ||
    !isModelId(id) ||
    typeof sha !== "string" ||
    !/^[0-9a-f]{40}$/.test(sha) ||
    !Array.isArray(siblings)
  ) {
    throw badAnswer(asked);
  }
  if (value.disabled === true) throw disabled({ ...asked, id });
  const { gated } = value;
  return {
    id,
    sha,
    gated: gated === "auto" || gated === "manual" ? gated : false,
    private: value.private === true,
    files: siblings.filter(isRecord).flatMap(readFile),
    parameters: readParameters(value.safetensors),
  };
}

/** @param {Record<string, unknown>} sibling @returns {RepositoryFile[]} */
function readFile({ rfilename, size }) {
  return typeof rfilename === "string" ? [{ name: rfilename, size: isCount(size) ? size : null }] : [];
}

/** @param {unknown} totals @returns {Record<string, number> | null} */
function readParameters(totals) {
  if (!isRecord(totals) || !isRecord(totals.parameters)) return null;
  const counts = Object.entries(totals.parameters);
  /** @type {Record<string, number>} */
  const parameters = {};
  for (const [dtype, count] of counts) {
    if (!isCount(count)) return null;
    parameters[dtype] = count;
  }
  return counts.length > 0 ? parameters : null;
}

/** @param {string} text @returns {Record<string, unknown>} an empty one when it is no JSON object */
function parsed(text) {
  try {
    const value = JSON.parse(text);
    return isRecord(value) ? value : {};
  } catch {
    return {};
  }
}

/** @param {unknown} value @returns {value is Record<string, unknown>} */
function isRecord(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** @param {unknown} value @returns {value is number} */
function isCount(value) {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}
