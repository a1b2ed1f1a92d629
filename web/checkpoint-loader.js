/**
 * From a model's name to a checkpoint that the core has taken in: listing, config and headers of the Hub. Headers that
 * very likely belong to it are read while Python still starts; what the core then chooses decides.
 * @import { EngineClient } from "./engine-client.js"
 * @import { HubClient } from "./hub.js"
 * @import { ModelInfo, RepositoryFile } from "./hub-model-info.js"
 * @import { ModelProgress } from "./view/load-status.js"
 */

import { guessShards, readHeaders } from "./hub-shards.js";

/**
 * @typedef {object} FileChoice the core's `choose_files`
 * @property {string} kind
 * @property {string[]} read names of the safetensors to read
 * @property {string[]} configs names of the JSON files to read
 * @property {string} sentence what was found and what to do
 * @property {{ name: string, reason: string }[]} ignored other files that hold weights
 *
 * @typedef {object} Opened a checkpoint that the core has taken in
 * @property {string} key under which the core knows it
 * @property {string | null} remark what was left aside, where the repository holds more than one set of weights
 *
 * @typedef {{ id: string, sha: string, gated: boolean, file_bytes: number | null, parameters: Record<string, number> }} HubTotals
 *   what the core can plan with before headers are in
 *
 * @typedef {object} Load
 * @property {Pick<EngineClient, "call">} engine
 * @property {HubClient} hub
 * @property {{ id: string, revision: string | null }} reference
 * @property {AbortSignal} signal
 * @property {(progress: ModelProgress) => void} onProgress
 * @property {(totals: HubTotals) => void} onTotals told as soon as the listing is there
 * @property {(key: string) => Opened | undefined} findOpened what the core still holds of earlier models
 */

export const CONFIG = "config.json";
export const QUANT_CONFIG = "hf_quant_config.json";
const INDEX = "model.safetensors.index.json";
/** About 120,000 tensors. Half a million make 60 MB, more than a page should fetch to tell two copies apart. */
const MAX_INDEX_BYTES = 16_000_000;

/** The repository has no set of weights that the core reads; the message is the core's sentence. */
export class NoCheckpointError extends Error {
  /** @param {FileChoice} choice */
  constructor({ kind, sentence }) {
    super(sentence);
    this.name = "NoCheckpointError";
    this.code = kind;
  }
}

/**
 * Reads a model into the core.
 * @param {Load} load
 * @returns {Promise<Opened>} rejected with a HubError, an EngineError, a NoCheckpointError or the signal's reason
 */
export async function loadCheckpoint({ engine, hub, reference, signal, onProgress, onTotals, findOpened }) {
  onProgress({ stage: "listing" });
  const info = await hub.modelInfo(reference.id, reference.revision, { signal });
  const opened = findOpened(keyOf(info));
  if (opened) return opened;
  const guess = guessShards(info.files);
  onTotals(totalsOf(info, guess));

  // Whatever fails first ends the others: nothing goes on reading for an answer that is not to come.
  const failed = new AbortController();
  const reading = AbortSignal.any([signal, failed.signal]);
  try {
    return await readInto(engine, new RepositoryReader(hub, info, reading, onProgress), info, guess, reading);
  } catch (error) {
    failed.abort(error);
    throw error;
  }
}

/**
 * @param {Load["engine"]} engine
 * @param {RepositoryReader} reader
 * @param {ModelInfo} info
 * @param {RepositoryFile[]} guess
 * @param {AbortSignal} signal
 * @returns {Promise<Opened>}
 */
async function readInto(engine, reader, info, guess, signal) {
  // Both go on by themselves; what fails in them is thrown below, where they are waited for.
  reader.readConfigs([CONFIG, QUANT_CONFIG]).catch(() => {});
  reader.readAhead(guess);
  const readIndex = (/** @type {string} */ name) => reader.readText(name, MAX_INDEX_BYTES);
  const { choice, remark } = await chooseFiles(engine, info.files, readIndex, signal);

  const configs = await reader.readConfigs([CONFIG, QUANT_CONFIG]);
  const key = keyOf(info);
  const checkpoint = {
    key,
    model_id: info.id,
    revision: info.sha,
    gated: info.gated !== false,
    config: configs.get(CONFIG) ?? null,
    hf_quant_config: configs.get(QUANT_CONFIG) ?? null,
    files: info.files,
    read: choice.read,
  };
  await engine.call("open_checkpoint", checkpoint, { signal });
  await reader.readAll(choice.read, async (file, bytes, fileSize) => {
    await engine.call("add_header", { key, file, file_size: fileSize }, { payload: bytes.buffer, signal });
  });
  return { key, remark };
}

/**
 * The set of files to read. Where the list of files leaves it open, the repository's index settles it.
 * @param {Pick<EngineClient, "call">} engine
 * @param {readonly RepositoryFile[]} files
 * @param {(name: string) => Promise<string>} readIndex
 * @param {AbortSignal} signal
 * @returns {Promise<{ choice: FileChoice, remark: string | null }>} rejected with a NoCheckpointError when there is no set
 */
export async function chooseFiles(engine, files, readIndex, signal) {
  /** @type {FileChoice} */
  let choice = await engine.call("choose_files", { files }, { signal });
  let remark = "";
  const isOpen = choice.configs.includes(INDEX);
  if (isOpen && (files.find(({ name }) => name === INDEX)?.size ?? 0) > MAX_INDEX_BYTES) {
    const limit = `${MAX_INDEX_BYTES / 1e6} MB that this page reads of an index`;
    remark = `${INDEX} is above the ${limit}: the set was told from the list of files.`;
  } else if (isOpen) {
    choice = await engine.call("choose_files", { files, index: await readIndex(INDEX) }, { signal });
  }
  if (choice.read.length === 0) throw new NoCheckpointError(choice);
  const isSaid = isOpen || choice.ignored.some(({ name }) => name.endsWith(".safetensors"));
  return { choice, remark: isSaid ? `${choice.sentence} ${remark}`.trim() : null };
}

/** @param {ModelInfo} info */
function keyOf({ id, sha }) {
  return `${id}@${sha}`;
}

/** @typedef {(file: string, bytes: Uint8Array<ArrayBuffer>, fileSize: number | null) => Promise<void>} OnHeader */

/** Files of one repository at one commit; headers that come before anyone takes them are kept until then. */
class RepositoryReader {
  #hub;
  #info;
  #signal;
  #onProgress;
  /** @type {Map<string, Promise<string>>} */
  #configs = new Map();
  /** @type {Set<string>} */
  #ahead = new Set();
  #stopAhead = new AbortController();
  /** @type {Promise<void>} */
  #aheadRead = Promise.resolve();
  /** @type {Map<string, { bytes: Uint8Array<ArrayBuffer>, fileSize: number | null }>} */
  #kept = new Map();
  /** @type {OnHeader | null} */
  #take = null;

  /**
   * @param {HubClient} hub
   * @param {ModelInfo} info
   * @param {AbortSignal} signal
   * @param {(progress: ModelProgress) => void} onProgress
   */
  constructor(hub, info, signal, onProgress) {
    this.#hub = hub;
    this.#info = info;
    this.#signal = signal;
    this.#onProgress = onProgress;
  }

  /**
   * Those of the named text files that the repository has; each is read once.
   * @param {readonly string[]} names
   * @returns {Promise<Map<string, string>>}
   */
  async readConfigs(names) {
    for (const name of names) {
      if (this.#configs.has(name) || !this.#info.files.some((file) => file.name === name)) continue;
      const text = this.readText(name);
      text.catch(() => {});
      this.#configs.set(name, text);
    }
    return new Map(
      await Promise.all(
        [...this.#configs].map(async ([name, text]) => /** @type {const} */ ([name, await text])),
      ),
    );
  }

  /**
   * @param {string} name
   * @param {number} [maxBytes]
   */
  readText(name, maxBytes) {
    const { id, sha } = this.#info;
    return this.#hub.text(id, sha, name, { signal: this.#signal, ...(maxBytes && { maxBytes }) });
  }

  /** @param {readonly RepositoryFile[]} guess */
  readAhead(guess) {
    this.#ahead = new Set(guess.map(({ name }) => name));
    this.#aheadRead = this.#read(guess, AbortSignal.any([this.#signal, this.#stopAhead.signal]));
    this.#aheadRead.catch(() => {});
  }

  /**
   * Hands over the header of every named file, those that were read ahead first.
   * @param {readonly string[]} names
   * @param {OnHeader} onHeader
   */
  async readAll(names, onHeader) {
    const missing = new Set(names);
    this.#take = async (name, bytes, fileSize) => {
      if (missing.delete(name)) await onHeader(name, bytes, fileSize);
    };
    for (const [name, { bytes, fileSize }] of this.#kept) await this.#take(name, bytes, fileSize);
    this.#kept.clear();
    if ([...this.#ahead].every((name) => names.includes(name))) await this.#aheadRead;
    else this.#stopAhead.abort();
    await this.#read(
      this.#info.files.filter(({ name }) => missing.has(name)),
      this.#signal,
    );
  }

  /**
   * @param {readonly RepositoryFile[]} files
   * @param {AbortSignal} signal
   */
  async #read(files, signal) {
    if (files.length === 0) return;
    this.#onProgress({ stage: "headers", done: 0, of: files.length, bytes: 0 });
    await readHeaders({
      client: this.#hub,
      id: this.#info.id,
      sha: this.#info.sha,
      files,
      signal,
      onHeader: (file, bytes, fileSize) => {
        if (this.#take) return this.#take(file.name, bytes, fileSize);
        this.#kept.set(file.name, { bytes, fileSize });
      },
      onProgress: ({ done, total, bytes }) => this.#onProgress({ stage: "headers", done, of: total, bytes }),
    });
  }
}

/**
 * @param {ModelInfo} info
 * @param {readonly RepositoryFile[]} guess
 * @returns {HubTotals}
 */
function totalsOf({ id, sha, gated, parameters }, guess) {
  let bytes = 0;
  for (const { size } of guess) bytes += size ?? Number.NaN;
  const known = guess.length > 0 && !Number.isNaN(bytes);
  return { id, sha, gated: gated !== false, file_bytes: known ? bytes : null, parameters: parameters ?? {} };
}
