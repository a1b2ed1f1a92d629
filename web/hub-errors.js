// What can be wrong between the page and the Hub: one sentence of what was found, one of what to do next.

/**
 * @typedef {"not-found" | "gated" | "gated-not-approved" | "bad-token" | "forbidden" | "disabled"
 *   | "bad-revision" | "no-file" | "rate-limited" | "unavailable" | "unreachable" | "cdn-unreachable"
 *   | "cdn-refused" | "timeout" | "no-range" | "bad-range" | "truncated" | "bad-file" | "too-large"
 *   | "bad-answer" | "unexpected"} HubErrorCode
 */

/**
 * What was asked for, for the sentences.
 * @typedef {object} Asked
 * @property {string} id
 * @property {string | null} revision null: the default branch
 * @property {string} [path] of a file; none: the model's description
 * @property {boolean} hasToken
 * @property {string} endpoint
 */

export class HubError extends Error {
  /**
   * @param {HubErrorCode} code
   * @param {string} message what was found
   * @param {string} hint what to do next
   * @param {object} [more]
   * @param {string | null} [more.link] the page of the Hub where it is done
   * @param {number | null} [more.status] of the answer
   * @param {unknown} [more.cause]
   */
  constructor(code, message, hint, { link = null, status = null, cause } = {}) {
    super(message, { cause });
    this.name = "HubError";
    this.code = code;
    this.hint = hint;
    this.link = link;
    this.status = status;
  }
}

const OR_LOCAL = "or read the model's folder on this computer";

/** @param {Asked} asked */
const fileOf = ({ id, path }) => (path ? `${path} of ${id}` : id);
/** @param {Asked} asked */
const pageOf = ({ id, endpoint }) => `${endpoint}/${id}`;
/** @param {Asked} asked */
const treeOf = (asked) => `${pageOf(asked)}/tree/${encodeURIComponent(asked.revision ?? "main")}`;
/** @param {Asked} asked */
const tokensOf = ({ endpoint }) => `${endpoint}/settings/tokens`;

/**
 * The error that an answer of the Hub or of its file servers means.
 *
 * A 401 without a code is a missing repository as often as a private one, whatever its text says about
 * passwords: the Hub does not tell them apart.
 *
 * @param {Response} response
 * @param {string} body the beginning of its text
 * @param {Asked} asked
 * @returns {HubError}
 */
export function errorOfAnswer(response, body, asked) {
  const { status } = response;
  const code = response.headers.get("X-Error-Code");
  const said = response.headers.get("X-Error-Message") ?? body;
  const isFromFileServer =
    response.url !== "" && new URL(response.url).origin !== new URL(asked.endpoint).origin;

  if (status === 429) return rateLimited(asked);
  if (status === 416) return badFile(asked, "it is too small for a header");
  if (status >= 500) return unavailable(status);
  if (isFromFileServer) return cdnRefused(asked, status);
  if (code === "GatedRepo") return gated(asked, status);
  if (code === "RevisionNotFound") return badRevision(asked, status);
  if (code === "EntryNotFound" || (status === 404 && code === null && asked.path))
    return noFile(asked, status);
  if (status === 401 && said.includes("Invalid credentials")) return badToken(asked);
  if (status === 401 || status === 404) return notFound(asked, status);
  if (status === 403 && said.includes("disabled")) return disabled(asked);
  if (status === 403) return forbidden(asked);
  const message = `The Hub gave an answer this page does not know (status ${status}) for ${fileOf(asked)}.`;
  return new HubError("unexpected", message, `Try again, ${OR_LOCAL}.`, { status });
}

/** @param {Asked} asked @param {number} status */
function gated(asked, status) {
  const more = { link: pageOf(asked), status };
  if (status === 403) {
    const message = `${asked.id} is gated, and the account of this token has not been let in.`;
    return new HubError(
      "gated-not-approved",
      message,
      `Ask for access on the model's page, ${OR_LOCAL}.`,
      more,
    );
  }
  const message = `${asked.id} is gated: its files are open only to accounts that were given access.`;
  const hint = `Ask for access on the model's page and use a token of that account, ${OR_LOCAL}.`;
  return new HubError("gated", message, hint, more);
}

/** @param {Asked} asked @param {number} status */
function badRevision(asked, status) {
  const message = `${asked.id} has no revision "${asked.revision ?? "main"}".`;
  const hint = "Give a branch, a tag or a commit of that repository, or leave the revision out.";
  return new HubError("bad-revision", message, hint, { link: pageOf(asked), status });
}

/** @param {Asked} asked @param {number} status */
function noFile(asked, status) {
  const message = `${asked.id} has no file ${asked.path ?? "of that name"}.`;
  return new HubError("no-file", message, "Look at its files on the Hub.", { link: treeOf(asked), status });
}

/** @param {Asked} asked */
export function badToken(asked) {
  const hint = "It may be mistyped, expired or revoked. Make a new one on the Hub, or go on without a token.";
  return new HubError("bad-token", "The Hub does not accept this token.", hint, {
    link: tokensOf(asked),
    status: 401,
  });
}

/** @param {Asked} asked @param {number} status */
function notFound(asked, status) {
  const message = `${asked.id} was not found on the Hub, or it is private.`;
  const hint = asked.hasToken
    ? "Check the spelling. A private model needs a token of an account that may read it."
    : `Check the spelling. For a private model use a token, ${OR_LOCAL}.`;
  const link = `${asked.endpoint}/models?search=${encodeURIComponent(asked.id)}`;
  return new HubError("not-found", message, hint, { link, status });
}

/** @param {Asked} asked */
export function disabled(asked) {
  const hint = `Choose another model, ${OR_LOCAL}.`;
  return new HubError("disabled", `${asked.id} is disabled on the Hub.`, hint, {
    link: pageOf(asked),
    status: 403,
  });
}

/** @param {Asked} asked */
function forbidden(asked) {
  const message = `The Hub does not let this ${asked.hasToken ? "token" : "page"} read ${fileOf(asked)}.`;
  const hint = `A token needs the right to read this repository's contents. Give it that right, ${OR_LOCAL}.`;
  return new HubError("forbidden", message, hint, { link: tokensOf(asked), status: 403 });
}

/** @param {Asked} asked */
function rateLimited(asked) {
  const hint = asked.hasToken
    ? "It counts over five minutes: try again then."
    : "It counts over five minutes, for all who share the address: try again then, or use a token.";
  return new HubError("rate-limited", "The Hub takes no more requests from this address for now.", hint, {
    status: 429,
  });
}

/** @param {number} status */
function unavailable(status) {
  const message = `The Hub answered with an error of its own (status ${status}).`;
  const link = "https://status.huggingface.co";
  return new HubError("unavailable", message, `Try again in a few minutes, ${OR_LOCAL}.`, { link, status });
}

/** @param {Asked} asked @param {number} status */
function cdnRefused(asked, status) {
  const message = `The Hub's file server refused to send ${fileOf(asked)} (status ${status}).`;
  return new HubError("cdn-refused", message, `Try again in a minute, ${OR_LOCAL}.`, { status });
}

/** @param {Asked} asked @param {unknown} cause */
export function unreachable(asked, cause) {
  const host = new URL(asked.endpoint).host;
  const message = `${host} could not be reached, or turned this page away without a reason.`;
  const hint =
    "Check the connection, a blocker or a firewall. Too many requests from this address look the same and end " +
    `after five minutes. Try again then, ${OR_LOCAL}.`;
  return new HubError("unreachable", message, hint, { cause });
}

/**
 * The Hub answers; the host that it sends to for large files does not.
 * @param {Asked} asked @param {unknown} cause
 */
export function cdnUnreachable(asked, cause) {
  const message = `The Hub answers, but the server that holds ${fileOf(asked)} could not be read.`;
  const hint = asked.hasToken
    ? "A firewall may stop *.hf.co, or that server refuses what this browser asks when there is a token. " +
      `Try another browser, or an open model without the token, ${OR_LOCAL}.`
    : `A firewall or a blocker may stop *.hf.co. Allow it, ${OR_LOCAL}.`;
  return new HubError("cdn-unreachable", message, hint, { cause });
}

/** @param {Asked} asked @param {number} idleMs */
export function timedOut(asked, idleMs) {
  const message = `Nothing came for ${idleMs / 1000} s when the Hub was asked for ${fileOf(asked)}.`;
  return new HubError("timeout", message, `Try again, ${OR_LOCAL}.`);
}

/** @param {Asked} asked @param {unknown} [cause] */
export function truncated(asked, cause) {
  const message = `${fileOf(asked)} broke off before all that was asked for had come.`;
  return new HubError("truncated", message, `Try again, ${OR_LOCAL}.`, { cause });
}

/** @param {Asked} asked */
export function noRange(asked) {
  const message = `The server offers ${fileOf(asked)} only whole, and this page reads no more than headers.`;
  const hint = `Something on the way to the Hub drops the Range header. Try another network, ${OR_LOCAL}.`;
  return new HubError("no-range", message, hint, { status: 200 });
}

/** @param {Asked} asked @param {string} found */
export function badRange(asked, found) {
  const message = `For ${fileOf(asked)} the server sent another part than was asked for: ${found}.`;
  const hint = `A cache on the way to the Hub may be wrong. Try another network, ${OR_LOCAL}.`;
  return new HubError("bad-range", message, hint);
}

/** @param {Asked} asked @param {string} found */
export function badFile(asked, found) {
  const message = `${fileOf(asked)} is not a safetensors file: ${found}.`;
  const hint = "Look at it on the Hub, or choose another revision or model.";
  return new HubError("bad-file", message, hint, { link: treeOf(asked) });
}

/** @param {Asked} asked @param {unknown} cause */
export function notText(asked, cause) {
  const message = `${fileOf(asked)} is not UTF-8 text.`;
  return new HubError("bad-file", message, "Look at it on the Hub.", { link: treeOf(asked), cause });
}

/** @param {Asked} asked @param {string} what @param {number} limitBytes */
export function tooLarge(asked, what, limitBytes) {
  const message = `${what} is more than the ${limitBytes / 1e6} MB that this page reads.`;
  const hint = "Plan this model on the command line, from a copy on disk.";
  return new HubError("too-large", message, hint, { link: treeOf(asked) });
}

/** @param {Asked} asked */
export function badAnswer(asked) {
  const message = `What came for ${asked.id} is not the Hub's description of a model.`;
  return new HubError(
    "bad-answer",
    message,
    `If the endpoint is a mirror, use huggingface.co itself, ${OR_LOCAL}.`,
  );
}

/** @param {string} path */
export function badPath(path) {
  const message = `"${path}" is not the name of a file in a repository.`;
  return new HubError(
    "bad-file",
    message,
    "The repository is broken, or made to mislead. Choose another model.",
  );
}
