/**
 * Small parts that all views build with. Text goes in as text, never as markup.
 * @import { State } from "../report.d.ts"
 */

/**
 * @typedef {object} Parts
 * @property {string} [class]
 * @property {string} [text]
 * @property {Readonly<Record<string, string>>} [attributes]
 */

/**
 * A new element with its class, text, attributes and children.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Parts} [parts]
 * @param {(Node | string)[]} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function element(tag, parts = {}, ...children) {
  const node = document.createElement(tag);
  if (parts.class !== undefined) node.className = parts.class;
  if (parts.text !== undefined) node.textContent = parts.text;
  for (const [name, value] of Object.entries(parts.attributes ?? {})) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/**
 * The element that a selector names; a page without it is broken.
 * @template {Element} T
 * @param {ParentNode} root
 * @param {string} selector
 * @param {new () => T} type
 * @returns {T}
 */
export function find(root, selector, type) {
  const found = root.querySelector(selector);
  if (!(found instanceof type)) throw new TypeError(`the page has no ${type.name} ${selector}`);
  return found;
}

/**
 * The shape of a state. It says nothing that the word beside it does not say.
 * @param {State} state
 */
export function shape(state) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", "shape");
  svg.dataset.state = state;
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `#shape-${state}`);
  svg.append(use);
  return svg;
}

/**
 * Sets a text; where it replaces another one, the change is shown to the eye for a moment.
 * @param {HTMLElement} node
 * @param {string} text
 */
export function setText(node, text) {
  const before = node.textContent;
  if (before === text) return;
  node.textContent = text;
  if (before !== "" && !matchMedia("(prefers-reduced-motion: reduce)").matches) {
    node.animate([{ opacity: 0.35 }, { opacity: 1 }], { duration: 240, easing: "ease-out" });
  }
}
