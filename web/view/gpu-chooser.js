/**
 * Cards that an ambiguous name fits, each with what it would answer; nothing is picked for the reader.
 * @import { GpuChoice } from "../report.d.ts"
 * @import { LinkTo } from "./verdict.js"
 */

import { element, find, shape } from "./element.js";
import { stateOfVerdict } from "./verdict.js";

export class GpuChooser {
  #root;
  #list;

  /** @param {HTMLElement} root */
  constructor(root) {
    this.#root = root;
    this.#list = find(root, "ul", HTMLUListElement);
  }

  /**
   * @param {readonly GpuChoice[]} choices
   * @param {LinkTo} linkTo
   */
  update(choices, linkTo) {
    this.#root.hidden = choices.length === 0;
    this.#list.replaceChildren(
      ...choices.map(({ id, name, sentence, code }) => {
        const words = element(
          "span",
          {},
          element("strong", { text: name }),
          " ",
          element("span", { text: sentence }),
        );
        return element(
          "li",
          {},
          element(
            "a",
            { attributes: { href: linkTo({ gpu: id }), "data-apply": "" } },
            shape(stateOfVerdict(code)),
            words,
          ),
        );
      }),
    );
  }
}
