/**
 * A model's folder on the reader's own computer, for what the Hub does not give: only headers and small JSON files are
 * read, nothing leaves the browser.
 * @import { EngineClient } from "./engine-client.js"
 * @import { Opened } from "./checkpoint-loader.js"
 * @import { ModelProgress } from "./view/load-status.js"
 */

import { CONFIG, chooseFiles, QUANT_CONFIG } from "./checkpoint-loader.js";

/** What the safetensors reference reader refuses: a longer header is none. */
const MAX_HEADER_BYTES = 100_000_000;
const LENGTH_BYTES = 8;
/** A folder of the Hub's download cache: `models--owner--name`. */
const CACHE_FOLDER = /^models--(.+?)--(.+)$/;

export class ModelFolder {
  /** @type {Map<string, File>} by path below the model's folder */
  #files = new Map();
  /** `owner/name` where the folder says it, else the folder's own name. */
  name = "";

  /** @param {Iterable<File>} files of a chosen folder, with their paths */
  constructor(files) {
    const all = [...files].map((file) => ({ file, path: file.webkitRelativePath.split("/") }));
    const marks = all.filter(({ file }) => file.name === CONFIG || file.name.endsWith(".safetensors"));
    const root = marks.map(({ path }) => path.slice(0, -1)).sort((a, b) => a.length - b.length)[0] ?? [];
    for (const { file, path } of all) {
      if (root.every((part, place) => path[place] === part))
        this.#files.set(path.slice(root.length).join("/"), file);
    }
    const cached = root.map((part) => CACHE_FOLDER.exec(part)).find((match) => match !== null);
    this.name = cached ? `${cached[1]}/${cached[2]}` : (root.at(-1) ?? all[0]?.path[0] ?? "folder");
  }

  /** Names and sizes, bytes. */
  get listing() {
    return [...this.#files].map(([name, { size }]) => ({ name, size }));
  }

  /**
   * A small text file; null where there is none.
   * @param {string} name
   */
  async text(name) {
    return (await this.#files.get(name)?.text()) ?? null;
  }

  /**
   * The 8-byte length and the header of a safetensors file, as much of it as the file has.
   * @param {string} name
   */
  async header(name) {
    const file = this.#files.get(name);
    if (file === undefined) throw new TypeError(`${name} is not in the folder`);
    const length = await file.slice(0, LENGTH_BYTES).arrayBuffer();
    const claimed =
      length.byteLength === LENGTH_BYTES ? Number(new DataView(length).getBigUint64(0, true)) : 0;
    const end = LENGTH_BYTES + Math.min(claimed, MAX_HEADER_BYTES);
    return { bytes: await file.slice(0, end).arrayBuffer(), fileSize: file.size };
  }
}

/**
 * Reads a folder into the core.
 * @param {object} load
 * @param {Pick<EngineClient, "call">} load.engine
 * @param {ModelFolder} load.folder
 * @param {AbortSignal} load.signal
 * @param {(progress: ModelProgress) => void} load.onProgress
 * @returns {Promise<Opened>} rejected with an EngineError, a NoCheckpointError or the signal's reason
 */
export async function loadFolder({ engine, folder, signal, onProgress }) {
  const files = folder.listing;
  const readIndex = async (/** @type {string} */ name) => (await folder.text(name)) ?? "";
  const { choice, remark } = await chooseFiles(engine, files, readIndex, signal);
  const key = `folder:${folder.name}`;
  const checkpoint = {
    key,
    model_id: folder.name,
    source: "folder",
    config: await folder.text(CONFIG),
    hf_quant_config: await folder.text(QUANT_CONFIG),
    files,
    read: choice.read,
  };
  await engine.call("open_checkpoint", checkpoint, { signal });
  let read = 0;
  for (const [done, name] of choice.read.entries()) {
    onProgress({ stage: "headers", done, of: choice.read.length, bytes: read });
    const { bytes, fileSize } = await folder.header(name);
    read += bytes.byteLength;
    await engine.call("add_header", { key, file: name, file_size: fileSize }, { payload: bytes, signal });
  }
  return { key, remark };
}
