/**
 * The answer's address: to copy, to pin to the commit that was read, and to embed. Emits `plan-change` to pin.
 * @import { ModelFacts } from "../report.d.ts"
 */

import { find } from "./element.js";

const SAID_FOR_MS = 4000;

/**
 * The line that puts the embed of a plan into a docs site.
 * @param {string} page address of the page with the plan's query
 */
export function embedCode(page) {
  const url = new URL(page);
  url.searchParams.set("embed", "1");
  const src = url.href.replaceAll("&", "&amp;").replaceAll('"', "%22");
  return `<iframe src="${src}" title="Will it serve?" loading="lazy" width="100%" height="300" style="border: 0"></iframe>`;
}

export class ShareView {
  #said;
  #pin;
  /** @type {string} */
  #pinned = "";
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;

  /**
   * @param {HTMLElement} root
   * @param {() => string} address of the plan as it is now
   * @param {AbortSignal} signal
   */
  constructor(root, address, signal) {
    const button = (/** @type {string} */ part) => find(root, `[data-part="${part}"]`, HTMLButtonElement);
    this.#said = find(root, '[data-part="said"]', HTMLElement);
    this.#pin = button("pin");
    button("copy").addEventListener("click", () => this.#copy(address(), "Link copied."), { signal });
    button("embed").addEventListener("click", () => this.#copy(embedCode(address()), "Embed code copied."), {
      signal,
    });
    this.#pin.addEventListener(
      "click",
      () =>
        root.dispatchEvent(
          new CustomEvent("plan-change", { bubbles: true, detail: { model: this.#pinned } }),
        ),
      { signal },
    );
  }

  /**
   * @param {ModelFacts} model
   * @param {string} asked the model as the link names it
   */
  update({ id, revision }, asked) {
    this.#pinned = revision === null ? "" : `${id}@${revision}`;
    this.#pin.hidden = revision === null || asked === this.#pinned;
    this.#pin.textContent = `Pin to commit ${revision?.slice(0, 7) ?? ""}`;
  }

  /**
   * @param {string} text
   * @param {string} done
   */
  async #copy(text, done) {
    try {
      await navigator.clipboard.writeText(text);
      this.#say(done);
    } catch {
      // Without the right to the clipboard (plain http, an iframe) the reader gets the text itself.
      this.#say(text);
    }
  }

  /** @param {string} text */
  #say(text) {
    clearTimeout(this.#timer);
    this.#said.textContent = text;
    if (text.length < 30) this.#timer = setTimeout(() => this.#said.replaceChildren(), SAID_FOR_MS);
  }
}
