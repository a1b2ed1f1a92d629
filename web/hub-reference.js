// A typed or pasted text -> the model it names.

/**
 * @typedef {{ kind: "model", id: string, revision: string | null }} ModelReference
 * @typedef {"empty" | "dataset" | "space" | "other-site" | "not-a-model" | "bad-id" | "bad-revision"} ProblemCode
 * @typedef {{ kind: "problem", code: ProblemCode, message: string, hint: string }} ReferenceProblem
 */

const HUB_HOSTS = new Set(["huggingface.co", "www.huggingface.co", "hf.co", "www.hf.co"]);
/** Path segments that follow a repository's id in an address; true: a revision follows. */
const INSIDE_A_REPOSITORY = new Map([
  ["tree", true],
  ["blob", true],
  ["resolve", true],
  ["raw", true],
  ["blame", true],
  ["commits", true],
  ["commit", true],
  ["revision", true],
  ["discussions", false],
  ["settings", false],
]);
/** First path segments that are pages of the Hub, not owners of models. */
const PAGES = new Set([
  ...[
    "api",
    "blog",
    "chat",
    "collections",
    "docs",
    "enterprise",
    "inference",
    "join",
    "learn",
    "login",
    "models",
    "new",
  ],
  ...["organizations", "papers", "posts", "pricing", "search", "settings", "support", "tasks"],
]);
const NAME = /^[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,94}[A-Za-z0-9_])?$/;
/** What git refuses in the name of a ref. */
const BAD_REVISION = /[\p{Cc}\p{Cf}\s~^:?*[\\<>"'`{}|]|\.\.|\/\/|^[/.-]|[/.]$|\.lock$/u;
const MAX_REVISION_LENGTH = 255;
/** hf://owner/name@revision/path/of/a/file, where only a `refs/…` revision has slashes of its own. */
const HF_SCHEME =
  /^hf:\/*(?:models\/)?(?!datasets\/|spaces\/)([^/@]+\/[^/@]+)(?:@(refs\/[^/]+\/[^/]+|[^/]*))?(?:\/.*)?$/i;

const EXAMPLE =
  "Write it as owner/name, for example Qwen/Qwen3-8B, or paste the address of its page on huggingface.co.";

/**
 * The model that a text names: `owner/name` or a legacy `gpt2`, either with `@revision`; `hf://…`; or any
 * address of a model on the Hub.
 *
 * @param {string} text
 * @returns {ModelReference | ReferenceProblem}
 */
export function parseModelReference(text) {
  const trimmed = text.trim();
  if (trimmed === "") return problem("empty", "No model is given.", EXAMPLE);
  const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(trimmed)?.[1]?.toLowerCase();
  if (scheme === "http" || scheme === "https") return parseAddress(trimmed);
  if (scheme === "hf") {
    const [, id, revision = null] = HF_SCHEME.exec(trimmed) ?? [];
    return id === undefined
      ? parseRepository(trimmed.replace(/^hf:\/*/i, "").split("/"))
      : checked(id, revision);
  }
  if (scheme !== undefined) return problem("bad-id", `"${shown(trimmed)}" does not name a model.`, EXAMPLE);
  const host = trimmed.split("/", 1)[0]?.toLowerCase() ?? "";
  if (HUB_HOSTS.has(host)) return parseAddress(`https://${trimmed}`);
  const at = trimmed.indexOf("@");
  if (at !== -1) return checked(trimmed.slice(0, at), trimmed.slice(at + 1));
  return parseRepository(trimmed.replace(/\/+$/, "").split("/"));
}

/**
 * Whether the Hub could have a model of this id; legacy ids have no owner.
 * @param {string} id
 */
export function isModelId(id) {
  const segments = id.split("/");
  return (
    segments.length <= 2 && segments.every((segment) => NAME.test(segment)) && !/\.\.|--|\.git$/i.test(id)
  );
}

/** @param {string} address @returns {ModelReference | ReferenceProblem} */
function parseAddress(address) {
  let url;
  try {
    url = new URL(address);
  } catch {
    return problem("bad-id", `"${shown(address)}" is not an address.`, EXAMPLE);
  }
  if (!HUB_HOSTS.has(url.hostname))
    return problem("other-site", `${shown(url.hostname)} is not the Hugging Face Hub.`, EXAMPLE);
  const path = url.pathname
    .replace(/^\/(?:api\/(?=models\/|datasets\/|spaces\/))?/, "")
    .replace(/^models\/(?=.)/, "");
  const segments = path.replace(/\/+$/, "").split("/").map(decoded);
  if (PAGES.has(segments[0] ?? "") || path === "") {
    return problem("not-a-model", `"${shown(address)}" is a page of the Hub, not a model.`, EXAMPLE);
  }
  return parseRepository(segments);
}

/**
 * @param {string[]} segments `owner/name` or `name`, then perhaps `tree/main/…`
 * @returns {ModelReference | ReferenceProblem}
 */
function parseRepository(segments) {
  const [first] = segments;
  if (first === "datasets" || first === "spaces") {
    const kind = first === "datasets" ? "dataset" : "space";
    return problem(kind, `${shown(segments.slice(1, 3).join("/"))} is a ${kind}, not a model.`, EXAMPLE);
  }
  const end = segments.findIndex(
    (segment, place) => (place === 1 || place === 2) && INSIDE_A_REPOSITORY.has(segment),
  );
  if (end === -1) return checked(segments.join("/"), null);
  const [word = "", revision, ...rest] = segments.slice(end);
  const id = segments.slice(0, end).join("/");
  if (revision === undefined || !INSIDE_A_REPOSITORY.get(word)) return checked(id, null);
  return checked(
    id,
    revision === "refs" && rest.length >= 2 ? ["refs", ...rest.slice(0, 2)].join("/") : revision,
  );
}

/** @param {string} id @param {string | null} revision @returns {ModelReference | ReferenceProblem} */
function checked(id, revision) {
  if (!isModelId(id)) return problem("bad-id", `"${shown(id)}" does not name a model.`, EXAMPLE);
  if (
    revision !== null &&
    (revision === "" || revision.length > MAX_REVISION_LENGTH || BAD_REVISION.test(revision))
  ) {
    const hint = `Write a branch, a tag or a commit as ${id}@revision, or leave it out.`;
    return problem("bad-revision", `"${shown(revision)}" is not a revision.`, hint);
  }
  return { kind: "model", id, revision };
}

/** @param {string} segment */
function decoded(segment) {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

/** Any text, fit to be quoted in a sentence: no control or direction marks, not long. @param {string} text */
function shown(text) {
  const clean = text.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, " ");
  return clean.length > 80 ? `${clean.slice(0, 79)}…` : clean;
}

/**
 * @param {ProblemCode} code
 * @param {string} message
 * @param {string} hint
 * @returns {ReferenceProblem}
 */
function problem(code, message, hint) {
  return { kind: "problem", code, message, hint };
}
