/**
 * Keeps the answer in step with what is asked: which model is read, what the core knows of it so far, and one question
 * to the core at a time. Of the questions that wait only the latest is asked: a slider makes more than the core answers.
 * @import { Catalog, PlanReport } from "./report.d.ts"
 * @import { EngineClient } from "./engine-client.js"
 * @import { HubTotals, Opened } from "./checkpoint-loader.js"
 * @import { HubClient } from "./hub.js"
 * @import { ModelFolder } from "./model-folder.js"
 * @import { ModelProgress } from "./view/load-status.js"
 * @import { Trouble } from "./view/messages.js"
 */

import { loadCheckpoint, NoCheckpointError } from "./checkpoint-loader.js";
import { HubError } from "./hub-errors.js";
import { parseModelReference } from "./hub-reference.js";
import { loadFolder } from "./model-folder.js";
import { EngineError } from "./protocol.js";

/**
 * @typedef {object} PlannerEvents
 * @property {(report: PlanReport, isFinal: boolean) => void} onAnswer isFinal: nothing that is on its way would change it,
 *   except live headers in place of the catalog's
 * @property {() => void} onPending the answer now shown is to one of the earlier questions
 * @property {(trouble: Trouble | null) => void} onTrouble what keeps the model from being answered; null: nothing
 * @property {(notes: readonly Trouble[]) => void} onNotes what is good to know of how the model was read
 * @property {(progress: ModelProgress) => void} onProgress
 * @property {(gated: boolean) => void} onGated whether the model's files are gated
 *
 * @typedef {object} Reading what is known of the model that is asked about
 * @property {string} name as the query spells it
 * @property {ModelFolder | null} folder where it is on this computer
 * @property {AbortController} life
 * @property {Opened | null} opened once its headers are in
 * @property {HubTotals | null} totals
 * @property {boolean} inCatalog
 * @property {boolean} isOver reading has come to its end, well or not
 * @property {Trouble | null} failure
 */

/** Models that the core keeps at hand, the present one included: going back to one reads no header again. */
const MAX_OPENED = 4;

/** A text that names no model. */
class NameError extends Error {
  /** @param {{ message: string, hint: string }} problem */
  constructor({ message, hint }) {
    super(message);
    this.name = "NameError";
    this.hint = hint;
  }
}

export class Planner {
  #engine;
  #createHub;
  #events;
  #signal;
  /** @type {Promise<Catalog>} */
  #catalog;
  /** @type {Readonly<Record<string, string>>} */
  #query = {};
  /** @type {Reading | null} */
  #reading = null;
  /** Whether live headers are read for models that the catalog answers. */
  #readsLive;
  /** @type {Map<string, Opened>} by key, the one longest not used first */
  #opened = new Map();
  #isAsking = false;
  #askAgain = false;

  /**
   * @param {object} options
   * @param {Pick<EngineClient, "call">} options.engine
   * @param {() => HubClient} options.createHub with the endpoint and token that are set now
   * @param {boolean} options.readsLive whether the Hub is read for models that the catalog answers
   * @param {PlannerEvents} options.events
   * @param {AbortSignal} options.signal ends everything
   */
  constructor({ engine, createHub, readsLive, events, signal }) {
    this.#engine = engine;
    this.#createHub = createHub;
    this.#readsLive = readsLive;
    this.#events = events;
    this.#signal = signal;
    this.#catalog = engine.call("catalog", {}, { signal });
    this.#catalog.catch(() => {});
  }

  /** What the core can plan with; rejected when the engine does not start. */
  get catalog() {
    return this.#catalog;
  }

  /**
   * Asks anew; a change of the model starts reading it.
   * @param {Readonly<Record<string, string>>} query
   * @param {ModelFolder | null} [folder] where the model is on this computer, instead of on the Hub
   */
  ask(query, folder = null) {
    this.#query = query;
    const name = query.model ?? "";
    if (this.#reading?.name !== name || this.#reading.folder !== folder) this.#start(name, folder);
    this.#events.onPending();
    void this.#plan();
  }

  /** Reads the model again, with another token perhaps. */
  reload() {
    if (this.#reading === null) return;
    this.#start(this.#reading.name, this.#reading.folder);
    this.#events.onPending();
    void this.#plan();
  }

  /**
   * @param {string} name
   * @param {ModelFolder | null} folder
   */
  #start(name, folder) {
    this.#reading?.life.abort();
    /** @type {Reading} */
    const reading = {
      name,
      folder,
      life: new AbortController(),
      opened: null,
      totals: null,
      inCatalog: false,
      isOver: false,
      failure: null,
    };
    this.#reading = reading;
    this.#events.onTrouble(null);
    this.#events.onNotes([]);
    this.#events.onGated(false);
    this.#events.onProgress({ stage: "none" });
    void this.#read(reading);
  }

  /** @param {Reading} reading */
  async #read(reading) {
    const signal = AbortSignal.any([this.#signal, reading.life.signal]);
    const lookedUp = reading.folder === null ? this.#lookUp(reading, signal) : null;
    try {
      reading.opened = await this.#load(reading, signal);
    } catch (error) {
      if (signal.aborted) return;
      reading.failure = troubleOf(error);
      if (isGated(error)) this.#events.onGated(true);
      // Whether a failure matters depends on the catalog, which comes with the engine.
      await lookedUp;
    }
    if (!signal.aborted) this.#endReading(reading);
  }

  /**
   * @param {Reading} reading
   * @param {AbortSignal} signal
   * @returns {Promise<Opened | null>} null: there is nothing to read
   */
  async #load(reading, signal) {
    const engine = this.#engine;
    const onProgress = (/** @type {ModelProgress} */ progress) => {
      if (!signal.aborted) this.#events.onProgress(progress);
    };
    if (reading.folder !== null) return loadFolder({ engine, folder: reading.folder, signal, onProgress });
    if (reading.name === "") return null;
    const reference = parseModelReference(reading.name);
    if (reference.kind === "problem") throw new NameError(reference);
    if (!this.#readsLive && (await this.#isInCatalog(reading.name))) return null;
    return loadCheckpoint({
      engine,
      hub: this.#createHub(),
      reference,
      signal,
      onProgress,
      onTotals: (totals) => {
        reading.totals = totals;
        this.#events.onGated(totals.gated);
        void this.#plan();
      },
      findOpened: (key) => this.#opened.get(key),
    });
  }

  /**
   * Notes what the core has taken in, and lets it forget what was longest not asked for.
   * @param {Opened} opened
   */
  #keep(opened) {
    this.#opened.delete(opened.key);
    this.#opened.set(opened.key, opened);
    const [oldest] = this.#opened.keys();
    if (this.#opened.size <= MAX_OPENED || oldest === undefined) return;
    this.#opened.delete(oldest);
    this.#engine.call("drop", { key: oldest }, { signal: this.#signal }).catch(() => {});
  }

  /**
   * @param {Reading} reading
   * @param {AbortSignal} signal
   */
  async #lookUp(reading, signal) {
    const found = await this.#isInCatalog(reading.name).catch(() => false);
    if (signal.aborted || !found) return;
    reading.inCatalog = true;
    void this.#plan();
  }

  /** @param {Reading} reading */
  #endReading(reading) {
    const { opened, failure, inCatalog } = reading;
    reading.isOver = true;
    if (opened !== null) this.#keep(opened);
    this.#events.onProgress({ stage: "done" });
    const notes = [
      opened?.remark,
      inCatalog && failure !== null ? `The Hub was not read: ${failure.message}` : null,
    ];
    this.#events.onNotes(notes.flatMap((message) => (message ? [{ message, quiet: true }] : [])));
    if (!inCatalog) this.#events.onTrouble(failure);
    void this.#plan();
  }

  /**
   * Whether the catalog describes a model at the revision asked for.
   * @param {string} name
   */
  async #isInCatalog(name) {
    const reference = parseModelReference(name);
    if (reference.kind === "problem") return false;
    const { models } = await this.#catalog;
    const entry = models.find(({ id }) => id.toLowerCase() === reference.id.toLowerCase());
    return entry !== undefined && (reference.revision === null || entry.revision === reference.revision);
  }

  async #plan() {
    if (this.#isAsking) {
      this.#askAgain = true;
      return;
    }
    this.#isAsking = true;
    do {
      this.#askAgain = false;
      await this.#planOnce();
    } while (this.#askAgain);
    this.#isAsking = false;
  }

  async #planOnce() {
    const reading = this.#reading;
    if (reading === null || !hasAnswer(reading)) return;
    const { totals, life } = reading;
    const key = reading.opened?.key ?? null;
    const signal = AbortSignal.any([this.#signal, life.signal]);
    const isWhole = key !== null || reading.inCatalog || reading.isOver;
    try {
      /** @type {PlanReport} */
      const report = await this.#engine.call(
        "plan",
        { query: this.#query, checkpoint: key, hub: key !== null || reading.inCatalog ? null : totals },
        { signal },
      );
      this.#events.onAnswer(report, isWhole && !this.#askAgain);
    } catch (error) {
      if (!signal.aborted) this.#events.onTrouble(troubleOf(error));
    }
  }
}

/**
 * Whether the core has something to plan with, or will never have more.
 * @param {Reading} reading
 */
function hasAnswer({ opened, totals, inCatalog, isOver }) {
  return opened !== null || totals !== null || inCatalog || isOver;
}

/** @param {unknown} error @returns {Trouble} */
function troubleOf(error) {
  if (error instanceof HubError) return { message: error.message, hint: error.hint, link: error.link };
  if (error instanceof EngineError || error instanceof NameError) {
    return { message: error.message, hint: error.hint ?? "" };
  }
  if (error instanceof NoCheckpointError) return { message: error.message };
  const what = error instanceof Error ? error.message : String(error);
  return {
    message: `The page itself failed: ${what}.`,
    hint: "Reload it; if it happens again, report this sentence.",
  };
}

/** @param {unknown} error */
function isGated(error) {
  return error instanceof HubError && ["gated", "gated-not-approved", "bad-token"].includes(error.code);
}
