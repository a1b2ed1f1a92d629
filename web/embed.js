/**
 * `<will-it-serve model="Qwen/Qwen3-8B" gpu="l4-24gb" users="16" context="8192">` for docs sites: the compact answer in
 * an iframe that loads when it comes into sight and is as high as its content.
 *
 * Use it as `<script type="module" src="…/embed.js"></script>`; it takes the page from its own folder.
 */

const PAGE = new URL("./", import.meta.url);
const ATTRIBUTES = [
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
  "theme",
];
/** The sandbox of a frame without an origin cannot start a worker; links open in a tab of their own. */
const SANDBOX = "allow-scripts allow-same-origin allow-popups allow-popups-to-escape-sandbox";
const FIRST_HEIGHT = 300;
const MAX_HEIGHT = 2000;

class WillItServe extends HTMLElement {
  static observedAttributes = ATTRIBUTES;
  #frame = document.createElement("iframe");
  #life = new AbortController();

  connectedCallback() {
    this.#life = new AbortController();
    const frame = this.#frame;
    frame.loading = "lazy";
    frame.title = "Will it serve?";
    frame.sandbox.value = SANDBOX;
    frame.style.cssText = `display: block; inline-size: 100%; block-size: ${FIRST_HEIGHT}px; border: 0; color-scheme: normal`;
    this.#load();
    addEventListener("message", (event) => this.#receive(event), { signal: this.#life.signal });
    this.append(frame);
  }

  disconnectedCallback() {
    this.#life.abort();
    this.#frame.remove();
  }

  attributeChangedCallback() {
    if (this.isConnected) this.#load();
  }

  #load() {
    const page = new URL(PAGE);
    for (const name of ATTRIBUTES) {
      const value = this.getAttribute(name);
      if (value !== null && value !== "") page.searchParams.set(name, value);
    }
    page.searchParams.set("embed", "1");
    if (this.#frame.src !== page.href) this.#frame.src = page.href;
  }

  /** @param {MessageEvent} event */
  #receive({ origin, source, data }) {
    if (origin !== PAGE.origin || source !== this.#frame.contentWindow) return;
    if (typeof data !== "object" || data === null || data.kind !== "will-it-serve:height") return;
    const { height } = data;
    if (typeof height === "number" && height > 0)
      this.#frame.style.blockSize = `${Math.min(Math.ceil(height), MAX_HEIGHT)}px`;
  }
}

customElements.define("will-it-serve", WillItServe);
