// Waiting: a clock that tests can replace, a pause shared by all requests, and a limit to silence.

/**
 * @typedef {{ now: () => number, sleep: (ms: number, signal?: AbortSignal) => Promise<void> }} Clock
 */

/** @type {Clock} */
export const realClock = {
  now: () => performance.now(),
  sleep: (ms, signal) =>
    new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      const abort = () => {
        clearTimeout(timer);
        reject(signal?.reason);
      };
      const timer = setTimeout(() => {
        signal?.removeEventListener("abort", abort);
        resolve();
      }, ms);
      signal?.addEventListener("abort", abort, { once: true });
    }),
};

/**
 * Pauses after each refusal in a row, 300 s in all: the Hub's window, of which pages cannot read what is
 * left.
 */
export const PAUSES_S = [5, 10, 20, 40, 75, 150];

/** The pause that every request of a client keeps after the Hub said "too many". */
export class Backoff {
  #clock;
  #onWait;
  #until = Number.NEGATIVE_INFINITY;
  #refusals = 0;
  #lastShown = -1;

  /**
   * @param {Clock} clock
   * @param {(secondsLeft: number) => void} onWait called once for each second that is left
   */
  constructor(clock, onWait) {
    this.#clock = clock;
    this.#onWait = onWait;
  }

  /** Wait until requests may be sent again. @param {AbortSignal | undefined} signal */
  async wait(signal) {
    for (let left = this.#until - this.#clock.now(); left > 0; left = this.#until - this.#clock.now()) {
      const seconds = Math.ceil(left / 1000);
      if (seconds !== this.#lastShown) this.#onWait(seconds);
      this.#lastShown = seconds;
      await this.#clock.sleep(Math.min(1000, left), signal);
    }
  }

  /**
   * A request that was sent at `sentAt` was refused.
   * @param {number} sentAt
   * @returns {boolean} whether it may be sent again after `wait`; false when the whole window has passed
   */
  refused(sentAt) {
    // Many are in flight when the Hub begins to refuse: one that was sent before the present pause says
    // nothing new.
    if (sentAt < this.#until) return true;
    const pause = PAUSES_S[this.#refusals];
    if (pause === undefined) return false;
    this.#refusals += 1;
    this.#until = this.#clock.now() + pause * 1000;
    return true;
  }

  /** @param {number} sentAt */
  accepted(sentAt) {
    if (sentAt >= this.#until) this.#refusals = 0;
  }
}

/** Aborts a request when its caller does, or when nothing has come for `idleMs`. */
export class IdleLimit {
  #controller = new AbortController();
  #idleMs;
  #outer;
  #timer;
  expired = false;

  /** @param {number} idleMs @param {AbortSignal | undefined} outer */
  constructor(idleMs, outer) {
    outer?.throwIfAborted();
    this.#idleMs = idleMs;
    this.#outer = outer;
    this.#timer = this.#start();
    outer?.addEventListener("abort", this.#abort, { once: true });
  }

  get signal() {
    return this.#controller.signal;
  }

  /** Something came: count from now. */
  progress() {
    clearTimeout(this.#timer);
    this.#timer = this.#start();
  }

  /** The request is over, one way or another; what is still arriving is dropped. */
  end() {
    clearTimeout(this.#timer);
    this.#outer?.removeEventListener("abort", this.#abort);
    this.#controller.abort();
  }

  #start() {
    return setTimeout(() => {
      this.expired = true;
      this.#controller.abort();
    }, this.#idleMs);
  }

  #abort = () => this.#controller.abort(this.#outer?.reason);
}
