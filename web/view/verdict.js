/**
 * The answer in one sentence, what it rests on, and the ways out.
 * @import { PlanReport, State, VerdictCode, WayOut } from "../report.d.ts"
 */

import { unreachable } from "../protocol.js";
import { element, find, setText, shape } from "./element.js";

/**
 * The state that a verdict is drawn with.
 * @param {VerdictCode} code
 * @returns {State}
 */
export function stateOfVerdict(code) {
  switch (code) {
    case "serves":
      return "ok";
    case "serves-with-changes":
      return "tight";
    case "context-too-long":
    case "serves-nobody":
    case "does-not-fit":
    case "will-not-start":
      return "no";
    case "unknown":
      return "unknown";
    default:
      return unreachable(code, "verdict of an unknown kind");
  }
}

/** Characters of a sentence that still fits two large lines. */
const SHORT_SENTENCE = 80;

/** @typedef {(query: Record<string, string>) => string} LinkTo the address of the plan with these changes */

export class VerdictView {
  #root;
  #sentence;
  #text = element("span");
  #mark = element("span", { class: "verdict-shape" });
  #basis;
  #waysOut;
  #waysTitle = element("h3", { class: "section-title" });

  /** @param {ParentNode} root */
  constructor(root) {
    this.#root = find(root, ".verdict-block", HTMLElement);
    this.#sentence = find(root, "#verdict", HTMLElement);
    this.#basis = find(root, "#basis", HTMLElement);
    this.#waysOut = find(root, "#ways-out", HTMLElement);
    this.#sentence.replaceChildren(this.#mark, this.#text);
  }

  /**
   * What is asked, until it is answered.
   * @param {string} question
   */
  ask(question) {
    this.#say(question);
    this.#mark.replaceChildren();
    delete this.#root.dataset.state;
  }

  /**
   * @param {PlanReport} report
   * @param {LinkTo} linkTo
   */
  update({ verdict, model, engine, ways_out }, linkTo) {
    const state = stateOfVerdict(verdict.code);
    this.#root.dataset.state = state;
    this.#say(verdict.sentence);
    this.#mark.replaceChildren(shape(state));
    const said = verdict.sentence.includes(model.source_sentence);
    setText(this.#basis, said ? engine : `${model.source_sentence} · ${engine}`);
    this.#waysTitle.textContent = state === "ok" ? "Also possible" : "Ways out";
    const list = element("ul", {}, ...ways_out.map((way) => element("li", {}, wayLink(way, linkTo))));
    this.#waysOut.replaceChildren(...(ways_out.length > 0 ? [this.#waysTitle, list] : []));
  }

  /** @param {string} sentence */
  #say(sentence) {
    this.#sentence.dataset.length = sentence.length > SHORT_SENTENCE ? "long" : "short";
    setText(this.#text, sentence);
  }
}

/**
 * @param {WayOut} way
 * @param {LinkTo} linkTo
 */
function wayLink(way, linkTo) {
  const text = element("span", { text: way.sentence });
  return element(
    "a",
    { attributes: { href: linkTo(way.query), "data-apply": "" } },
    shape(stateOfVerdict(way.code)),
    text,
  );
}
