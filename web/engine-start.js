/**
 * Starts the engine as soon as its own few modules are there, while the rest of the page's modules still come: the page
 * loads this file with a script element of its own, and main.js joins later.
 * @import { Status } from "./protocol.js"
 */

import { EngineClient } from "./engine-client.js";

/** @type {(status: Status) => void} */
let tell = () => {};

export const engine = new EngineClient({ onStatus: (status) => tell(status) });

/**
 * Tells how the start goes, beginning with where it is now.
 * @param {(status: Status) => void} listener
 */
export function followEngine(listener) {
  tell = listener;
  listener(engine.status);
}
