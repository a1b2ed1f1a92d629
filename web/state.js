/**
 * The query string and the state of the page, both ways; nowhere else is a URL of the page read or written.
 * Values stay strings: the core decides what a number of users or a name of a card means.
 * @import { Problem } from "./report.d.ts"
 */

import { parseModelReference } from "./hub-reference.js";

/** Keys that the core plans with, in the order in which they stand in a URL. */
export const PLAN_KEYS = /** @type {const} */ ([
  "model",
  "gpu",
  "users",
  "context",
  "weights",
  "kv",
  "tp",
  "pp",
  "engine",
  "util",
  "seqs",
  "batched",
  "input",
  "output",
  "price",
  "mem",
  "dtype",
  "eager",
]);

/** Keys of the page itself: where the Hub is, and how the page is shown. They follow the others. */
export const PAGE_KEYS = /** @type {const} */ (["endpoint", "embed", "theme"]);

const KEYS = /** @type {const} */ ([...PLAN_KEYS, ...PAGE_KEYS]);

/** @typedef {typeof PLAN_KEYS[number]} PlanKey */
/** @typedef {typeof KEYS[number]} StateKey */
/** @typedef {Partial<Record<StateKey, string>>} State what the URL says: only keys that are set, never an empty string */

/** Longest value that is looked at, characters: a model id of the Hub has at most 96, an endpoint is a host. */
const MAX_VALUE_LENGTH = 200;
/** More pairs than this are not read: the page knows fewer keys. */
const MAX_PAIRS = 64;
/** Sentences about unknown keys; the rest is counted. */
const MAX_UNKNOWN_NAMED = 3;

/** Control characters, unpaired surrogates, the replacement character, and signs that turn the direction of text around. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
const UNREADABLE = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufffd]|\p{Cs}/u;

/** @param {string} key @returns {key is StateKey} */
const isKey = (key) => /** @type {readonly string[]} */ (KEYS).includes(key);

/**
 * Reads a query string. What cannot be used is reported, and the rest applies.
 * @param {string} search with or without its question mark
 * @returns {{ state: State, problems: Problem[] }}
 */
export function parseQuery(search) {
  /** @type {State} */
  const state = {};
  /** @type {Problem[]} */
  const problems = [];
  /** @type {string[]} */
  const unknown = [];
  /** @type {Set<string>} */
  const repeated = new Set();
  const pairs = [...new URLSearchParams(search)];
  for (const [key, value] of pairs.slice(0, MAX_PAIRS)) {
    if (!isKey(key)) {
      unknown.push(key);
      continue;
    }
    const text = value.trim();
    if (text === "") continue;
    if (state[key] !== undefined) {
      if (state[key] !== text) repeated.add(key);
      continue;
    }
    const problem = problemOf(key, text);
    if (problem) problems.push(problem);
    else state[key] = key === "model" ? modelName(text) : text;
  }
  for (const key of repeated) {
    problems.push({
      field: key,
      code: "repeated",
      sentence: `The link gives "${key}" more than once; the first value applies.`,
    });
  }
  for (const key of unknown.slice(0, MAX_UNKNOWN_NAMED)) {
    problems.push({
      field: key,
      code: "unknown-key",
      sentence: `The link has "${excerpt(key)}", which this page does not know; it is left out.`,
    });
  }
  const unnamed = unknown.length - MAX_UNKNOWN_NAMED + Math.max(0, pairs.length - MAX_PAIRS);
  if (unnamed > 0) {
    problems.push({
      field: "",
      code: "unknown-key",
      sentence: `The link has ${unnamed} more entries that are left out.`,
    });
  }
  return { state, problems };
}

/**
 * Writes the query string of a state: fixed order, defaults left out, readable.
 * @param {State} state
 * @param {Readonly<Record<string, string>>} [defaults] the value each key has when it is left out
 * @returns {string} with its question mark, or "?" for a state that is all defaults
 */
export function formatQuery(state, defaults = {}) {
  const parts = [];
  for (const key of KEYS) {
    const value = state[key];
    if (value !== undefined && value !== "" && value !== defaults[key]) parts.push(`${key}=${encode(value)}`);
  }
  return `?${parts.join("&")}`;
}

/**
 * A state with some keys set anew; an empty value takes the key out. Keys that the page does not know are passed over.
 * @param {State} state
 * @param {Readonly<Record<string, string>>} changes
 * @returns {State}
 */
export function withChanges(state, changes) {
  /** @type {State} */
  const next = { ...state };
  for (const [key, value] of Object.entries(changes)) {
    if (!isKey(key)) continue;
    const text = value.trim();
    if (text === "") delete next[key];
    else next[key] = text;
  }
  return next;
}

/**
 * What the core is asked: the keys that it plans with.
 * @param {State} state
 * @returns {Record<string, string>}
 */
export function planQuery(state) {
  /** @type {Record<string, string>} */
  const query = {};
  for (const key of PLAN_KEYS) {
    const value = state[key];
    if (value !== undefined) query[key] = value;
  }
  return query;
}

/**
 * A model as the core and the catalog name it: an address of the Hub by its id; what names no model stays as it is.
 * @param {string} text
 */
export function modelName(text) {
  const named = parseModelReference(text);
  return named.kind === "model" ? named.id + (named.revision === null ? "" : `@${named.revision}`) : text;
}

/**
 * Why a value cannot be used, where the page itself must know.
 * @param {StateKey} key
 * @param {string} value
 * @returns {Problem | null}
 */
function problemOf(key, value) {
  if (value.length > MAX_VALUE_LENGTH) {
    return {
      field: key,
      code: "too-long",
      sentence: `The value of "${key}" has ${value.length} characters; it is left out.`,
    };
  }
  if (UNREADABLE.test(value)) {
    return {
      field: key,
      code: "unreadable",
      sentence: `The value of "${key}" holds characters that cannot be shown; it is left out.`,
    };
  }
  switch (key) {
    case "embed":
      return value === "1"
        ? null
        : { field: key, code: "bad-value", sentence: `"embed" can only be 1, not "${excerpt(value)}".` };
    case "theme":
      return value === "light" || value === "dark"
        ? null
        : { field: key, code: "bad-value", sentence: `"theme" is light or dark, not "${excerpt(value)}".` };
    case "endpoint":
      return isEndpoint(value)
        ? null
        : {
            field: key,
            code: "bad-value",
            sentence: `"endpoint" must be an https address without a user name, not "${excerpt(value)}".`,
          };
    default:
      return null;
  }
}

/**
 * An https origin, or plain http on the reader's own machine.
 * @param {string} value
 */
function isEndpoint(value) {
  if (!URL.canParse(value)) return false;
  const url = new URL(value);
  if (url.username !== "" || url.password !== "" || url.search !== "" || url.hash !== "") return false;
  return url.protocol === "https:" || (url.protocol === "http:" && isLoopback(url));
}

/** @param {URL} url */
function isLoopback(url) {
  return url.hostname === "localhost" || url.hostname === "127.0.0.1" || url.hostname === "[::1]";
}

/**
 * The Hub that a state reads from, and whether a token may be sent there: to the Hub itself or to the reader's own
 * machine, never to an address that a link brought along.
 * @param {State} state
 * @param {string} hub the address of the Hub
 */
export function endpointOf(state, hub) {
  if (state.endpoint === undefined) return { endpoint: hub, takesToken: true };
  const url = new URL(state.endpoint);
  return { endpoint: state.endpoint, takesToken: url.origin === new URL(hub).origin || isLoopback(url) };
}

/** @param {string} value */
function encode(value) {
  return encodeURIComponent(value).replace(/%(2F|40|3A|2C)/g, decodeURIComponent);
}

/**
 * Foreign text inside a sentence: short, and without signs that would change how the sentence reads.
 * @param {string} text
 */
function excerpt(text) {
  const readable = [...text].filter((character) => !UNREADABLE.test(character));
  return readable.length > 40 ? `${readable.slice(0, 39).join("")}…` : readable.join("");
}
