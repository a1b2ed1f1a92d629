/**
 * The form of the plan: model, card, users, context, and the rest under "More".
 * Emits `plan-change` with the URL keys to change, and `folder` with the files of a chosen folder. On a narrow screen the form is a sheet behind one line.
 * @import { Catalog, PlanReport } from "../report.d.ts"
 * @import { NumberFormat } from "../format.js"
 * @import { State } from "../state.js"
 */

import { AmountInput, tokenStops, userStops } from "./amount-input.js";
import { element, find } from "./element.js";
import { GpuPicker } from "./gpu-picker.js";
import { ModelInput } from "./model-input.js";

/** Ends of the sliders; the boxes beside them take any amount. */
const MAX_USERS = 1024;
const MAX_TOKENS = 1_048_576;

const OTHER_KEYS = /** @type {const} */ (["weights", "kv", "tp", "pp", "engine", "util"]);
const NARROW = "(width < 48rem)";

export class Controls {
  #form;
  #format;
  #model;
  #gpu;
  #users;
  #context;
  #line;
  #open;
  /** @type {Readonly<Record<string, string>>} */
  #defaults = {};
  /** @type {State} */
  #state = {};

  /**
   * @param {ParentNode} root
   * @param {NumberFormat} format
   * @param {AbortSignal} signal
   */
  constructor(root, format, signal) {
    this.#form = find(root, "#controls", HTMLFormElement);
    this.#format = format;
    this.#line = find(root, "#plan-line", HTMLElement);
    this.#open = find(root, "#open-controls", HTMLButtonElement);
    const input = (/** @type {string} */ id) => find(root, id, HTMLInputElement);
    const number = (/** @type {number} */ amount) => format.number(amount);
    this.#model = new ModelInput(input("#model"), find(root, "#models", HTMLDataListElement), signal);
    this.#gpu = new GpuPicker(find(root, "#gpu", HTMLSelectElement));
    this.#users = new AmountInput(
      input("#users"),
      input("#users-slider"),
      (amount) => `${number(amount)} users`,
      signal,
    );
    this.#context = new AmountInput(
      input("#context"),
      input("#context-slider"),
      (amount) => `${number(amount)} tokens`,
      signal,
    );
    this.#users.setStops(userStops(MAX_USERS));
    this.#context.setStops(tokenStops(MAX_TOKENS));
    for (const type of ["amount", "model"]) {
      this.#form.addEventListener(
        type,
        (event) => this.#change(event.target, /** @type {CustomEvent<string>} */ (event).detail),
        { signal },
      );
    }
    this.#form.addEventListener("change", (event) => this.#changeOther(event.target), { signal });
    this.#form.addEventListener("submit", (event) => this.#submit(event), { signal });
    const folder = input("#folder");
    folder.addEventListener("change", () => this.#chooseFolder(folder), { signal });
    const more = find(root, "#more", HTMLButtonElement);
    more.addEventListener("click", () => this.#showMore(more.getAttribute("aria-expanded") === "false"), {
      signal,
    });
    const narrow = matchMedia(NARROW);
    narrow.addEventListener("change", () => this.#fold(narrow.matches), { signal });
    this.#fold(narrow.matches);
  }

  /**
   * What the catalog offers.
   * @param {Catalog} catalog
   */
  setCatalog({ gpus, models, engines }) {
    this.#model.setSuggestions(models);
    this.#gpu.setCards(gpus);
    const engine = find(this.#form, "#engine", HTMLSelectElement);
    engine.replaceChildren(
      ...engines.map(({ id, name }) => element("option", { text: name, attributes: { value: id } })),
    );
    this.set(this.#state, this.#defaults);
  }

  /**
   * Shows a state, with the value of each key that it leaves out.
   * @param {State} state
   * @param {Readonly<Record<string, string>>} defaults
   */
  set(state, defaults) {
    this.#state = state;
    this.#defaults = defaults;
    this.#model.set(state.model ?? defaults.model ?? "");
    this.#gpu.set(state.gpu ?? defaults.gpu ?? "");
    this.#users.set(state.users ?? defaults.users ?? "");
    this.#context.set(state.context ?? defaults.context ?? "");
    for (const key of OTHER_KEYS) this.#setOther(key, state[key] ?? defaults[key] ?? "");
    this.#line.textContent = this.#planLine();
  }

  /**
   * What an answer says about the form: the longest context, the card that a name meant, values that were decided by
   * model and card, and defaults in place of what could not be used.
   * @param {PlanReport} report
   * @param {State} state
   */
  setReport({ model, gpu, query, defaults, problems }, state) {
    const unusable = new Set(problems.map(({ field }) => field));
    const usable = Object.fromEntries(
      Object.entries(state).filter(([key]) => key === "gpu" || !unusable.has(key)),
    );
    this.#context.setStops(tokenStops(model.max_model_len ?? MAX_TOKENS));
    this.set(gpu === null ? usable : { ...usable, gpu: gpu.id }, { ...defaults, ...query });
  }

  #planLine() {
    const value = (/** @type {string} */ id) => find(this.#form, id, HTMLInputElement).value;
    const users = value("#users");
    const context = value("#context");
    return [
      value("#model").replace(/^[^/]*\//, ""),
      this.#gpu.text.split(" · ")[0] ?? "",
      users === "" ? "" : `${this.#format.number(Number(users))} users`,
      context === "" ? "" : `${this.#format.number(Number(context))} tokens`,
    ]
      .filter((part) => part !== "")
      .join(" · ");
  }

  /**
   * @param {typeof OTHER_KEYS[number]} key
   * @param {string} value
   */
  #setOther(key, value) {
    const field = find(this.#form, `#${key}`, HTMLElement);
    if (field instanceof HTMLSelectElement) setOption(field, value);
    else if (field instanceof HTMLInputElement && document.activeElement !== field) field.value = value;
  }

  /**
   * @param {EventTarget | null} target
   * @param {string} value
   */
  #change(target, value) {
    if (!(target instanceof HTMLInputElement)) return;
    this.#form.dispatchEvent(
      new CustomEvent("plan-change", { bubbles: true, detail: { [target.name]: value } }),
    );
  }

  /** @param {EventTarget | null} target a field that applies when it is done with */
  #changeOther(target) {
    const isOther =
      (target instanceof HTMLSelectElement || target instanceof HTMLInputElement) && target.name !== "";
    if (!isOther || ["model", "users", "context"].includes(target.name)) return;
    this.#form.dispatchEvent(
      new CustomEvent("plan-change", { bubbles: true, detail: { [target.name]: target.value.trim() } }),
    );
  }

  /** @param {HTMLInputElement} input */
  #chooseFolder(input) {
    const files = [...(input.files ?? [])];
    input.value = "";
    if (files.length > 0)
      this.#form.dispatchEvent(new CustomEvent("folder", { bubbles: true, detail: files }));
  }

  /** @param {SubmitEvent} event */
  #submit(event) {
    event.preventDefault();
    if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
  }

  /** @param {boolean} shown */
  #showMore(shown) {
    find(this.#form, "#more", HTMLButtonElement).setAttribute("aria-expanded", String(shown));
    find(this.#form, "#more-fields", HTMLElement).hidden = !shown;
  }

  /** @param {boolean} narrow */
  #fold(narrow) {
    if (narrow) this.#form.setAttribute("popover", "auto");
    else this.#form.removeAttribute("popover");
    this.#open.hidden = !narrow;
  }
}

/**
 * Chooses a value; one that is not offered is offered as it was given, for the core to judge.
 * @param {HTMLSelectElement} select
 * @param {string} value
 */
function setOption(select, value) {
  if (![...select.options].some((option) => option.value === value)) {
    select.querySelector("[data-given]")?.remove();
    if (value !== "")
      select.prepend(element("option", { text: value, attributes: { value, "data-given": "" } }));
  }
  select.value = value;
}
